"""Writes small decoders as onnxruntime's own tools write them, and records what onnxruntime answers and generates.

    pip install numpy onnx onnxruntime==1.32.0
    python decoders.py ../../testdata/decoders
    python decoders.py OUT --large             # llama-gqa.onnx with the sizes of Qwen 2.5 0.5 B, for BENCHMARKS.md

OUT/NAME.zip holds model.onnx, test_data_set_N/ and generated.json. The models are made here, of random weights: llama-gqa is the form of
onnxruntime-genai's model builder with packed projections, qwen2-gqa the one with projections apart and rotary positions outside; the gpt2 models are
what onnxruntime's transformer optimiser makes of an export, by its option for attention: Attention, MultiHeadAttention, or
DecoderMaskedMultiHeadAttention, whose cache is a buffer with room for the whole text. Weights are multiples of 1/256, so that they compress well.
"""

import json
import pathlib
import sys
import tempfile
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from record import record_inputs, reference

MS = "com.microsoft"
VOCABULARY, HEADS, GROUPS, SIZE, LAYERS, PLACES = 100, 4, 2, 16, 2, 64
HIDDEN, MIDDLE = HEADS * SIZE, 96


class Graph:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []

    def constant(self, value, name=None):
        name = name or f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape, mean=0.0):
        spread = shape[0] ** -0.5 if len(shape) > 1 else 0.1
        values = mean + self.rng.standard_normal(shape) * spread
        return self.constant((np.round(values * 256) / 256).astype(np.float32))

    def node(self, op, inputs, results=1, domain="", **attributes):
        """One result's name, or all names."""
        names = [f"n{len(self.nodes)}_{i}" if isinstance(results, int) else results[i] for i in range(results if isinstance(results, int) else len(results))]
        self.nodes.append(helper.make_node(op, [x or "" for x in inputs], names, domain=domain, name=f"{op}_{len(self.nodes)}", **attributes))
        return names[0] if len(names) == 1 else names

    def take(self, name, dtype, shape):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def give(self, name, shape):
        self.outputs.insert(0 if name == "logits" else len(self.outputs), helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def linear(self, x, inner, outer, bias=False):
        y = self.node("MatMul", [x, self.weight(inner, outer)])
        return self.node("Add", [y, self.weight(outer)]) if bias else y

    def model(self):
        graph = helper.make_graph(self.nodes, "decoder", self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=8)


def common(g, positions):
    g.take("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])
    g.take("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])
    if positions:
        g.take("position_ids", TensorProto.INT64, ["batch_size", "sequence_length"])


def cache(g, layer, heads, past="past_sequence_length", total="total_sequence_length"):
    return [(g.take(f"past_key_values.{layer}.{kind}", TensorProto.FLOAT, ["batch_size", heads, past, SIZE]),
             g.give(f"present.{layer}.{kind}", ["batch_size", heads, total, SIZE])) for kind in ("key", "value")]


def grouped(packed):
    """A decoder of Llama's kind around GroupQueryAttention."""
    g = Graph(3 if packed else 4)
    common(g, positions=not packed)
    lengths = g.node("ReduceSum", ["attention_mask", g.constant(np.array([1], np.int64))])
    lengths = g.node("Cast", [g.node("Sub", [lengths, g.constant(np.array([1], np.int64))])], to=TensorProto.INT32)
    total = g.node("Gather", [g.node("Shape", ["attention_mask"]), g.constant(np.array(1, np.int64))], axis=0)
    total = g.node("Cast", [total], to=TensorProto.INT32)
    angles = np.arange(PLACES)[:, None] * 10000.0 ** (-np.arange(SIZE // 2) / (SIZE // 2))
    cos, sin = g.constant(np.cos(angles).astype(np.float32), "cos_cache"), g.constant(np.sin(angles).astype(np.float32), "sin_cache")
    x = g.node("Gather", [g.weight(VOCABULARY, HIDDEN), "input_ids"])
    norm = g.node("SimplifiedLayerNormalization", [x, g.weight(HIDDEN, mean=1)], axis=-1, epsilon=1e-5, stash_type=1)
    for layer in range(LAYERS):
        (past_key, key), (past_value, value) = cache(g, layer, GROUPS)
        attributes = dict(domain=MS, num_heads=HEADS, kv_num_heads=GROUPS, scale=SIZE ** -0.5, local_window_size=-1, softcap=0.0)
        if packed:
            qkv = [g.linear(norm, HIDDEN, HIDDEN + 2 * GROUPS * SIZE), None, None]
            rest = [cos, sin]
            attributes |= dict(do_rotary=1, rotary_interleaved=0)
        else:
            q, k, v = (g.linear(norm, HIDDEN, n * SIZE, bias=True) for n in (HEADS, GROUPS, GROUPS))
            q, k = (g.node("RotaryEmbedding", [y, "position_ids", cos, sin], domain=MS, interleaved=0) for y in (q, k))
            qkv, rest = [q, k, v], []
        y, _, _ = g.node("GroupQueryAttention", [*qkv, past_key, past_value, lengths, total, *rest], [f"attention.{layer}", key, value], **attributes)
        y = g.linear(y, HIDDEN, HIDDEN)
        norm, _, _, x = g.node("SkipSimplifiedLayerNormalization", [x, y, g.weight(HIDDEN, mean=1)], [f"norm.{layer}", "", "", f"sum.{layer}"], domain=MS, epsilon=1e-5)
        gate, up = g.linear(norm, HIDDEN, MIDDLE), g.linear(norm, HIDDEN, MIDDLE)
        y = g.linear(g.node("Mul", [g.node("Mul", [gate, g.node("Sigmoid", [gate])]), up]), MIDDLE, HIDDEN)
        names = [f"norm.{layer}.1", "", "", f"sum.{layer}.1"][: 1 if layer == LAYERS - 1 else 4]
        norm = g.node("SkipSimplifiedLayerNormalization", [x, y, g.weight(HIDDEN, mean=1)], names, domain=MS, epsilon=1e-5)
        if layer < LAYERS - 1:
            norm, x = norm[0], norm[3]
    g.node("MatMul", [norm, g.weight(HIDDEN, VOCABULARY)], [g.give("logits", ["batch_size", "sequence_length", VOCABULARY])])
    return g


def gpt2(attend, past="past_sequence_length", total="total_sequence_length"):
    """A decoder of GPT-2's kind; attend returns the attention of a layer."""
    g = Graph(5)
    common(g, positions=True)
    if total != "total_sequence_length":
        g.take("past_sequence_length", TensorProto.INT32, [1])
    tokens, places = (g.node("Gather", [g.weight(n, HIDDEN), ids]) for n, ids in ((VOCABULARY, "input_ids"), (PLACES, "position_ids")))
    x = g.node("Add", [tokens, places])
    for layer in range(LAYERS):
        norm = g.node("LayerNormalization", [x, g.weight(HIDDEN, mean=1), g.weight(HIDDEN)], epsilon=1e-5)
        y = g.linear(attend(g, norm, layer), HIDDEN, HIDDEN, bias=True)
        norm, _, _, x = g.node("SkipLayerNormalization", [x, y, g.weight(HIDDEN, mean=1), g.weight(HIDDEN)], [f"norm.{layer}", "", "", f"sum.{layer}"], domain=MS, epsilon=1e-5)
        y = g.node("FastGelu", [g.node("MatMul", [norm, g.weight(HIDDEN, MIDDLE)]), g.weight(MIDDLE)], domain=MS)
        x = g.node("Add", [x, g.linear(y, MIDDLE, HIDDEN, bias=True)])
    norm = g.node("LayerNormalization", [x, g.weight(HIDDEN, mean=1), g.weight(HIDDEN)], epsilon=1e-5)
    g.node("MatMul", [norm, g.weight(HIDDEN, VOCABULARY)], [g.give("logits", ["batch_size", "sequence_length", VOCABULARY])])
    return g


def fused(g, norm, layer):
    """Attention: one product, and keys and values in one tensor."""
    if layer == 0:
        g.mask = g.node("Cast", ["attention_mask"], to=TensorProto.INT32)
    past = g.take(f"past_{layer}", TensorProto.FLOAT, [2, "batch_size", HEADS, "past_sequence_length", SIZE])
    present = g.give(f"present_{layer}", [2, "batch_size", HEADS, "total_sequence_length", SIZE])
    y, _ = g.node("Attention", [norm, g.weight(HIDDEN, 3 * HIDDEN), g.weight(3 * HIDDEN), g.mask, past], [f"attention.{layer}", present],
                  domain=MS, num_heads=HEADS, unidirectional=1)
    return y


def multi_head(g, norm, layer):
    q, k, v = (g.linear(norm, HIDDEN, HIDDEN) for _ in range(3))
    if layer == 0:
        g.mask = g.node("Cast", ["attention_mask"], to=TensorProto.INT32)
    (past_key, key), (past_value, value) = cache(g, layer, HEADS)
    y, _, _ = g.node("MultiHeadAttention", [q, k, v, g.weight(3 * HIDDEN), g.mask, None, past_key, past_value], [f"attention.{layer}", key, value],
                     domain=MS, num_heads=HEADS, unidirectional=1)
    return y


def masked(g, norm, layer):
    """The operators whose cache is a buffer with room: each in its layer."""
    q, k, v = (g.linear(norm, HIDDEN, HIDDEN) for _ in range(3))
    bias = g.weight(3 * HIDDEN)
    (past_key, key), (past_value, value) = cache(g, layer, HEADS, "room", "room")
    names = [f"attention.{layer}", key, value]
    if layer == 0:
        inputs = [q, k, v, None, None, past_key, past_value, "past_sequence_length", None, None, bias]
        return g.node("DecoderMaskedMultiHeadAttention", inputs, names, domain=MS, num_heads=HEADS, past_present_share_buffer=1)[0]
    inputs = [q, k, v, bias, None, None, past_key, past_value, "past_sequence_length"]
    return g.node("MultiHeadAttention", inputs, names, domain=MS, num_heads=HEADS, unidirectional=1)[0]


MODELS = {
    "llama-gqa": lambda: grouped(packed=True),
    "qwen2-gqa": lambda: grouped(packed=False),
    "gpt2-attention": lambda: gpt2(fused),
    "gpt2-multihead": lambda: gpt2(multi_head),
    "gpt2-masked": lambda: gpt2(masked, "room", "room"),
}


def feeds(session, given, length, cached, batch=1):
    """The inputs of a call that reads some tokens after so many, of a text of so many in all."""
    known = {"input_ids": given, "attention_mask": np.ones((batch, length), np.int64),
             "position_ids": np.repeat(np.arange(length - given.shape[1], length)[None], batch, 0),
             "past_sequence_length": np.array([length - given.shape[1]], np.int32)}
    return {i.name: known[i.name] if i.name in known else cached[i.name] for i in session.get_inputs()}


def empty(session, batch, past, rng=None):
    """Caches of so many places, or of all that there is room for."""
    out = {}
    for i in session.get_inputs():
        if i.name.startswith("past_") and i.name != "past_sequence_length":
            shape = [batch if n == "batch_size" else PLACES if n == "room" else past if isinstance(n, str) else n for n in i.shape]
            out[i.name] = np.zeros(shape, np.float32) if rng is None else np.round(rng.standard_normal(shape) * 16).astype(np.float32) / 16
    return out


def generate(folder, prompt, count=50):
    """What onnxruntime writes after a prompt, given token by token: always the likeliest token that it has not written."""
    session = reference(folder)
    cached, tokens, margin, length = empty(session, 1, 0), [], np.inf, 0
    given = list(prompt)
    while len(tokens) < count:
        length += 1
        logits, *present = session.run(None, feeds(session, np.array([given[:1]]), length, cached))
        cached = dict(zip(cached, present))
        if given := given[1:]:
            continue
        logits[0, -1, tokens] = -np.inf
        best = np.sort(logits[0, -1])[-2:]
        margin = min(margin, best[1] - best[0])
        tokens.append(int(logits[0, -1].argmax()))
        given = tokens[-1:]
    print("the closest call:", margin)
    (folder / "generated.json").write_text(json.dumps({"prompt": [int(t) for t in prompt], "tokens": tokens}))


def runs(folder, name):
    session, rng = reference(folder), np.random.default_rng(1)
    step = name == "gpt2-masked"  # it reads one token at a time
    out = []
    for batch, new, past in ((1, 5, 0), (2, 1, 4), (1, 3, 6)) if not step else ((1, 1, 6),):
        out.append(feeds(session, rng.integers(1, VOCABULARY, (batch, new)), past + new, empty(session, batch, past, rng), batch))
    if name == "llama-gqa":  # sequences of two lengths
        out.append(feeds(session, rng.integers(1, VOCABULARY, (2, 1)), 6, empty(session, 2, 5, rng), 2))
        out[-1]["attention_mask"][0, 4:] = 0
    return out


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    if "--large" in sys.argv:
        globals().update(VOCABULARY=32000, HEADS=14, LAYERS=12, SIZE=64, PLACES=2048, HIDDEN=14 * 64, MIDDLE=4864)
        onnx.save(MODELS["llama-gqa"]().model(), out / "llama-gqa.onnx")
        return
    for name, build in MODELS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            onnx.save(build().model(), folder / "model.onnx")
            record_inputs(folder, runs(folder, name))
            generate(folder, np.random.default_rng(2).integers(1, VOCABULARY, 7))
            with zipfile.ZipFile(out / f"{name}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
                for file in sorted(folder.rglob("*")):
                    if file.is_file():
                        z.writestr(zipfile.ZipInfo(str(file.relative_to(folder))), file.read_bytes(), zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()
