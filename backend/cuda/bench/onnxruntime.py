# BERT-base in onnxruntime's CUDA provider: whole runs with copies, and CUDA graphs over bound buffers without copies. In the folder where it runs
# lie bert-base-fp16.onnx and bert-base-fused.onnx, of `rlxc models NAME -o NAME.onnx`; onnxruntime-gpu is on PYTHONPATH and torch's libraries of CUDA on
# LD_LIBRARY_PATH.
import time, numpy as np, onnxruntime as ort
def measure(path, tf32, graph, b, s):
    options = ort.SessionOptions(); options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=[("CUDAExecutionProvider", {"use_tf32": tf32, "enable_cuda_graph": graph})])
    assert session.get_providers()[0] == "CUDAExecutionProvider"
    random = np.random.default_rng(0)
    inputs = {"input_ids": random.integers(0, 1000, (b, s)), "attention_mask": np.ones((b, s)), "token_type_ids": np.zeros((b, s))}
    inputs = {i.name: inputs[i.name].astype(np.int64) for i in session.get_inputs()}
    run = lambda: session.run(None, inputs)
    if graph:
        binding, kept = session.io_binding(), []
        for name, x in inputs.items():
            kept.append(ort.OrtValue.ortvalue_from_numpy(x, "cuda", 0)); binding.bind_ortvalue_input(name, kept[-1])
        for y in session.get_outputs():
            shape = [b, s, 768] if len(y.shape) == 3 else [b, 768]
            kept.append(ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float16 if "16" in y.type else np.float32, "cuda", 0)); binding.bind_ortvalue_output(y.name, kept[-1])
        run = lambda: session.run_with_iobinding(binding)
    for _ in range(3): run()
    start = time.time()
    while time.time() - start < .1: run()
    times = []
    for _ in range(30):
        t = time.perf_counter(); run(); times.append(time.perf_counter() - t)
    return sorted(times)[15] * 1e3
for name, path, tf32 in (("fp16", "bert-base-fp16.onnx", 0), ("tf32", "bert-base-fused.onnx", 1), ("fp32", "bert-base-fused.onnx", 0)):
    for b, s in ((1, 32), (1, 128), (1, 512), (8, 128), (32, 128), (128, 128)):
        print(f"onnxruntime {ort.__version__} {name} {b}x{s} run {measure(path, tf32, 0, b, s):.3f} ms, graph {measure(path, tf32, 1, b, s):.3f} ms", flush=True)
