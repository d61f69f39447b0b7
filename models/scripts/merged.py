"""Exports small decoders of many families as optimum does, and records what onnxruntime generates.

    pip install numpy onnx onnxruntime==1.32.0 torch optimum-onnx transformers==4.57.1
    python merged.py ../../testdata/decoders                # those that the tests have
    python merged.py OUT mistral gpt-neo …                  # others of FAMILIES

OUT/NAME.zip holds model.onnx and generations.json, and encoder.onnx for t5. Encoder-decoders, and gpt2-merged, are merged: an If on use_cache_branch chooses
between a first step and those with a cache. Weights are random multiples of 1/256, so that they compress well.
"""

import json
import logging
import pathlib
import sys
import tempfile
import warnings
import zipfile

import numpy as np
import onnx
import onnxruntime as ort
import torch
import transformers as T
from onnx import TensorProto, helper, numpy_helper
from optimum.exporters.onnx import onnx_export_from_model

VOCABULARY, HIDDEN = 100, 32
SIZES = dict(vocab_size=VOCABULARY, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=4)
LLAMA = SIZES | dict(intermediate_size=48, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GPT = dict(vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=2, n_head=4, n_positions=64)
T5 = dict(vocab_size=VOCABULARY, d_model=HIDDEN, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
BART = dict(vocab_size=VOCABULARY, d_model=HIDDEN, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
            decoder_ffn_dim=48, max_position_embeddings=64, pad_token_id=1, decoder_start_token_id=1, bos_token_id=0, eos_token_id=2)
WHISPER = {k: v for k, v in BART.items() if k != "max_position_embeddings"} | dict(max_target_positions=64, max_source_positions=1500, num_mel_bins=16)
FALCON = SIZES | dict(multi_query=True, new_decoder_architecture=False)
TEXT, PAIRS = "text-generation-with-past", "text2text-generation-with-past"


def trocr():
    encoder = T.ViTModel(T.ViTConfig(hidden_size=HIDDEN, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=16))
    decoder = T.TrOCRConfig(vocab_size=VOCABULARY, d_model=HIDDEN, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48, max_position_embeddings=64,
                            cross_attention_hidden_size=HIDDEN, is_decoder=True, add_cross_attention=True)
    return T.VisionEncoderDecoderModel(encoder=encoder, decoder=T.TrOCRForCausalLM(decoder))


FAMILIES = {
    "gpt2-merged": (TEXT, lambda: T.GPT2LMHeadModel(T.GPT2Config(**GPT))),
    "llama": (TEXT, lambda: T.LlamaForCausalLM(T.LlamaConfig(**LLAMA, num_key_value_heads=2))),
    "mistral": (TEXT, lambda: T.MistralForCausalLM(T.MistralConfig(**LLAMA, num_key_value_heads=2, sliding_window=8))),
    "gemma2": (TEXT, lambda: T.Gemma2ForCausalLM(T.Gemma2Config(**LLAMA, num_key_value_heads=2, head_dim=8, sliding_window=8))),
    "gemma3": (TEXT, lambda: T.Gemma3ForCausalLM(T.Gemma3TextConfig(**LLAMA, num_key_value_heads=1, head_dim=8, sliding_window=8))),
    "phi": (TEXT, lambda: T.PhiForCausalLM(T.PhiConfig(**LLAMA))),
    "phi3": (TEXT, lambda: T.Phi3ForCausalLM(T.Phi3Config(**LLAMA, num_key_value_heads=2, sliding_window=8))),
    "qwen3": (TEXT, lambda: T.Qwen3ForCausalLM(T.Qwen3Config(**LLAMA, num_key_value_heads=2, head_dim=8))),
    "qwen3-moe": (TEXT, lambda: T.Qwen3MoeForCausalLM(T.Qwen3MoeConfig(**LLAMA, num_key_value_heads=2, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16))),
    "bloom": (TEXT, lambda: T.BloomForCausalLM(T.BloomConfig(vocab_size=VOCABULARY, hidden_size=HIDDEN, n_layer=2, n_head=4))),
    "mpt": (TEXT, lambda: T.MptForCausalLM(T.MptConfig(vocab_size=VOCABULARY, d_model=HIDDEN, n_layers=2, n_heads=4, max_seq_len=64, expansion_ratio=2))),
    "falcon": (TEXT, lambda: T.FalconForCausalLM(T.FalconConfig(**FALCON, parallel_attn=True, bias=False, alibi=False))),
    "falcon-alibi": (TEXT, lambda: T.FalconForCausalLM(T.FalconConfig(**FALCON, parallel_attn=False, bias=True, alibi=True))),
    "opt": (TEXT, lambda: T.OPTForCausalLM(T.OPTConfig(**SIZES, ffn_dim=48, max_position_embeddings=64, word_embed_proj_dim=HIDDEN))),
    "gpt-neox": (TEXT, lambda: T.GPTNeoXForCausalLM(T.GPTNeoXConfig(**LLAMA))),
    "gptj": (TEXT, lambda: T.GPTJForCausalLM(T.GPTJConfig(**GPT, rotary_dim=4))),
    "gpt-neo": (TEXT, lambda: T.GPTNeoForCausalLM(T.GPTNeoConfig(vocab_size=VOCABULARY, hidden_size=HIDDEN, num_layers=2, num_heads=4, max_position_embeddings=64,
                                                                 attention_types=[[["global", "local"], 1]], window_size=8))),
    "codegen": (TEXT, lambda: T.CodeGenForCausalLM(T.CodeGenConfig(**GPT, rotary_dim=4))),
    "gpt-bigcode": (TEXT, lambda: T.GPTBigCodeForCausalLM(T.GPTBigCodeConfig(**GPT, multi_query=True))),
    "olmo": (TEXT, lambda: T.OlmoForCausalLM(T.OlmoConfig(**LLAMA))),
    "granite": (TEXT, lambda: T.GraniteForCausalLM(T.GraniteConfig(**LLAMA, num_key_value_heads=2))),
    "stablelm": (TEXT, lambda: T.StableLmForCausalLM(T.StableLmConfig(**LLAMA, num_key_value_heads=2))),
    "cohere": (TEXT, lambda: T.CohereForCausalLM(T.CohereConfig(**LLAMA, num_key_value_heads=2))),
    "t5": (PAIRS, lambda: T.T5ForConditionalGeneration(T.T5Config(**T5))),
    "mt5": (PAIRS, lambda: T.MT5ForConditionalGeneration(T.MT5Config(**T5))),
    "longt5": (PAIRS, lambda: T.LongT5ForConditionalGeneration(T.LongT5Config(**T5))),
    "bart": (PAIRS, lambda: T.BartForConditionalGeneration(T.BartConfig(**BART))),
    "mbart": (PAIRS, lambda: T.MBartForConditionalGeneration(T.MBartConfig(**BART))),
    "marian": (PAIRS, lambda: T.MarianMTModel(T.MarianConfig(**BART))),
    "m2m100": (PAIRS, lambda: T.M2M100ForConditionalGeneration(T.M2M100Config(**BART))),
    "pegasus": (PAIRS, lambda: T.PegasusForConditionalGeneration(T.PegasusConfig(**BART))),
    "blenderbot": (PAIRS, lambda: T.BlenderbotForConditionalGeneration(T.BlenderbotConfig(**BART))),
    "whisper": ("automatic-speech-recognition-with-past", lambda: T.WhisperForConditionalGeneration(T.WhisperConfig(**WHISPER))),
    "trocr": ("image-to-text-with-past", trocr),
}
TESTED = ["gpt2-merged", "mistral", "gemma2", "phi", "bloom", "mpt", "falcon", "gpt-neo", "t5", "bart", "whisper", "trocr"]

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


def export(name, folder):
    """Exports a family; returns the decoder's file."""
    torch.manual_seed(0)
    task, build = FAMILIES[name]
    model = build().eval()
    for p in model.parameters():
        if p.ndim > 1:
            p.data.normal_(0, p.shape[-1] ** -0.5)
        p.data = torch.round(p.data * 256) / 256
    onnx_export_from_model(model, folder, task=task, do_validation=False, opset=18)
    merged = folder / "decoder_model_merged.onnx"
    if name == "gpt2-merged":
        onnx.save(merge(onnx.load(folder / "model.onnx")), merged)
    return merged if merged.exists() else folder / "model.onnx"


def merge(model):
    """A decoder with an If on use_cache_branch, as optimum wrote them up to version 1.13: a first step whose branch takes no cache."""
    graph, taken = model.graph, []
    past = [i for i in graph.input if i.name.startswith("past")]
    types = [helper.make_tensor_value_info(o.name, TensorProto.FLOAT, [None] * len(o.type.tensor_type.shape.dim)) for o in graph.output]
    for prefix in ("next/", "first/"):
        own = {name: prefix + name for node in graph.node for name in node.output}
        nodes = []
        if prefix == "first/":
            own |= {i.name: prefix + i.name for i in past}
            nodes = [helper.make_node("Shape", ["input_ids"], [prefix + "texts"], end=1)]
            for i in past:
                rest = numpy_helper.from_array(np.array([d.dim_value for d in i.type.tensor_type.shape.dim[1:]]))  # 0 places
                nodes += [helper.make_node("Constant", [], [f"{prefix}{i.name}/rest"], value=rest),
                          helper.make_node("Concat", [prefix + "texts", f"{prefix}{i.name}/rest"], [f"{prefix}{i.name}/shape"], axis=0),
                          helper.make_node("ConstantOfShape", [f"{prefix}{i.name}/shape"], [prefix + i.name])]
        for node in graph.node:
            copied = onnx.NodeProto()
            copied.CopyFrom(node)
            copied.name = prefix + node.name
            copied.input[:] = [own.get(x, x) for x in node.input]
            copied.output[:] = [own[x] for x in node.output]
            nodes.append(copied)
        outputs = [onnx.ValueInfoProto.FromString(t.SerializeToString()) for t in types]
        for o in outputs:
            o.name = own[o.name]
        taken.append(helper.make_graph(nodes, prefix, [], outputs))
    choose = helper.make_node("If", ["use_cache_branch"], [o.name for o in graph.output], name="merged", then_branch=taken[0], else_branch=taken[1])
    flag = helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1])
    whole = helper.make_graph([choose], "merged", [*graph.input, flag], graph.output, graph.initializer)
    return helper.make_model(whole, opset_imports=model.opset_import, ir_version=model.ir_version)


def generate(session, prompts, encoder=None, count=24):
    """The tokens that follow prompts, always the likeliest one that is not written yet. Prompts are padded in front."""
    longest = max(map(len, prompts))
    mask = np.array([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], np.int64)
    given = np.array([[0] * (longest - len(p)) + list(p) for p in prompts], np.int64)
    inputs, outputs = session.get_inputs(), [o.name for o in session.get_outputs()]

    def empty(i):
        shape = [n if isinstance(n, int) else len(prompts) if k == 0 else 0 if "past" in n else encoder.shape[1] for k, n in enumerate(i.shape)]
        return np.zeros(shape, TYPES[i.type])

    cached = {i.name: empty(i) for i in inputs if "past" in i.name}
    tokens, margin = [[] for _ in prompts], np.inf
    while len(tokens[0]) < count:
        known = {"input_ids": given, "attention_mask": mask, "use_cache_branch": np.array([len(tokens[0]) > 0]),
                 "position_ids": np.maximum(mask.cumsum(1) - 1, 0)[:, -given.shape[1]:]}
        if encoder is not None:
            known |= {"encoder_hidden_states": encoder, "encoder_attention_mask": np.ones(encoder.shape[:2], np.int64)}
        out = dict(zip(outputs, session.run(None, {i.name: known[i.name] if i.name in known else cached[i.name] for i in inputs})))
        for name in cached:
            new = out[name.replace("past_key_values", "present")]
            if new.size or not cached[name].size:  # a merged decoder returns nothing in the place of an encoder's keys and values that it was given
                cached[name] = new
        for row, written in zip(out["logits"][:, -1].astype(np.float32), tokens):
            row[written] = -np.inf
            two = np.sort(row)[-2:]
            margin = min(margin, two[1] - two[0])
            written.append(int(row.argmax()))
        given = np.array([t[-1:] for t in tokens])
        mask = np.concatenate([mask, np.ones((len(prompts), 1), np.int64)], 1)
    print("the closest call:", margin)
    return tokens


def record(file):
    """What onnxruntime writes: one text, and two."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session, rng, out = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"]), np.random.default_rng(3), []
    encoders = any(i.name == "encoder_hidden_states" for i in session.get_inputs())
    for lengths in ([1], [1, 1]) if encoders else ([7], [3, 5]):
        prompts = [[1] if encoders else [int(x) for x in rng.integers(3, VOCABULARY, n)] for n in lengths]
        encoder = np.round(rng.standard_normal((len(lengths), 6, HIDDEN)) * 16).astype(np.float32) / 16 if encoders else None
        out.append({"prompts": prompts, "tokens": generate(session, prompts, encoder)})
        if encoders:
            out[-1] |= {"encoder": encoder.ravel().tolist(), "encoder_shape": list(encoder.shape)}
    return out


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    out = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or TESTED:
        with tempfile.TemporaryDirectory() as scratch:
            file = export(name, pathlib.Path(scratch))
            with zipfile.ZipFile(out / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
                contents = {"model.onnx": file.read_bytes(), "generations.json": json.dumps(record(file)).encode()}
                if name == "t5":
                    contents["encoder.onnx"] = (file.parent / "encoder_model.onnx").read_bytes()
                for entry, data in contents.items():
                    z.writestr(zipfile.ZipInfo(entry), data, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()
