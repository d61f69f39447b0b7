"""Records what onnxruntime answers to single operators of its own (domain com.microsoft), as the tests want them.

    pip install numpy onnx onnxruntime==1.32.0
    python contrib.py OUT.zip

OUT.zip holds a folder a case: model.onnx, input_i.pb and output_i.pb. Operators that onnxruntime 1.32.0 cannot run on the
CPU are answered by the NumPy functions below, written from its document ContribOperators.md.
"""

import math
import sys
import tempfile
import zipfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(7)
CASES = {}
MS = "com.microsoft"


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def u8(*shape):
    return rng.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def s(x, dtype=np.float32):
    return np.array(x, dtype)


def shape(x):
    """The declared shape: free on axis 0."""
    return [None, *x.shape[1:]] if x.ndim else []


def case(name, op, inputs, outputs=1, weights=(), domain=MS, reference=None, fixed=False, onnx_opset=17, **attributes):
    """inputs: arrays or None; weights: positions that are initializers; outputs: number, or a list of wanted names ("")."""
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    wanted = [f"o{k}" for k in range(outputs)] if isinstance(outputs, int) else outputs
    node = helper.make_node(op, names, wanted, domain=domain, **attributes)
    free = [(n, x) for k, (n, x) in enumerate(zip(names, inputs)) if x is not None and k not in weights]
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape if fixed else shape(x)) for n, x in free]
    model = helper.make_model(
        helper.make_graph([node], name, infos, [helper.make_empty_tensor_value_info(n) for n in wanted if n],
                          [numpy_helper.from_array(inputs[k], names[k]) for k in weights]),
        opset_imports=[helper.make_opsetid("", onnx_opset), helper.make_opsetid(MS, 1)], ir_version=8)
    if reference is None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        results = session.run(None, dict(free))
    else:
        results = reference(*inputs, **attributes)
    del model.graph.output[:]
    for n, y in zip([n for n in wanted if n], results):
        model.graph.output.append(helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(y.dtype), [None] * y.ndim))
    CASES[name] = (model, [x for _, x in free], results)


def norms():
    x, skip, gamma, beta, bias = f32(2, 3, 8), f32(2, 3, 8), f32(8), f32(8), f32(8)
    case("skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta, bias], ["y", "", "", "sum"], epsilon=1e-5)
    case("skip_layer_norm_broadcast", "SkipLayerNormalization", [x, f32(3, 8), gamma], ["y"])
    case("skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], ["y", "", "", "sum"], epsilon=1e-5)
    case("rms_norm", "SimplifiedLayerNormalization", [x, gamma], 2, domain="", epsilon=1e-5, axis=-1, stash_type=1)
    ids, kinds = rng.integers(0, 20, (2, 5)).astype(np.int32), rng.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    tables = [f32(20, 8), f32(16, 8), f32(2, 8)]
    case("embed_norm", "EmbedLayerNormalization", [ids, kinds, *tables, gamma, beta, mask], 2, weights=(2, 3, 4, 5, 6), epsilon=1e-12)
    case("embed_norm_bare", "EmbedLayerNormalization", [ids, None, *tables[:2], None, gamma, beta, None, rng.integers(0, 16, (1, 5)).astype(np.int32)],
         ["y", "m", "sum"], weights=(2, 3, 5, 6), epsilon=1e-6)
    q = lambda t: (u8(*t.shape))
    scales = [s(0.02), s(0.03), s(0.01), s(0.05), s(0.04)]
    zeros = [s(v, np.uint8) for v in (120, 128, 130, 110, 125)]
    case("qembed_norm", "QEmbedLayerNormalization", [ids, kinds, q(tables[0]), q(tables[1]), q(tables[2]), q(gamma), q(beta), mask, *scales, *zeros], 2, weights=(2, 3, 4, 5, 6, *range(8, 18)))


def activations():
    x, b = f32(2, 3, 8), f32(8)
    case("gelu", "Gelu", [x])
    case("bias_gelu", "BiasGelu", [x, b])
    case("fast_gelu", "FastGelu", [x, b])
    case("fast_gelu_plain", "FastGelu", [x])
    case("quick_gelu", "QuickGelu", [x], alpha=1.5)

    def split(x, bias):
        x = x + bias
        half = x.shape[-1] // 2
        right = x[..., half:]
        return [(x[..., :half] * right * 0.5 * (1 + np.vectorize(math.erf)(right / math.sqrt(2)))).astype(np.float32)]

    case("bias_split_gelu", "BiasSplitGelu", [x, b], reference=split)


def products():
    a, b = f32(2, 3, 4, 5), f32(2, 3, 5, 6)
    case("fused_matmul", "FusedMatMul", [a, b], alpha=0.5)
    case("fused_matmul_trans", "FusedMatMul", [a.swapaxes(2, 3), b.swapaxes(2, 3)], transA=1, transB=1, alpha=2.0)
    case("fused_matmul_batch", "FusedMatMul", [f32(4, 2, 3, 5), f32(5, 2, 3, 6)], transBatchA=1, transBatchB=1)
    case("fused_matmul_both", "FusedMatMul", [f32(5, 2, 3, 4), f32(6, 2, 3, 5)], transBatchA=1, transA=1, transBatchB=1, transB=1)
    case("fused_gemm", "FusedGemm", [f32(4, 3), f32(4, 5), f32(5)], transA=1, alpha=0.5, beta=2.0, activation="LeakyRelu", activation_alpha=0.2)
    case("fused_gemm_tanh", "FusedGemm", [f32(3, 4), f32(5, 4)], transB=1, activation="Tanh")

    def gemm_gelu(x, w, bias):
        y = x @ w + bias
        return [(0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))).astype(np.float32)]

    case("gemm_fast_gelu", "GemmFastGelu", [f32(2, 3, 4), f32(4, 5), f32(5)], reference=gemm_gelu)


def quantised_products():
    for name, w, zero in (("u8", u8(12, 7), s(121, np.uint8)), ("i8", i8(12, 7), s(0, np.int8)), ("i8_columns", i8(12, 7), i8(7))):
        scale = f32(7, scale=0.01) if name.endswith("columns") else s(0.013)
        x = f32(2, 3, 12)
        case(f"dynamic_quantize_matmul_{name}", "DynamicQuantizeMatMul", [x, w, np.abs(scale), zero, f32(7)], weights=(1, 2, 3))
        case(f"matmul_integer_to_float_{name}", "MatMulIntegerToFloat", [u8(2, 3, 12), w, s(0.02), np.abs(scale), s(99, np.uint8), zero, f32(7)], weights=(1, 3, 5))
    case("dynamic_quantize_matmul_bare", "DynamicQuantizeMatMul", [f32(3, 10), i8(10, 4), s(0.1)])
    a, b = u8(5, 8), i8(8, 6)
    zeros = [s(100, np.uint8), s(3, np.int8)]
    bias = rng.integers(-2000, 2000, 6).astype(np.int32)
    case("qgemm", "QGemm", [a, s(0.02), zeros[0], b, s(0.03), zeros[1], bias, s(0.5), s(90, np.uint8)], weights=(3, 4, 5, 6))
    case("qgemm_float", "QGemm", [a, s(0.02), zeros[0], b.T.copy(), np.abs(f32(6, scale=0.1)), i8(6), bias], weights=(3, 4, 5), transB=1, alpha=1.0)
    case("qlinear_matmul", "QLinearMatMul", [u8(2, 5, 8), s(0.02), zeros[0], b, np.abs(f32(6, scale=0.1)), np.zeros(6, np.int8), s(0.4), s(128, np.uint8)], weights=(3, 4, 5), domain="")
    for bits, level in ((4, 0), (4, 4), (8, 0), (2, 0)):
        k, n, block = 40, 6, 16
        blocks = -(-k // block)
        data = u8(n, blocks, block * bits // 8)
        scales = np.abs(f32(n, blocks, scale=0.1))
        for kind, zero in (("", None), ("_zeros", u8(n, -(-blocks * bits // 8))), ("_float_zeros", f32(n, blocks, scale=2.0))):
            if (bits == 8 or level == 4) and kind == "_float_zeros":
                continue
            case(f"matmul_nbits_{bits}_{level}{kind}", "MatMulNBits", [f32(3, 5, k), data, scales, zero], weights=tuple(i for i in (1, 2, 3) if i < 3 or zero is not None),
                 K=k, N=n, bits=bits, block_size=block, accuracy_level=level)
    case("matmul_nbits_bias", "MatMulNBits", [f32(3, 32), u8(6, 2, 8), np.abs(f32(6, 2)), None, None, f32(6)], weights=(1, 2, 5), K=32, N=6, bits=4, block_size=16)
    table = u8(11, 16)
    ids = rng.integers(-11, 11, (2, 3)).astype(np.int64)
    case("gather_block_quantized", "GatherBlockQuantized", [table, ids, np.abs(f32(11, 2)), u8(11, 1)], weights=(0, 2, 3), block_size=16, bits=4, gather_axis=0, quantize_axis=1)
    case("gather_block_quantized_8", "GatherBlockQuantized", [u8(11, 32), ids, np.abs(f32(11, 2))], weights=(0, 2), block_size=16, bits=8, gather_axis=0, quantize_axis=1)


def codes():
    x, y = u8(2, 3, 8), u8(2, 3, 8)
    one = [s(0.02), s(100, np.uint8)]
    two = [s(0.05), s(140, np.uint8)]
    to = [s(0.04), s(120, np.uint8)]
    case("qlinear_add", "QLinearAdd", [x, *one, y, *two, *to])
    case("qlinear_mul", "QLinearMul", [x, *one, y[:, :1], *two, *to])
    case("qlinear_sigmoid", "QLinearSigmoid", [x, *one, s(1 / 256), s(0, np.uint8)])
    case("qlinear_leaky_relu", "QLinearLeakyRelu", [x, *one, *to], alpha=0.1)
    case("qlinear_softmax", "QLinearSoftmax", [x, *one, s(1 / 256), s(0, np.uint8)], axis=-1, opset=13)
    case("qlinear_concat", "QLinearConcat", [*to, x, *one, y, *two], axis=1, weights=(0, 1, 3, 4, 6, 7))
    case("qlinear_where", "QLinearWhere", [rng.random((2, 3, 8)) < 0.5, x, *one, y, *two, *to])
    case("qlinear_average_pool", "QLinearGlobalAveragePool", [u8(1, 3, 4, 4), *one, *to])
    case("quantize_linear_16", "QuantizeLinear", [f32(3, 4), s(0.001), s(30000, np.uint16)])
    case("dequantize_linear_16", "DequantizeLinear", [rng.integers(0, 65536, (3, 4)).astype(np.uint16), s(0.001), s(30000, np.uint16)])
    case("mul_integer", "MulInteger", [x, s(3, np.uint8), y, s(7, np.uint8)], reference=lambda a, az, b, bz: [(a.astype(np.int32) - az) * (b.astype(np.int32) - bz)])


def multi_head(q, k, v):
    """Attention of [batch, length, heads, size], the results side by side."""
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    y = softmax(q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1])) @ v
    return [y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)]


def attention():
    B, S, H, D = 2, 5, 2, 4
    W = H * D
    x, w, bias = f32(B, S, 6), f32(6, 3 * W, scale=0.5), f32(3 * W)
    lengths, both = np.array([5, 3], np.int32), np.array([5, 3, 1, 0], np.int32)
    flat = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    square = rng.integers(0, 2, (B, S, S)).astype(np.int32)
    past = f32(2, B, H, 3, D)
    extra = f32(1, H, S, S)
    A = lambda name, *inputs, outputs=1, **k: case("attention_" + name, "Attention", [x, w, bias, *inputs], outputs, weights=(1, 2), num_heads=H, **k)
    A("plain")
    A("lengths", lengths)
    A("ranges", both, fixed=True)
    A("mask", flat)
    A("mask_square", square)
    A("hidden_row", np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], np.int32))
    A("bias", flat, None, extra, scale=0.3)
    A("unidirectional", flat, unidirectional=1)
    A("past", np.ones((B, S + 3), np.int32), past, outputs=2, unidirectional=1)
    case("attention_sizes", "Attention", [x, f32(6, 2 * W + 6), f32(2 * W + 6)], weights=(1, 2), num_heads=H, qkv_hidden_sizes=[W, W, 6], mask_filter_value=-50.0)
    case("qattention", "QAttention", [u8(B, S, 6), i8(6, 3 * W), f32(3 * W), s(0.02), s(0.03), flat, s(120, np.uint8), s(0, np.int8)], weights=(1, 2, 3, 4, 6, 7), num_heads=H)
    case("qattention_lengths", "QAttention", [u8(B, S, 6), u8(6, 3 * W), f32(3 * W), s(0.02), s(0.03), lengths, s(120, np.uint8), s(128, np.uint8)], weights=(1, 2, 3, 4, 6, 7), num_heads=H, unidirectional=1)

    q, k, v = f32(B, S, W), f32(B, 7, W), f32(B, 7, W)
    M = lambda name, *inputs, outputs=1, **a: case("mha_" + name, "MultiHeadAttention", list(inputs), outputs, num_heads=H, **a)
    M("plain", q, k, v)
    M("bias", q, k, v, bias)
    M("lengths", q, k, v, None, np.array([7, 4], np.int32))
    M("mask", q, k, v, None, rng.integers(0, 2, (B, 7)).astype(np.int32), f32(1, H, S, 7))
    M("packed", f32(B, S, H, 3, D), reference=lambda q, **_: multi_head(*(q[:, :, :, i] for i in range(3))))
    M("packed_kv", q, f32(B, 7, H, 2, D), reference=lambda q, kv, **_: multi_head(q.reshape(B, S, H, D), kv[:, :, :, 0], kv[:, :, :, 1]))
    M("heads", q, f32(B, H, 7, D), f32(B, H, 7, D), bias)
    M("past", q, f32(B, S, W), f32(B, S, W), bias, None, None, f32(B, H, 3, D), f32(B, H, 3, D), outputs=3, unidirectional=1)

    cos, sin = f32(16, D // 2), f32(16, D // 2)
    positions = rng.integers(0, 16, (B, S)).astype(np.int64)
    case("rotary", "RotaryEmbedding", [f32(B, S, W), positions, cos, sin])
    case("rotary_offset", "RotaryEmbedding", [f32(B, S, W), np.array([3], np.int64), cos, sin], interleaved=1)
    case("rotary_heads", "RotaryEmbedding", [f32(B, H, S, D), positions, cos, sin])
    case("rotary_part", "RotaryEmbedding", [f32(B, S, 2 * W), positions, cos, sin], num_heads=H, rotary_embedding_dim=D)

    G = lambda name, *inputs, **a: case("gqa_" + name, "GroupQueryAttention", list(inputs), 3, num_heads=4, kv_num_heads=2, **a)
    total = s(5, np.int32)
    big = 16
    cos, sin = f32(16, big // 2), f32(16, big // 2)
    G("prompt", f32(B, S, 4 * big), f32(B, S, 2 * big), f32(B, S, 2 * big), f32(B, 2, 0, big), f32(B, 2, 0, big), np.array([4, 4], np.int32), total)
    G("rotary", f32(B, S, 4 * big), f32(B, S, 2 * big), f32(B, S, 2 * big), f32(B, 2, 0, big), f32(B, 2, 0, big), np.array([4, 4], np.int32), total, cos, sin, do_rotary=1)
    G("step", f32(B, 1, 4 * big), f32(B, 1, 2 * big), f32(B, 1, 2 * big), f32(B, 2, 4, big), f32(B, 2, 4, big), np.array([4, 2], np.int32), total, cos, sin, do_rotary=1, local_window_size=3)
    G("packed", f32(B, S, 8 * big), None, None, f32(B, 2, 0, big), f32(B, 2, 0, big), np.array([4, 4], np.int32), total, softcap=2.0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def packed():
    """Attention without padding, and what removes and restores it."""
    B, S, H, D = 3, 4, 2, 4
    W = H * D
    counts = np.array([1, 2, 4], np.int32)
    places = [b * S + i for b in range(B) for i in range(S) if i < counts[b]]
    padding = [b * S + i for b in range(B) for i in range(S) if i >= counts[b]]
    offset = np.array(places + padding, np.int32).reshape(B, S)
    sums = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def remove(x, counts):
        return [x.reshape(B * S, -1)[places], offset, sums, np.array([counts.max()], np.int32)]

    def restore(x, offset):
        y = np.zeros((B * S, x.shape[1]), np.float32)
        y[places] = x
        return [y.reshape(B, S, -1)]

    def attend(q, k, v, extra, scale=None):
        out = np.zeros((len(places), v.shape[1]), np.float32)
        for b in range(B):
            lo, hi = sums[b], sums[b + 1]
            for h in range(H):
                part = lambda x: x[lo:hi].reshape(hi - lo, H, -1)[:, h]
                scores = part(q) @ part(k).T * (scale or 1 / math.sqrt(D))
                if extra is not None:
                    scores = scores + extra[0, h, : hi - lo, : hi - lo]
                out[lo:hi].reshape(hi - lo, H, -1)[:, h] = softmax(scores) @ part(v)
        return [out]

    def attention(x, w, bias, offset, sums, extra=None, **_):
        y = x @ w + bias
        return attend(y[:, :W], y[:, W : 2 * W], y[:, 2 * W :], extra)

    def multi(q, k, v, bias, offset, sums, extra=None, **_):
        if k is None:
            q, k, v = (q[:, :, i].reshape(len(q), W) for i in range(3))
        if bias is not None:
            q, k, v = q + bias[:W], k + bias[W : 2 * W], v + bias[2 * W :]
        return attend(q, k, v, extra)

    n = len(places)
    case("remove_padding", "RemovePadding", [f32(B, S, W), counts], 4, reference=remove)
    case("restore_padding", "RestorePadding", [f32(n, W), offset], reference=restore)
    case("packed_attention", "PackedAttention", [f32(n, 6), f32(6, 3 * W), f32(3 * W), offset, sums, f32(1, H, S, S)], num_heads=H, reference=attention)
    case("packed_mha", "PackedMultiHeadAttention", [f32(n, W), f32(n, W), f32(n, W), f32(3 * W), offset, sums], num_heads=H, reference=multi)
    case("packed_mha_packed", "PackedMultiHeadAttention", [f32(n, H, 3, D), None, None, None, offset, sums], num_heads=H, reference=multi)


def positions():
    def relative(table, query, key, max_distance, is_bidirectional=0):
        flat = table.reshape(table.shape[1], table.shape[0])
        distance = np.arange(key)[None] - np.arange(query)[:, None]
        buckets, base = table.shape[0], 0
        if is_bidirectional:
            buckets //= 2
            base, distance = (distance > 0) * buckets, np.abs(distance)
        else:
            distance = -np.minimum(distance, 0)
        exact = buckets // 2
        ratio = np.log(np.maximum(distance, 1).astype(np.float32) / exact) / math.log(max_distance / exact)
        large = np.minimum(exact + (ratio * (buckets - exact)).astype(np.int64), buckets - 1)
        return [flat[:, base + np.where(distance < exact, distance, large)][None]]

    def gated(q, q_bias, rel, w, bias, eco, num_heads):
        B, S, _ = q.shape
        q = (q + q_bias).reshape(B, S, num_heads, -1).transpose(0, 2, 1, 3)
        gate = 1 / (1 + np.exp(-(q @ w + bias).reshape(B, num_heads, S, 2, -1).sum(-1)))
        u, r = gate[..., :1], gate[..., 1:]
        return [((u * (r * eco - 1) + 2) * rel).astype(np.float32)]

    case("relative_position_bias", "RelativePositionBias", [f32(8, 3), s(11, np.int64), s(11, np.int64)], weights=(0, 1, 2), max_distance=16, is_bidirectional=1, reference=relative)
    case("relative_position_bias_decoder", "RelativePositionBias", [f32(8, 3), s(11, np.int64), s(11, np.int64)], weights=(0, 1, 2), max_distance=16, reference=relative)
    case("gated_relative_position_bias", "GatedRelativePositionBias", [f32(2, 5, 8), f32(8), f32(1, 2, 5, 5), f32(4, 6), f32(6), f32(1, 2, 1, 1)], num_heads=2, reference=gated)


def pools():
    image, to = u8(2, 3, 7, 6), [s(0.05), s(20, np.uint8)]
    case("qlinear_average_pool_window", "QLinearAveragePool", [image, s(0.02), s(120, np.uint8), *to], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    case("qlinear_average_pool_padding", "QLinearAveragePool", [image, s(0.02), s(120, np.uint8), *to], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], count_include_pad=1)
    case("qlinear_average_pool_last", "QLinearAveragePool", [image, s(0.02), s(120, np.uint8), *to], kernel_shape=[2, 2], channels_last=1)
    ramp = np.arange(8, dtype=np.uint8).reshape(1, 1, 2, 4) * 30
    case("qlinear_average_pool_beyond", "QLinearAveragePool", [ramp, s(0.02), s(0, np.uint8), *to], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 0, 0], ceil_mode=1, count_include_pad=1)


def distances():
    case("cdist", "CDist", [f32(5, 4), f32(3, 4)], metric="sqeuclidean")
    case("cdist_root", "CDist", [f32(5, 4), f32(3, 4)], metric="euclidean")


def rounded_products():
    """MatMulNBits where accuracy_level 4 rounds the activations, and where onnxruntime multiplies floats all the same."""
    k, n = 72, 6
    for name, bits, block, zeros in (
        ("8_4", 8, 16, None), ("8_4_zeros", 8, 32, np.uint8), ("2_4", 2, 32, None), ("2_4_zeros", 2, 64, np.uint8), ("2_4_short", 2, 16, None),
        ("4_4_long", 4, 128, np.uint8), ("4_4_float_zeros", 4, 32, np.float32), ("4_0_groups", 4, 16, None), ("4_4_groups", 4, 32, None),
    ):
        blocks = -(-k // block)
        zero = {None: None, np.uint8: u8(n, -(-blocks * bits // 8)), np.float32: f32(n, blocks, scale=2.0)}[zeros]
        groups = rng.permutation(np.arange(k) // block).astype(np.int32) if name.endswith("groups") else None
        inputs = [f32(3, 5, k), u8(n, blocks, block * bits // 8), np.abs(f32(n, blocks, scale=0.01)), zero, groups]
        case(f"matmul_nbits_{name}", "MatMulNBits", inputs, weights=tuple(i for i in range(1, 5) if inputs[i] is not None),
             K=k, N=n, bits=bits, block_size=block, accuracy_level=int(name[2]))


def more_norms():
    x, gamma, beta, bias = f32(2, 3, 8), f32(8), f32(8), f32(8)
    case("skip_layer_norm_broadcast_sum", "SkipLayerNormalization", [x, f32(3, 8), gamma, beta, bias], ["y", "", "", "sum"], epsilon=1e-5)
    case("skip_rms_norm_broadcast_sum", "SkipSimplifiedLayerNormalization", [x, f32(1, 3, 8), gamma], ["y", "", "", "sum"], epsilon=1e-5)

    def results(x, skip, gamma, beta, epsilon):  # onnxruntime leaves the second and the third alone on the CPU
        s = x + skip
        mean, deviation = s.mean(-1, keepdims=True), 1 / np.sqrt(s.var(-1, keepdims=True) + epsilon)
        return [(s - mean) * deviation * gamma + beta, mean, deviation, s]

    case("skip_layer_norm_all", "SkipLayerNormalization", [x, f32(2, 3, 8), gamma, beta], 4, reference=results, epsilon=1e-5)


def windows():
    x, w, b = f32(2, 4, 7, 6), f32(6, 4, 3, 3), f32(6)
    case("fused_conv", "FusedConv", [x, w, b], weights=(1, 2), activation="Relu", pads=[1, 1, 1, 1])
    case("fused_conv_sum", "FusedConv", [x, w, b, f32(2, 6, 5, 4)], weights=(1, 2), activation="Relu")
    case("fused_conv_leaky", "FusedConv", [x, f32(6, 2, 3, 3), b], weights=(1, 2), activation="LeakyRelu", activation_params=[0.2], group=2, strides=[2, 1])
    case("fused_conv_clip", "FusedConv", [x, w], weights=(1,), activation="Clip", activation_params=[-0.5, 1.5])
    case("nhwc_max_pool", "NhwcMaxPool", [u8(2, 7, 6, 3)], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    case("grid_sample", "GridSample", [f32(2, 3, 5, 4), f32(2, 3, 6, 2, scale=0.6)], mode="bilinear", padding_mode="border", align_corners=1)


def recurrences():
    """Weights of 8 bits, by direction and by column, of one direction and two; signed ones of 7, since products of more saturate in
    onnxruntime on processors without VNNI."""
    s7 = lambda *shape: i8(*shape) // 2
    steps, batch, width, hidden = 5, 2, 6, 4
    x = f32(steps, batch, width)
    for name, kind, direction, columns in (("u8", u8, "forward", False), ("s8", s7, "bidirectional", False), ("s8_columns", s7, "reverse", True)):
        d = 2 if direction == "bidirectional" else 1
        zero = np.zeros((d, 4 * hidden) if columns else d, np.int8) if kind is s7 else np.full(d, 120, np.uint8)
        scale = lambda: np.abs(f32(*zero.shape, scale=0.002)) + np.float32(0.002)
        case(f"dynamic_quantize_lstm_{name}", "DynamicQuantizeLSTM",
             [x, kind(d, width, 4 * hidden), kind(d, hidden, 4 * hidden), f32(d, 8 * hidden), None, f32(d, batch, hidden), f32(d, batch, hidden), None,
              scale(), zero, scale(), zero], 3, weights=(1, 2, 3, 8, 9, 10, 11), hidden_size=hidden, direction=direction)


def sinks():
    """Softmaxes with a score that no value is behind."""
    size = 16

    def case_of(name, steps, past, sink=None, lengths=None, **a):
        batch = 1 if steps > 1 else 2
        kv = lambda n: f32(batch, 2, n, size)
        inputs = [f32(batch, steps, 4 * size), f32(batch, steps, 2 * size), f32(batch, steps, 2 * size), kv(past), kv(past),
                  np.array(lengths or [past + steps - 1] * batch, np.int32), s(past + steps, np.int32), None, None, None, None, sink]
        case("gqa_sink_" + name, "GroupQueryAttention", inputs, 3, num_heads=4, kv_num_heads=2, **a)

    heads = np.array([0.5, -1, 2, 9], np.float32)
    case_of("prompt", 3, 0, heads)
    case_of("more", 3, 2, heads, softcap=2.0)
    case_of("step", 1, 4, heads, lengths=[4, 2], local_window_size=3)
    case_of("smooth", 3, 2, smooth_softmax=1, local_window_size=2)
    case_of("both", 1, 3, heads, smooth_softmax=1)


def between():
    """Zero points between two numbers, as HQQ finds them, of columns that are one block; and the scale of a range that a mask of -inf made
    infinite, of which onnxruntime makes the zero point."""
    case("matmul_nbits_4_column_between", "MatMulNBits", [f32(3, 16), u8(6, 1, 16), np.abs(f32(6)), np.abs(f32(6)) * 5], weights=(1, 2, 3), K=16, N=6, bits=4, block_size=32)
    case("quantize_infinite_scale", "QuantizeLinear", [f32(3, 5), s(np.inf), s(7, np.uint8)], weights=(1, 2))


def regions():
    """Cells of regions: inside, beyond the image, upside down, smaller than a cell, and at halves."""
    rois = np.array([[0, 1, 1, 6, 4], [1, -3, -2, 4, 9], [0, 5, 3, 2, 1], [1, 2, 2, 2, 2], [0, 0.5, 1.5, 4.5, 3.5], [1, 20, 20, 30, 30]], np.float32)
    case("max_roi_pool", "MaxRoiPool", [f32(2, 3, 6, 8), rois], domain="", pooled_shape=[3, 2], spatial_scale=1.0)
    case("max_roi_pool_scaled", "MaxRoiPool", [f32(2, 3, 6, 8), rois * np.array([1, 8, 8, 8, 8], np.float32)], domain="", pooled_shape=[2, 5], spatial_scale=0.125)


def gates():
    """What decoders with linear attention and models of text and images are made of."""
    b, t, h, c, d = 2, 3, 4, 3, 8
    case("gated_add", "GatedAdd", [f32(b, t, d), f32(b, t, d), f32(b, t, 1)])
    case("gated_rms_norm", "GatedRMSNorm", [f32(b, t, h * d), f32(d), f32(b, t, h * d)], epsilon=0.1)
    case("gated_rms_norm_sigmoid", "GatedRMSNorm", [f32(b, t, h * d), f32(d), f32(b, t, h * d)], activation="sigmoid")
    case("branchwise_rms_norm", "BranchwiseRMSNorm", [f32(b, t, c, d), f32(d)])
    case("branchwise_rms_norm_flat", "BranchwiseRMSNorm", [f32(b, t, c * d), f32(c * d)], num_branches=c)
    case("pre_mix", "HyperConnectionPreMix", [f32(b, t, c, d), f32(b, t, c)], reduction_scale=0.5)
    case("pre_mix_flat", "HyperConnectionPreMix", [f32(b, t, c * d), f32(b, t, c * d)], num_branches=c)
    case("post_mix", "HyperConnectionPostMix", [f32(b, t, c, d), f32(b, t, d), f32(b, t, c)])
    case("post_mix_flat", "HyperConnectionPostMix", [f32(b, t, c * d), f32(b, t, d), f32(b, t, c, d), f32(b, t, c, c)], num_branches=c)
    case("linear_attention_gate", "LinearAttentionGate", [f32(b, t, h), f32(h), -np.abs(f32(h)), f32(b, t, h)], 2)
    case("linear_attention", "LinearAttention", [f32(b, t, h * d), f32(b, t, h * d, scale=0.3), f32(b, t, h * d), f32(b, h, d, d), -np.abs(f32(b, t, h)),
                                                 np.abs(f32(b, t, h, scale=0.3))], 2, q_num_heads=h, kv_num_heads=h)
    case("causal_conv", "CausalConvWithState", [f32(b, d, t), f32(d, 1, 4), f32(d), f32(b, d, 3)], 2, activation="silu")
    positions = rng.integers(0, 16, (3, b, t)).astype(np.int64)
    for layout in (0, 1):
        case(f"mrotary_{layout}", "MRotaryEmbedding", [f32(b, t, h * 24), positions, f32(16, 12), f32(16, 12)], num_heads=h, mrope_section=[6, 3, 3], mrope_layout=layout, interleaved=layout)
        case(f"mrotary_heads_{layout}", "MRotaryEmbedding", [f32(b, h, t, 24), positions, f32(16, 12), f32(16, 12)], mrope_section=[4, 4, 4], mrope_layout=layout)


def several(name, nodes, inputs, weights, outputs, saved=None):
    """A case of several nodes; saved is the level at which onnxruntime saves the model that is tested."""
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), shape(x)) for n, x in inputs.items()]
    model = helper.make_model(
        helper.make_graph(nodes, name, infos, [helper.make_empty_tensor_value_info(n) for n in outputs],
                          [numpy_helper.from_array(x, n) for n, x in weights.items()]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=8)

    def session(level, **more):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 3
        for key, value in more.items():
            setattr(options, key, value)
        return onnxruntime.InferenceSession(model.SerializeToString(), options)

    results = session(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, inputs)
    if saved is not None:
        with tempfile.TemporaryDirectory() as folder:
            session(saved, optimized_model_filepath=f"{folder}/saved.onnx")
            model = onnx.load(f"{folder}/saved.onnx")
    CASES[name] = (model, list(inputs.values()), results)


def experts():
    """Mixtures of experts, as onnxruntime's CPU provider has them: MoE weighs by the softmax over all experts, QMoE by that over the chosen ones."""
    E, T, K, I = 5, 4, 16, 32
    x, router = f32(T, K), f32(T, E)
    for name, more in (("relu", dict(k=1)), ("gelu", dict(k=2)), ("silu", dict(k=2, normalize_routing_weights=1)), ("identity", dict(k=5)),
                       ("swiglu", dict(k=2, swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.5))):
        wide = 2 * I if name == "swiglu" else I
        case(f"moe_{name}", "MoE", [x.reshape(2, 2, K) if name == "gelu" else x, router, f32(E, wide, K, scale=0.3), f32(E, wide), f32(E, K, I, scale=0.3), f32(E, K)],
             weights=(2, 3, 4, 5), fixed=True, activation_type=name, **more)
    x = f32(T, 32)
    for bits, block, zeros, own, fused in ((4, 0, False, False, False), (4, 16, True, False, True), (8, 0, False, True, False), (4, 0, True, True, True), (2, 16, True, False, False)):
        wide = 64 if fused else 32

        def layer(n, k):
            blocks = k // block if block else 0
            return [u8(E, n, k * bits // 8), np.abs(f32(E, n, blocks, scale=0.1) if block else f32(E, n, scale=0.8 / 2**bits)), f32(E, n),
                    None if not zeros else u8(E, n, -(-blocks * bits // 8)) if block else u8(E, -(-n * bits // 8))]

        (w1, s1, b1, z1), (w2, s2, b2, z2) = layer(wide, 32), layer(32, 32)
        more = dict(activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0) if fused else dict(activation_type="silu")
        if block:
            more["block_size"] = block
        inputs = [x, router, w1, s1, b1, w2, s2, b2, None, None, None, z1, z2, None, np.abs(f32(T, E)) if own else None]
        while inputs[-1] is None:
            inputs.pop()
        case(f"qmoe_{bits}_{block}" + "_zeros" * zeros + "_own" * own + "_fused" * fused, "QMoE", inputs,
             weights=[i for i in range(2, min(len(inputs), 14)) if inputs[i] is not None], fixed=True, k=2, expert_weight_bits=bits, normalize_routing_weights=int(own and zeros), **more)


def uneven():
    """Weights of 4 bits that are not evenly spaced, and of which the last byte and block are not full."""
    for kind in (0, 1):
        k, n = 21, 5
        case(f"matmul_bnb4_{kind}", "MatMulBnb4", [f32(3, k), u8((n * k + 1) // 2), np.abs(f32(-(-n * k // 16)))], weights=(1, 2), K=k, N=n, block_size=16, quant_type=kind)


def sliding():
    """Caches with room for 6 positions of which a query sees 4: each call ends with a full one, so that all of it is defined."""
    big, room = 16, 6
    cos, sin = f32(32, big // 2), f32(32, big // 2)
    for name, ends, new in (("prompt", [6, 6], 6), ("long", [12], 12), ("step", [9, 6], 1), ("chunk", [12], 4), ("steps", [15, 9], 1)):
        b = len(ends)
        case(f"gqa_sliding_{name}", "GroupQueryAttention",
             [f32(b, new, 4 * big), f32(b, new, 2 * big), f32(b, new, 2 * big), f32(b, 2, room, big), f32(b, 2, room, big), np.array(ends, np.int32) - 1, s(max(ends), np.int32), cos, sin],
             3, num_heads=4, kv_num_heads=2, do_rotary=1, local_window_size=4, sliding_window_cache=1)


def padded():
    """Prompts of several lengths with padding behind them, whose queries see the keys of tokens only."""
    big, new = 16, 6
    cos, sin = f32(new, big // 2), f32(new, big // 2)
    for name, room, a in (("prompt", 0, {}), ("rotary", 0, dict(do_rotary=1)), ("window", 0, dict(local_window_size=2)), ("buffer", 9, dict(local_window_size=3)),
                          ("sink", 0, dict(smooth_softmax=1))):
        inputs = [f32(2, new, 4 * big), f32(2, new, 2 * big), f32(2, new, 2 * big), f32(2, 2, room, big), f32(2, 2, room, big), np.array([5, 1], np.int32), s(new, np.int32)]
        case(f"gqa_padded_{name}", "GroupQueryAttention", inputs + [cos, sin] * ("do_rotary" in a), 3, num_heads=4, kv_num_heads=2, **a)


def tokens():
    """Strings, cut by separators, by an expression and into characters."""
    strings = np.array(["a bb,ccc", " x  yy ", "", "äöü né"], object)
    for name, x, more in (("separators", strings, dict(separators=[" ", ","])), ("expression", strings, dict(tokenexp="[a-z]+")), ("short", strings, dict(separators=["[ ,]+"], mincharnum=2)),
                          ("characters", strings, dict(separators=[""])), ("any", strings, dict(tokenexp=".")), ("longest", np.array(["abab aab"], object), dict(tokenexp="a|ab")),
                          ("marked", strings.reshape(2, 2), dict(separators=[" "], mark=1)), ("nothing", np.array(["", " "], object), dict(separators=[" "], mark=1)),
                          ("boundaries", np.array(["ab cd"], object), dict(separators=["\\b"]))):
        case(f"tokenizer_{name}", "Tokenizer", [x], **{"pad_value": "#", "mark": 0, "mincharnum": 1, **more})


def tied():
    """One matrix of 4-bit weights for the embedding, which sees it through a Reshape, and the product at the end."""
    n, k, block = 11, 32, 16
    nodes = [helper.make_node("Reshape", ["w", "flat"], ["table"]), helper.make_node("Identity", ["scales"], ["same"]), helper.make_node("Cast", ["zeros"], ["again"], to=TensorProto.UINT8),
             helper.make_node("GatherBlockQuantized", ["table", "ids", "same", "again"], ["x"], domain=MS, bits=4, block_size=block, gather_axis=0, quantize_axis=1),
             helper.make_node("MatMulNBits", ["x", "w", "scales", "zeros"], ["y"], domain=MS, K=k, N=n, bits=4, block_size=block)]
    several("tied_int4_embeddings", nodes, {"ids": rng.integers(0, n, (2, 3)).astype(np.int64)},
            {"w": u8(n, k // block, block // 2), "scales": np.abs(f32(n, k // block)), "zeros": u8(n, 1), "flat": np.array([n, k // 2], np.int64)}, ["y"])


def blocked():
    """An image model as onnxruntime saves it at its highest level: channels in blocks, of which the last one is not full."""
    weights = {"three": np.array([1, 1, 3, 3], np.float32), "low": s(0), "high": s(6)}

    def conv(x, y, w, bias=False, **more):
        weights[f"w_{y}"] = w
        if bias:
            weights[f"b_{y}"] = f32(w.shape[0])
        return helper.make_node("Conv", [x, f"w_{y}"] + [f"b_{y}"] * bias, [y], **more)

    node = helper.make_node
    nodes = [conv("x", "c0", f32(16, 3, 3, 3), True, pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c0"], ["r0"]),
             conv("r0", "c1", f32(16, 1, 3, 3), pads=[1, 1, 1, 1], group=16), node("Clip", ["c1", "low", "high"], ["r1"]),
             conv("r1", "c2", f32(16, 16, 1, 1), True), node("Add", ["c2", "r0"], ["s"]), node("Relu", ["s"], ["r2"]),
             node("MaxPool", ["r2"], ["p0"], kernel_shape=[2, 2], strides=[2, 2]),
             node("AveragePool", ["r2"], ["p1"], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0], count_include_pad=1), node("Concat", ["p0", "p1"], ["c"], axis=1),
             conv("c", "c3", f32(20, 32, 1, 1)), node("LeakyRelu", ["c3"], ["r3"], alpha=0.2),
             node("Resize", ["r3", "", "three"], ["u"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
             conv("u", "c4", f32(7, 20, 1, 1)), node("HardSigmoid", ["c4"], ["y0"]),
             conv("r3", "c5", f32(20, 20, 1, 1)), node("GlobalAveragePool", ["c5"], ["y1"])]
    several("blocked_channels", nodes, {"x": f32(2, 3, 8, 8)}, weights, ["y0", "y1"], onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)


def others():
    """Attributes with other values than their defaults, which no other recorded case has: of onnxruntime's operators."""
    x, to = [u8(1, 4, 6, 5), s(0.02), s(100, np.uint8)], [s(0.4), s(120, np.uint8)]
    w = [i8(6, 2, 3, 2), np.abs(f32(6, scale=0.05)), np.zeros(6, np.int8)]
    windows = {"group": dict(group=2, kernel_shape=[3, 2]), "strides": dict(group=2, strides=[2, 1], pads=[1, 0, 2, 1]), "dilations": dict(group=2, dilations=[2, 3]),
               "lower": dict(group=2, auto_pad="SAME_LOWER", strides=[1, 2]), "upper": dict(group=2, auto_pad="SAME_UPPER", strides=[2, 2]), "valid": dict(group=2, auto_pad="VALID")}
    for name, a in windows.items():
        case(f"conv_integer_{name}", "ConvInteger", [x[0], u8(6, 2, 3, 2), x[2], s(117, np.uint8)], weights=(1, 3), domain="", **a)
        case(f"qlinear_conv_{name}", "QLinearConv", [*x, *w, *to, rng.integers(-2000, 2000, 6).astype(np.int32)], weights=(3, 4, 5, 8), domain="", **a)
        case(f"fused_conv_{name}", "FusedConv", [f32(1, 4, 6, 5), f32(6, 2, 3, 2), f32(6)], weights=(1, 2), activation="Tanh", **a)
        pool = {k: v for k, v in a.items() if k not in ("group", "kernel_shape")}
        case(f"nhwc_max_pool_{name}", "NhwcMaxPool", [u8(1, 6, 5, 4)], kernel_shape=[3, 2], **pool)
        if "dilations" not in a:
            case(f"qlinear_average_pool_{name}", "QLinearAveragePool", [*x, *to], kernel_shape=[3, 2], **pool)
    case("nhwc_max_pool_ceil", "NhwcMaxPool", [i8(1, 6, 5, 4)], kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1)
    case("qlinear_conv_last", "QLinearConv", [x[0].transpose(0, 2, 3, 1).copy(), *x[1:], *w, *to], weights=(3, 4, 5), channels_last=1, group=2, strides=[2, 1])
    case("qlinear_global_average_pool_last", "QLinearGlobalAveragePool", [x[0].transpose(0, 2, 3, 1).copy(), *x[1:], *to], channels_last=1)
    for name, a in (("hard", dict(activation="HardSigmoid", activation_alpha=0.3, activation_beta=0.4)), ("selu", dict(activation="Selu", activation_alpha=1.5, activation_gamma=1.2)),
                    ("elu", dict(activation="Elu", activation_alpha=0.7)), ("threshold", dict(activation="ThresholdedRelu", activation_alpha=0.7))):
        case(f"fused_gemm_{name}", "FusedGemm", [f32(3, 4), f32(4, 5), f32(3, 1)], **a)
    case("fused_conv_hard", "FusedConv", [f32(1, 4, 6, 5), f32(6, 4, 3, 2)], weights=(1,), activation="HardSigmoid", activation_params=[0.3, 0.4])
    case("transpose_matmul", "TransposeMatMul", [f32(2, 5, 4), f32(2, 6, 5)], transA=1, transB=1, alpha=0.5)
    case("fused_matmul_vectors", "FusedMatMul", [f32(5), f32(2, 5, 3)], transA=1, alpha=-1.5)
    case("fused_matmul_nothing", "FusedMatMul", [f32(2, 5), f32(5, 3)], alpha=0.0)
    case("qgemm_turned", "QGemm", [u8(8, 5), s(0.02), s(100, np.uint8), i8(8, 6), s(0.03), s(3, np.int8), rng.integers(-99, 99, (5, 1)).astype(np.int32)], transA=1, weights=(3, 4, 5))
    case("qgemm_scaled", "QGemm", [u8(5, 8), s(0.02), s(100, np.uint8), i8(8, 6), s(0.03), s(3, np.int8), s(40, np.int32), s(0.5), s(90, np.uint8)], alpha=0.5, weights=(3, 4, 5))
    for axis in (0, 1):
        scale = np.abs(f32(4 - axis, scale=0.1)) + np.float32(0.01)
        case(f"quantize_linear_axis_{axis}", "QuantizeLinear", [f32(4, 3), scale, u8(4 - axis)], axis=axis)
        case(f"dequantize_linear_axis_{axis}", "DequantizeLinear", [u8(4, 3), scale, u8(4 - axis)], axis=axis)
    case("qlinear_softmax_old", "QLinearSoftmax", [*x, s(1 / 256), s(0, np.uint8)], axis=2, opset=12)
    case("qlinear_softmax_axis", "QLinearSoftmax", [*x, s(1 / 256), s(0, np.uint8)], axis=1, opset=13)
    case("qlinear_concat_first", "QLinearConcat", [*to, *x, x[0], *to], axis=0, weights=(0, 1, 3, 4, 6, 7))
    case("qlinear_leaky_relu_plain", "QLinearLeakyRelu", [*x, *to])
    case("matmul_integer_16", "MatMulInteger16", [rng.integers(-999, 999, (3, 4)).astype(np.int16), rng.integers(-999, 999, (4, 2)).astype(np.int16)])
    for name, a in (("axes", dict(axes=[2, 0], keepdims=0)), ("last", dict(axes=[-1], keepdims=1))):
        def total(x, axes, keepdims):
            return x.astype(np.int64).sum(tuple(axes), keepdims=bool(keepdims))

        case(f"reduce_sum_integer_{name}", "ReduceSumInteger", [u8(2, 3, 4)], reference=lambda x, **a: [total(x, **a).astype(np.uint32)], **a)
        case(f"reduce_sum_integer_signed_{name}", "ReduceSumInteger", [i8(2, 3, 4)], reference=lambda x, **a: [total(x, **a).astype(np.int32)], **a)

        def mean(x, xs, xz, ys, yz, axes, keepdims):
            y = ((x.astype(np.float32) - xz) * xs).mean(tuple(axes), keepdims=bool(keepdims))
            return [np.clip(np.rint(y / ys) + yz, 0, 255).astype(np.uint8)]

        case(f"qlinear_reduce_mean_{name}", "QLinearReduceMean", [u8(2, 3, 4), s(0.02), s(100, np.uint8), s(0.03), s(90, np.uint8)], reference=mean, **a)

    H, D, B, S = 2, 4, 2, 5
    W = H * D
    q, k, v = f32(B, S, W), f32(B, 7, W), f32(B, 7, W)
    lengths = np.array([7, 4], np.int32)
    case("mha_scale", "MultiHeadAttention", [q, k, v, None, lengths], num_heads=H, scale=0.25, mask_filter_value=-3.0)
    case("mha_mask_filter", "MultiHeadAttention", [q, k, v, None, rng.integers(0, 2, (B, 7)).astype(np.int32)], num_heads=H, mask_filter_value=-2.0)
    flat = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    quantised = [u8(B, S, 6), i8(6, 3 * W), f32(3 * W), s(0.02), s(0.03), flat, s(120, np.uint8), s(0, np.int8)]
    case("qattention_filter", "QAttention", quantised, weights=(1, 2, 3, 4, 6, 7), num_heads=H, mask_filter_value=-2.0)
    case("qattention_scale", "QAttention", quantised, weights=(1, 2, 3, 4, 6, 7), num_heads=H, scale=0.25)
    case("attention_filter_one_way", "Attention", [f32(B, S, 6), f32(6, 3 * W), f32(3 * W), flat], weights=(1, 2), num_heads=H, mask_filter_value=-2.0, unidirectional=1)
    cos, sin = f32(16, D // 2), f32(16, D // 2)
    at = rng.integers(0, 16, (B, S)).astype(np.int64)
    case("rotary_part_interleaved", "RotaryEmbedding", [f32(B, S, 2 * W), at, cos, sin], num_heads=H, rotary_embedding_dim=D, interleaved=1)
    big = 16
    in_order = np.tile(np.arange(3, 3 + S), (B, 1))  # of a prompt onnxruntime reads the first position alone
    packed = [f32(B, S, 4 * big), f32(B, S, 2 * big), f32(B, S, 2 * big), f32(B, 2, 0, big), f32(B, 2, 0, big), np.array([4, 2], np.int32), s(S, np.int32)]
    cos, sin = f32(16, big // 2), f32(16, big // 2)
    for name, extra, a in (("interleaved", [cos, sin], dict(do_rotary=1, rotary_interleaved=1, scale=0.3)), ("positions", [cos, sin, in_order], dict(do_rotary=1)),
                           ("bias", [None, None, None, f32(1, 4, S, S)], dict(softcap=1.5)), ("both_ways", [], dict(causal=0))):
        case(f"gqa_{name}", "GroupQueryAttention", packed + extra, 3, num_heads=4, kv_num_heads=2, **a)
    ids = rng.integers(0, 20, (2, 5)).astype(np.int32)
    tables, zeros = [u8(20, 8), u8(16, 8), None, u8(8), u8(8)], [s(v, np.uint8) for v in (120, 128, 130, 110, 125)]
    scales, zeros[2] = [s(0.02), s(0.03), None, s(0.05), s(0.04)], None
    case("qembed_norm_bare", "QEmbedLayerNormalization", [ids, None, *tables, None, *scales, *zeros], 2,
         weights=(2, 3, 5, 6, 8, 9, 11, 12, 13, 14, 16, 17), epsilon=0.5)
    case("embed_norm_kinds", "EmbedLayerNormalization", [ids, None, f32(20, 8), f32(16, 8), None, f32(8), f32(8), np.array([[1, 1, 0, 0, 0], [1] * 5], np.int32)], 2,
         weights=(2, 3, 5, 6), epsilon=0.5)
    b, t, h, d = 2, 3, 4, 8
    case("branchwise_rms_norm_epsilon", "BranchwiseRMSNorm", [f32(b, t, 3, d), f32(d)], epsilon=0.5)
    case("gated_rms_norm_default", "GatedRMSNorm", [f32(b, t, h * d), f32(d), f32(b, t, h * d)], activation="silu", epsilon=0.5)
    case("pre_mix_default", "HyperConnectionPreMix", [f32(b, t, 3, d), f32(b, t, 3)])
    decay, rate = -np.abs(f32(b, t, h)), np.abs(f32(b, t, h, scale=0.3))
    lines = [f32(b, t, h * d), f32(b, t, h * d, scale=0.3), f32(b, t, h * d), f32(b, h, d, d)]
    for rule, more in (("linear", []), ("gated", [decay]), ("delta", [None, rate]), ("gated_delta", [decay, rate])):
        case(f"linear_attention_{rule}", "LinearAttention", lines + more, 2, q_num_heads=h, kv_num_heads=h, update_rule=rule, scale=0.7, chunk_size=2)
    case("causal_conv_plain", "CausalConvWithState", [f32(b, d, t), f32(d, 1, 4)], 2, activation="none")
    for name, kind, direction, a in (("relu", u8, "forward", dict(activations=["HardSigmoid", "Relu", "Elu"], activation_alpha=[0.3, 0.7], activation_beta=[0.4])),
                                     ("clip", u8, "reverse", dict(clip=0.4)), ("forget", u8, "bidirectional", dict(input_forget=1))):
        n = 2 if direction == "bidirectional" else 1
        scale = lambda: np.abs(f32(n, scale=0.002)) + np.float32(0.002)
        zero = np.full(n, 120, np.uint8)
        case(f"dynamic_quantize_lstm_{name}", "DynamicQuantizeLSTM", [f32(3, 2, 6), kind(n, 6, 16), kind(n, 4, 16), f32(n, 32), np.array([3, 2], np.int32), None, None, f32(n, 12), scale(), zero, scale(), zero],
             3, weights=(1, 2, 3, 8, 9, 10, 11), hidden_size=4, direction=direction, **a)
    case("expand_dims", "ExpandDims", [f32(2, 3), s(-2, np.int32)], weights=(1,))
    case("trilu_ms", "Trilu", [f32(2, 4, 5), s(1, np.int64)], upper=0)
    case("gather_nd_ms", "GatherND", [f32(3, 4, 5), np.array([[0, 1], [2, 3]], np.int64)], reference=lambda x, i: [x[i[:, 0], i[:, 1]]])
    case("pad_ms", "Pad", [f32(3, 4), np.array([0, 1, 2, 1], np.int64)], weights=(1,), mode="reflect")
    case("range_ms", "Range", [s(1), s(6), s(1.5)])

    def bias_softmax(x, bias, axis, is_inner_broadcast):
        y = softmax((x + bias).reshape(math.prod(x.shape[:axis]), -1))
        return [y.reshape(x.shape)]

    case("bias_softmax", "BiasSoftmax", [f32(2, 3, 4, 5), f32(2, 1, 1, 5)], axis=2, is_inner_broadcast=0, reference=bias_softmax)
    case("bias_softmax_last", "BiasSoftmax", [f32(2, 3, 4, 5), f32(1, 1, 4, 5)], axis=3, is_inner_broadcast=1, reference=bias_softmax)
    case("bias_dropout", "BiasDropout", [f32(2, 3), f32(3), f32(2, 3)], 2, reference=lambda x, b, r, **_: [x + b + r, np.ones(x.shape, bool)], seed=7)
    case("bias_add", "BiasAdd", [f32(2, 3, 4), f32(4), f32(2, 3, 4)], reference=lambda x, b, r: [x + b + r])
    case("scaled_silu", "ScaledSiLU", [f32(2, 3)], alpha=1.3, reference=lambda x, alpha: [x / (1 + np.exp(-alpha * x))])


def slid():
    """Caches that slide, with what else a call may have: a bias for all positions, sinks, positions, groups of one size."""
    big, room = 16, 6
    cos, sin = f32(32, big // 2), f32(32, big // 2)
    for name, ends, new, more, a in (("bias", [6], 6, [None, f32(1, 4, 6, 6)], {}), ("bias_long", [9], 9, [None, f32(1, 1, 9, 9)], {}), ("bias_step", [12, 9], 1, [None, f32(2, 4, 1, 12)], {}),
                                     ("sink", [9, 6], 1, [None, None, f32(4)], {}), ("soft", [12], 4, [], dict(softcap=1.5, smooth_softmax=1)), ("positions", [9], 1, [np.array([[20]], np.int64)], {})):
        b = len(ends)
        case(f"gqa_sliding_{name}", "GroupQueryAttention",
             [f32(b, new, 4 * big), f32(b, new, 2 * big), f32(b, new, 2 * big), f32(b, 2, room, big), f32(b, 2, room, big), np.array(ends, np.int32) - 1, s(max(ends), np.int32), cos, sin, *more],
             3, num_heads=4, kv_num_heads=2, do_rotary=1, local_window_size=4, sliding_window_cache=1, **a)


def limits():
    """What lies at the limits of other cases: cells of regions that are as large as they need, windows larger than the image, distances of 0."""
    S = lambda name, *inputs, outputs=1, **a: case(f"onnx_{name}", name.split("_")[0], list(inputs), outputs, domain="", **a)
    box, which = np.array([[1, 2, 9, 11], [0, 0, 4, 12]], np.float32), np.array([0, 1], np.int64)
    for mode in ("avg", "max"):
        S(f"RoiAlign_{mode}_adaptive", f32(2, 3, 6, 7), box, which, mode=mode, spatial_scale=0.5, sampling_ratio=0, output_height=2, output_width=3)
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        S(f"MaxPool_{pad}", f32(1, 2, 3, 4), kernel_shape=[5, 2], auto_pad=pad)
        S(f"AveragePool_{pad}_wide", f32(1, 2, 3, 4), kernel_shape=[5, 2], auto_pad=pad)
    near = f32(3, 4, scale=0.1)
    case("cdist_near", "CDist", [near, near], metric="sqeuclidean")
    case("qlinear_softmax_default", "QLinearSoftmax", [u8(2, 3, 4), s(0.02), s(100, np.uint8), s(1 / 256), s(0, np.uint8)], opset=12)
    S("STFT_complex", f32(1, 24, 2), s(5, np.int64), f32(8), weights=(1,), onesided=0)
    body = helper.make_graph([helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Mul", ["t", "e"], ["y"])], "body",
                             [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("s", "e")], [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("t", "y")])
    for name, a in (("columns", dict(scan_input_axes=[1], scan_output_axes=[-1])), ("backwards", dict(scan_input_axes=[-1], scan_input_directions=[1], scan_output_directions=[1]))):
        several(f"onnx_Scan_{name}", [helper.make_node("Scan", ["s0", "x"], ["last", "all"], body=body, num_scan_inputs=1, **a)], {"s0": f32(2), "x": f32(2, 3)}, {}, ["last", "all"])


def standard():
    """The same of ONNX's operators, in versions old and new, that the node tests of ONNX leave out."""
    S = lambda name, *inputs, outputs=1, **a: case(f"onnx_{name}", name.split("_")[0], list(inputs), outputs, domain="", **a)
    x = f32(4, 2, 3)
    for name, n, gates, a in (("GRU", 3, 3, dict(activations=["HardSigmoid", "Elu"] * 2, activation_alpha=[0.3, 0.7] * 2, activation_beta=[0.4] * 2)), ("RNN", 1, 1, dict(activations=["Affine", "LeakyRelu"], activation_alpha=[0.3, 0.2], activation_beta=[0.4])),
                              ("LSTM", 4, 4, dict(activations=["HardSigmoid", "Softsign", "ScaledTanh"] * 2, activation_alpha=[0.3, 0.8] * 2, activation_beta=[0.4, 0.9] * 2))):
        for kind, more, d in (("activations", dict(direction="bidirectional", **a), 2), ("clip", dict(clip=0.4), 1), ("reverse", dict(direction="reverse"), 1),
                              ("special", {"GRU": dict(linear_before_reset=1), "LSTM": dict(input_forget=1), "RNN": dict(activations=["Relu"])}[name], 1)):
            state = [f32(d, 2, 5)] * (1 + (name == "LSTM"))
            S(f"{name}_{kind}", x, f32(d, gates * 5, 3), f32(d, gates * 5, 5), f32(d, 2 * gates * 5), np.array([4, 2], np.int32), *state, outputs=len(state) + 1, hidden_size=5, **more)
    box, which = np.array([[1, 2, 9, 11], [0, 0, 4, 12]], np.float32), np.array([0, 1], np.int64)
    for mode in ("avg", "max"):
        S(f"RoiAlign_{mode}", f32(2, 3, 6, 7), box, which, mode=mode, spatial_scale=0.5, sampling_ratio=2, output_height=3, output_width=2)
    S("STFT_two_sided", f32(1, 24, 1), s(5, np.int64), f32(8), weights=(1,), onesided=0)
    S("STFT_no_window", f32(1, 24, 1), s(6, np.int64), None, s(8, np.int64), weights=(1, 3))
    for p in (1, 3):
        S(f"GlobalLpPool_{p}", f32(2, 3, 4, 5), p=p)
    S("MaxUnpool_pads", f32(1, 1, 2, 2), np.array([[[[0, 3], [8, 15]]]], np.int64), kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0])
    S("MeanVarianceNormalization_axes", f32(2, 3, 4, 5), axes=[1, 3])
    for name, a in (("HannWindow", {}), ("HammingWindow", dict(periodic=0)), ("BlackmanWindow", dict(periodic=0))):
        S(f"{name}_double", s(9, np.int64), weights=(0,), output_datatype=TensorProto.DOUBLE, **a)
    S("MelWeightMatrix_double", s(4, np.int64), s(16, np.int64), s(8000, np.int64), s(100, np.float32), s(3500, np.float32), weights=range(5), output_datatype=TensorProto.DOUBLE)
    S("LayerNormalization_middle", f32(2, 3, 4, 5), f32(3, 4, 5), f32(3, 4, 5), outputs=3, axis=1, epsilon=0.3)
    S("InstanceNormalization_epsilon", f32(2, 3, 4), f32(3), f32(3), epsilon=0.5)
    S("BatchNormalization_epsilon", f32(2, 3, 4), f32(3), f32(3), f32(3), np.abs(f32(3)), epsilon=0.5)
    S("LRN_all", f32(1, 5, 2, 2), size=3, alpha=0.2, beta=0.6, bias=1.5)
    # The attributes of older versions.
    for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        z = np.abs(f32(2, 3, 4)) + np.float32(0.1)
        S(f"Reduce{name}_old", z, onnx_opset=11, axes=[-1, 0], keepdims=0)
        S(f"Reduce{name}_empty", z, np.zeros(0, np.int64), weights=(1,), onnx_opset=18 if name != "Sum" else 13, noop_with_empty_axes=1)
        S(f"Reduce{name}_none", z, onnx_opset=18 if name != "Sum" else 13, keepdims=0)
    S("Slice_old", f32(4, 5, 6), onnx_opset=9, starts=[-3, 1], ends=[9, -1], axes=[2, 0])
    S("Split_old", f32(6, 5), outputs=3, onnx_opset=11, split=[1, 3, 1], axis=1)
    S("Squeeze_old", f32(1, 5, 1), onnx_opset=11, axes=[-1])
    S("Unsqueeze_old", f32(4, 5), onnx_opset=11, axes=[0, -1])
    for mode in ("constant", "edge", "reflect"):
        S(f"Pad_old_{mode}", f32(4, 5), onnx_opset=10, mode=mode, pads=[1, 0, 2, 3], value=1.5)
    S("Clip_old", f32(4, 5), onnx_opset=10, min=-0.5, max=0.7)
    S("Clip_old_min", f32(4, 5), onnx_opset=10, min=-0.5)
    S("TopK_old", f32(4, 5), outputs=2, onnx_opset=9, k=2, axis=0)
    S("TopK_smallest", f32(4, 5), np.array([3], np.int64), outputs=2, weights=(1,), largest=0, axis=0)
    S("Upsample_linear", f32(1, 2, 3, 4), s([1, 1, 2, 3]), weights=(1,), onnx_opset=9, mode="linear")
    S("Upsample_old", f32(1, 2, 3, 4), onnx_opset=8, mode="nearest", scales=[1.0, 1.0, 2.0, 3.0])
    S("Gemm_old", f32(4, 3), f32(5, 4), f32(3, 1), onnx_opset=9, transA=1, transB=1, alpha=0.5, beta=0.3)
    S("Softmax_old", f32(2, 3, 4), onnx_opset=11, axis=1)
    S("LogSoftmax_old", f32(2, 3, 4), onnx_opset=11, axis=-2)
    S("Hardmax_old", f32(2, 3, 4), onnx_opset=11, axis=1)
    S("Flatten_old", f32(2, 3, 4), onnx_opset=11, axis=-1)
    S("ArgMax_last", np.array([[1, 3, 3], [2, 2, 0]], np.float32), axis=1, keepdims=0, select_last_index=1)
    S("CumSum_both", f32(3, 4), s(1, np.int64), weights=(1,), exclusive=1, reverse=1)
    S("Shrink_both", f32(4, 5), lambd=0.3, bias=0.1)
    S("EyeLike_k", np.zeros((3, 4), np.int32), k=-1, dtype=TensorProto.DOUBLE)
    S("LpPool_3", np.abs(f32(1, 2, 7, 6)), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], p=3)
    S("AveragePool_ceil", f32(1, 2, 7, 6), kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 1, 1], ceil_mode=1, count_include_pad=1)
    S("MaxPool_column_major", f32(1, 2, 7, 6), outputs=2, kernel_shape=[2, 3], strides=[2, 2], storage_order=1)
    S("ConvTranspose_all", f32(1, 4, 5, 4), f32(4, 3, 3, 2), f32(6), weights=(1, 2), group=2, strides=[2, 3], dilations=[2, 1], pads=[1, 0, 2, 1], output_padding=[1, 2])
    S("ConvTranspose_shape", f32(1, 4, 5, 4), f32(4, 3, 3, 2), weights=(1,), group=2, strides=[2, 3], output_shape=[12, 13])
    S("DepthToSpace_CRD", f32(1, 12, 2, 3), blocksize=2, mode="CRD")
    S("OneHot_axis", np.array([[0, -1], [2, 9]], np.int64), s(4, np.int64), np.array([-1, 5], np.float32), weights=(1,), axis=1)
    S("QuantizeLinear_saturate", f32(5, scale=900.0), s(1.0), np.zeros((), np.uint8), onnx_opset=19, saturate=0)


def packed_rows():
    """Tables in the formats of GGUF files: random bytes, with scales of usual sizes where the format has floats."""
    ids = np.array([[3, 0, -1], [2, 4, 9]], np.int64)
    # format: bytes of a block, numbers of a block, positions of its halves
    for name, number, size, block, halves in (("q4_0", 2, 18, 32, [0]), ("q5_0", 6, 22, 32, [0]), ("q8_0", 8, 34, 32, [0]), ("q5_k", 13, 176, 256, [0, 2]),
                                              ("q6_k", 14, 210, 256, [208]), ("iq4_nl", 20, 18, 32, [0]), ("iq4_xs", 23, 136, 256, [0]), ("q2_0", 42, 18, 64, [0])):
        blocks = 512 // block
        table = u8(5, blocks, size)
        for at in halves:
            table[:, :, at:at + 2] = (f32(5, blocks, 1) * 0.05).astype(np.float16).view(np.uint8)
        case(f"gather_packed_{name}", "GatherPacked", [table.reshape(5, -1), ids], weights=(0,), packed_type=number, K=512, output_dtype=TensorProto.FLOAT)
    for name, number, table in (("f32", 0, f32(5, 6)), ("f16", 1, f32(5, 6).astype(np.float16)), ("bf16", 30, f32(5, 6).view(np.uint16)[:, 1::2].copy())):
        case(f"gather_packed_{name}", "GatherPacked", [table.view(np.uint8).reshape(5, -1), ids.astype(np.int32)[0]], packed_type=number, K=6, output_dtype=TensorProto.FLOAT16)


def group_routers():
    logits, bias = f32(7, 12, scale=2.0), f32(12)
    case("group_router", "MoEGroupRouter", [logits, bias], top_k=3, n_group=4, topk_group=2)
    case("group_router_tied", "MoEGroupRouter", [np.zeros((2, 3, 12), np.float32), np.zeros(12, np.float32)], top_k=4, n_group=3, topk_group=2, group_topk=9, router_sentinel=-50.0)
    case("group_router_plain", "MoEGroupRouter", [logits.astype(np.float16), bias], weights=(1,), top_k=2)
    case("group_router_wide", "MoEGroupRouter", [logits * 2, bias], top_k=6, n_group=2, topk_group=2, group_topk=1)
    case("group_router_scores", "MoEGroupRouter", [logits, bias], ["", "scores", "weights"], weights=(1,), top_k=2)
    case("group_router_projection", "MoEGroupRouter", [f32(3, 256), bias, f32(12, 256, scale=0.1)], ["", "scores", "weights"], weights=(1, 2), top_k=2)


def vector_rows():
    """Tables in the formats of GGUF files whose numbers are vectors of a table. A row is a block, and the blocks have each vector once."""
    def table(blocks, size):
        t = u8(blocks, size)
        t[:, :2] = (f32(blocks, 1) * 0.05).astype(np.float16).view(np.uint8)
        return t

    xxs, xs, s, third = table(8, 66), table(16, 74), table(32, 82), table(4, 98)
    xxs[:, 2:].reshape(8, 8, 8)[:, :, :4] = np.arange(256).reshape(8, 8, 4)
    xs[:, 2:66:2] = np.arange(512).reshape(16, 32) & 255
    xs[:, 3:66:2] = xs[:, 3:66:2] & 254 | np.arange(512).reshape(16, 32) >> 8
    s[:, 2:34] = np.arange(1024).reshape(32, 32) & 255
    s[:, 66:74] = (np.arange(1024).reshape(32, 8, 4) >> 8 << [0, 2, 4, 6]).sum(-1)
    third[:, 2:66] = np.arange(256).reshape(4, 64)
    for name, number, t in (("iq2_xxs", 16, xxs), ("iq2_xs", 17, xs), ("iq2_s", 22, s), ("iq3_xxs", 18, third)):
        case(f"gather_packed_{name}", "GatherPacked", [t, np.arange(len(t))], weights=(0,), packed_type=number, K=256, output_dtype=TensorProto.FLOAT)


def shown_scores():
    """GroupQueryAttention with output_qk, before (1) and after (2) the softmax."""
    H, G, D = 4, 2, 8
    for name, S, P, lengths, total, more, attributes in (
            ("plain", 3, 2, [4], 5, {}, {}), ("uneven", 1, 4, [2, 4], 5, {}, {}), ("padded", 3, 0, [1, 2], 3, {}, {}), ("buffer", 2, 8, [4], 5, {}, {}),
            ("capped", 3, 2, [4], 5, {}, dict(softcap=2.0)), ("bias", 3, 2, [4], 5, {10: f32(1, H, 3, 5)}, {}), ("window", 3, 2, [4], 5, {}, dict(local_window_size=2)),
            ("sink", 3, 2, [4], 5, {11: f32(H)}, {}), ("smooth", 3, 2, [4], 5, {}, dict(smooth_softmax=1)), ("both_ways", 3, 2, [4], 5, {}, dict(causal=0))):
        B = len(lengths)
        inputs = [f32(B, S, H * D), f32(B, S, G * D), f32(B, S, G * D), f32(B, G, P, D), f32(B, G, P, D), np.array(lengths, np.int32), np.array(total, np.int32)] + [None] * 5
        for i, x in more.items():
            inputs[i] = x
        while inputs[-1] is None:
            inputs.pop()
        for mode in (1, 2):
            case(f"gqa_scores_{name}_{mode}", "GroupQueryAttention", inputs, 4, num_heads=H, kv_num_heads=G, qk_output=mode, **attributes)


def main():
    for group in (norms, activations, products, quantised_products, codes, attention, packed, positions, pools, distances, rounded_products, more_norms, windows, recurrences, sinks, between, gates, regions, experts, uneven, sliding, tokens, tied, blocked, padded, others, standard, slid, limits, packed_rows, group_routers, shown_scores, vector_rows):
        group()
    with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as z:
        def write(name, data):
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)

        for name, (model, inputs, outputs) in sorted(CASES.items()):
            write(f"{name}/model.onnx", model.SerializeToString())
            for kind, tensors in (("input", inputs), ("output", outputs)):
                for i, x in enumerate(tensors):
                    write(f"{name}/{kind}_{i}.pb", numpy_helper.from_array(np.array(x, order="C")).SerializeToString())
    print(len(CASES), "cases")


if __name__ == "__main__":
    main()
