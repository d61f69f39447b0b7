# BERT-base in torch by CUDA graphs, without copies: what backend/cuda is compared with.
import sys, time, torch, transformers
torch.manual_seed(0)
for name, dt, tf in (("fp16", torch.float16, False), ("tf32", torch.float32, True), ("fp32", torch.float32, False)):
    torch.backends.cuda.matmul.allow_tf32 = tf
    m = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa")).cuda().eval().to(dt)
    for b, s in ((1, 32), (1, 128), (1, 512), (8, 128), (32, 128), (128, 128)):
        ids = torch.randint(0, 1000, (b, s), device="cuda"); mask = torch.ones_like(ids)
        st = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(st):
            for _ in range(3): m(ids, attention_mask=mask)
            st.synchronize(); g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g, stream=st): m(ids, attention_mask=mask)
            t0 = time.time()
            while time.time() - t0 < .1: g.replay(); st.synchronize()
            ts = []
            for _ in range(30):
                t = time.perf_counter(); g.replay(); st.synchronize(); ts.append(time.perf_counter() - t)
        print(f"torch {name} {b}x{s} {sorted(ts)[15]*1e3:.3f} ms", flush=True)
