"""Hostile ONNX models by class, what rlxc does with each, and whether onnxruntime accepts what rlxc accepts.

    python models/scripts/hostile.py RLXC FOLDER [CLASS …]

writes the models to FOLDER and runs `RLXC inspect`, `compile` and `run` on each in processes whose time and memory are watched. It
prints a line for every crash, hang, excess of memory and internal error, one for every model that just one of the two engines
accepts, and counts by class. onnxruntime's verdicts are those of a session with its defaults, in a process of its own.
"""

import collections
import json
import os
import re
import resource
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

LIMIT, SLACK, PATIENCE = 1 << 30, 320 << 20, 60  # bytes, bytes beside the limit, seconds of the processor
cases = []


def f(*shape):
    """Numbers from -1 on in steps of a quarter."""
    return (np.arange(np.prod(shape, dtype=int)) % 9 / 4 - 1).astype(np.float32).reshape(shape)


def i(*values):
    return np.array(values, np.int64)


def u8(*shape):
    return np.ones(shape, np.uint8)


def i8(*shape):
    return np.ones(shape, np.int8)


def scalar(v):
    return np.array(v, np.int64 if isinstance(v, int) else np.float32)


class Given(np.ndarray):
    """An operand that a run gives; all others are weights."""


def g(a):
    return np.asarray(a).view(Given)


def value(name, a, dims=None):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape) if dims is None else dims)


def model(nodes, inputs, weights, outputs=("y",), opset=21, functions=()):
    graph = helper.make_graph(nodes, "g", [value(k, v) for k, v in inputs.items()], [onnx.ValueInfoProto(name=o) for o in outputs],
                              [v if isinstance(v, onnx.TensorProto) else numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()])
    domains = [("", opset), ("com.microsoft", 1), ("ai.onnx.ml", 3), ("local", 1)]
    return helper.make_model(graph, ir_version=10, functions=list(functions), opset_imports=[helper.make_opsetid(*d) for d in domains])


def add(cls, name, m, inputs=None):
    cases.append((cls, name, m if isinstance(m, bytes) else m.SerializeToString(), inputs or {}))


def op(cls, name, kind, operands, outputs=1, opset=21, domain="", **attributes):
    """A model of one node. An operand None is left out; the first is given by the run unless one says so itself."""
    ins, inputs, weights = [], {}, {}
    for k, a in enumerate(operands):
        ins.append("" if a is None else f"x{k}")
        if a is not None:
            (inputs if isinstance(a, Given) or k == 0 and not any(isinstance(b, Given) for b in operands) else weights)[ins[-1]] = np.asarray(a)
    outs = ["y"] + [f"y{k}" for k in range(1, outputs)]
    node = helper.make_node(kind, ins, outs, domain=domain, **{k: v for k, v in attributes.items() if v is not None})
    add(cls, f"{kind} {name}", model([node], inputs, weights, outs, opset), inputs)


def vary(cls, kind, operands, base=None, outputs=1, opset=21, domain="", **changes):
    """A node in order, and one for each value of each attribute in its place, or of each operand (at0, at1, …)."""
    base = base or {}
    op(cls, "in order", kind, operands, outputs, opset, domain, **base)
    for name, values in changes.items():
        for v in values:
            shown = f"{v.dtype}{list(v.shape)}" + (f"={v.tolist()}" if v.size < 5 else "") if isinstance(v, np.ndarray) else repr(v)[:60]
            if name.startswith("at") and name[2:].isdigit():
                changed = list(operands)
                changed[int(name[2:])] = v
                op(cls, f"{name}={shown}", kind, changed, outputs, opset, domain, **base)
            else:
                op(cls, f"{name}={shown}", kind, operands, outputs, opset, domain, **{**base, name: v})


HUGE = 1 << 62
image = f(1, 2, 5, 5)


def windows():
    for kind in "MaxPool", "AveragePool", "LpPool":
        vary("windows", kind, [image], {"kernel_shape": [2, 2]}, kernel_shape=[[0, 2], [-1, 2], [2], [2, 2, 2], [6, 6], [1 << 40, 1]],
             pads=[[1, 1, 1, 1], [2, 2, 2, 2], [0, 0, 2, 0], [-1, 0, 0, 0], [1, 1]], strides=[[0, 1], [-1, 1], [1], [9, 9]], dilations=[[0, 1], [7, 7], [4, 4]],
             auto_pad=["SAME_UPPER", "VALID", "SAME"], ceil_mode=[1, 2])
    vary("windows", "MaxPool", [image], {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1}, outputs=2, storage_order=[1, 2], pads=[[1, 1, 1, 1]])
    w = f(4, 2, 3, 3)
    vary("windows", "Conv", [image, w], at1=[f(4, 3, 3, 3), f(4, 2, 3), f(4, 2, 6, 6), f(0, 2, 3, 3)], group=[0, 2, 3, -1], kernel_shape=[[2, 2], [3]],
         pads=[[-1, 0, 0, 0], [1 << 40, 0, 0, 0]], strides=[[0, 0]], dilations=[[0, 0], [3, 3]], auto_pad=["SAME_LOWER", "FULL"])
    vary("windows", "Conv", [image, w, f(4)], at2=[f(3), f(1), f(4, 1), scalar(1.0)])
    vary("windows", "ConvTranspose", [image, f(2, 3, 3, 3)], at1=[f(3, 3, 3, 3)], group=[0, 2, 5], output_padding=[[1, 1], [-1, 0], [1]], pads=[[5, 5, 5, 5]],
         output_shape=[[7, 7], [3, 3], [1, 2, 7, 7], [0, 0]], strides=[[0, 0], [1 << 40, 1]], dilations=[[0, 0]])
    vary("windows", "LRN", [image], {"size": 3}, size=[0, -1, 2, 1 << 40], alpha=[float("nan")])
    vary("windows", "GlobalAveragePool", [image], at0=[f(5), f(2, 2), f(1, 2, 0)])
    vary("windows", "Col2Im", [f(1, 4, 16), i(5, 5), i(2, 2)], at1=[i(5), i(-5, 5), i(1 << 40, 5)], at2=[i(0, 2), i(2, 2, 2), i(6, 6)])
    vary("windows", "DeformConv", [image, f(2, 2, 2, 2), f(1, 8, 4, 4)], at2=[f(1, 7, 4, 4), f(1, 8, 3, 4), f(8, 4, 4)], offset_group=[0, 2, 3], group=[0, 2])


def axes():
    x = f(2, 3)
    for kind in "Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "Flatten", "Compress", "LayerNormalization", "SplitToSequence":
        second = {"Compress": [np.array([True, False])], "LayerNormalization": [f(3)], "SplitToSequence": [scalar(1)]}.get(kind, [])
        vary("axes", kind, [x, *second], axis=[2, -3, HUGE])
    for kind in "ReduceSum", "ReduceMax", "ReduceL2", "Squeeze", "Unsqueeze":
        ones = f(1, 1) if kind == "Squeeze" else x
        vary("axes", kind, [ones, i(0)], at1=[i(2), i(-3), i(0, 0), i(0, -2), i(5, 6), f(1), np.zeros((1, 1), np.int64), i(-1 << 63)])
    vary("axes", "Concat", [x, f(2, 3)], {"axis": 0}, axis=[2, -3, None], at1=[f(2, 4), f(3), i(1, 2), scalar(1.0)])
    vary("axes", "Gather", [x, i(0)], axis=[2, -3], at1=[i(2), i(-3), f(1), i(), i(1 << 40)])
    vary("axes", "GatherElements", [x, np.zeros((2, 3), np.int64)], axis=[2, -3], at1=[i(0), np.zeros((3, 3), np.int64), np.full((2, 3), 2)])
    vary("axes", "GatherND", [x, np.zeros((1, 2), np.int64)], batch_dims=[1, 2, -1], at1=[np.zeros((1, 3), np.int64), np.full((1, 2), 3), scalar(0), np.zeros((1, 0), np.int64)])
    vary("axes", "ScatterElements", [x, np.zeros((1, 3), np.int64), f(1, 3)], axis=[2], reduction=["add", "sum"], at1=[np.full((1, 3), 2), np.zeros((3, 3), np.int64)], at2=[f(1, 2), i(1, 2, 3)])
    vary("axes", "ScatterND", [x, np.zeros((1, 1), np.int64), f(1, 3)], at1=[np.full((1, 1), 2), np.zeros((1, 3), np.int64)], at2=[f(1, 2), f(2, 3)], reduction=["mul", "median"])
    vary("axes", "Transpose", [x], perm=[[0, 0], [0, 2], [0], [-1, 0], [0, 1, 2]])
    vary("axes", "TopK", [x, i(1)], outputs=2, axis=[2], at1=[i(0), i(4), i(-1), i(1, 1), scalar(1), i(HUGE)])
    vary("axes", "CumSum", [x, scalar(0)], at1=[scalar(2), scalar(-3), i(0), i(0, 1), scalar(0.0)])
    vary("axes", "OneHot", [i(0, 1), scalar(3), f(2)], axis=[2, -3], at1=[scalar(0), scalar(-2), i(3), i(3, 3), scalar(2.5)], at2=[f(3), f(1), f(1, 2)])
    vary("axes", "ReverseSequence", [f(3, 2), i(1, 2)], at1=[i(4, 1), i(0, 1), i(1), i(-1, 1)], batch_axis=[0, 2], time_axis=[1, 3])
    vary("axes", "Slice", [x, i(0), i(2), i(0)], at1=[i(0, 0), scalar(0), f(1)], at3=[i(2), i(-3)])
    vary("axes", "Slice", [x, i(0), i(2), i(0), i(1)], at4=[i(0), i(-1), i(-1 << 63), i(1, 1)], at1=[i(-1 << 63), i((1 << 63) - 1)])
    vary("axes", "Unique", [f(2, 3)], axis=[2, -3], sorted=[0, 2])
    vary("axes", "DFT", [f(1, 4, 1), None, scalar(1)], opset=20, at1=[scalar(0), scalar(-4), scalar(7)], at2=[scalar(2), scalar(-1), scalar(5)], onesided=[1], inverse=[1])
    vary("axes", "Trilu", [x, scalar(1)], at0=[f(3)], at1=[scalar(HUGE), i(1), i(1, 2)])
    vary("axes", "Split", [f(4, 2), i(2, 2)], outputs=2, at1=[i(2, 3), i(4), i(-1, 5), i(2, 1, 1), scalar(4), i(0, 4)], axis=[2])
    for n in 2, 3, 4, 0, -1, HUGE:
        op("axes", f"of 2 into num_outputs={n} with {max(1, min(n, 3))} results", "Split", [f(2, 2)], max(1, min(n, 3)), num_outputs=n)


def sizes():
    x = f(2, 3)
    vary("sizes", "Reshape", [x, i(3, 2)], at1=[i(-1, -1), i(-1, 4), i(0, 0, 0), i(-2, 3), i(7), i(HUGE, 4), i(), np.array([[3, 2]]), i(1 << 32, 1 << 32)], allowzero=[1])
    op("sizes", "0 and -1", "Reshape", [x, i(0, -1)], allowzero=1)
    vary("sizes", "Expand", [x, i(2, 3)], at1=[i(3, 3), i(4, 1, 1), i(-1, 3), i(1 << 40, 1, 1, 1), i(1 << 32, 1 << 32, 1, 1), scalar(3), i(0, 1, 1)])
    vary("sizes", "Tile", [x, i(1, 2)], at1=[i(1), i(-1, 1), i(1 << 40, 1), i(1 << 33, 1 << 33), i(0, 1), f(2)])
    vary("sizes", "ConstantOfShape", [g(i(2, 2))], at0=[g(i(-1)), g(i(1 << 40)), g(i(1 << 32, 1 << 32)), g(np.array([[2]])), g(i()), g(i(0, HUGE))])
    vary("sizes", "ConstantOfShape", [g(i(2))], value=[helper.make_tensor("v", T.FLOAT, [2], [1, 2]), helper.make_tensor("v", T.INT64, [], [1]), helper.make_tensor("v", T.STRING, [1], [b"a"])])
    vary("sizes", "Range", [g(scalar(0)), scalar(5), scalar(1)], at1=[scalar(HUGE), scalar(-5), i(5)], at2=[scalar(0), scalar(-1), scalar(1.0)])
    vary("sizes", "Pad", [x, i(0, 1, 0, 1)], at1=[i(0, 1), i(0, -4, 0, 0), i(0, 1 << 40, 0, 0), i(HUGE, 0, HUGE, 0), f(4), np.array([[0, 1, 0, 1]])],
         mode=["reflect", "edge", "wrap", "mirror"])
    op("sizes", "reflected beyond", "Pad", [x, i(0, 3, 0, 3)], mode="reflect")
    op("sizes", "edge of nothing", "Pad", [f(0, 3), i(1, 0, 1, 0)], mode="edge")
    for a in i(0), i(2), i(0, 0), i(-3):
        op("sizes", f"of axes {a.tolist()}", "Pad", [x, i(*[1] * (2 * len(a))), scalar(0.0), a])
    square = f(1, 1, 2, 2)
    vary("sizes", "Resize", [square, None, np.array([1, 1, 2, 2], np.float32)], at2=[np.array(s, np.float32) for s in ([1, 1, 0, 2], [1, 1, -1, 2], [1, 1, np.nan, 2], [2, 2], [1, 1, 1e-9, 1], [1, 1, 1e30, 1])],
         mode=["cubic", "linear", "spline"], coordinate_transformation_mode=["asymmetric", "tf_crop_and_resize", "odd"], nearest_mode=["ceil", "up"], axes=[[2, 3], [0, 1, 2, 3]])
    vary("sizes", "Resize", [square, None, None, i(1, 1, 4, 4)], at3=[i(1, 1, 0, 4), i(1, 1, -1, 4), i(4, 4), i(1, 1, 1 << 40, 4), i(2, 3, 4, 4)], keep_aspect_ratio_policy=["not_larger", "odd"])
    op("sizes", "scales and sizes", "Resize", [square, None, np.array([1, 1, 2, 2], np.float32), i(1, 1, 4, 4)])
    op("sizes", "neither scales nor sizes", "Resize", [square])
    vary("sizes", "SpaceToDepth", [f(1, 2, 4, 4)], {"blocksize": 2}, blocksize=[0, -2, 3, HUGE, None])
    vary("sizes", "DepthToSpace", [f(1, 8, 2, 2)], {"blocksize": 2}, blocksize=[0, 3, -2], mode=["CRD", "X"], at0=[f(8, 2, 2)])
    vary("sizes", "EyeLike", [x], k=[HUGE, -HUGE], dtype=[6, 8, 99], at0=[f(3), f(2, 3, 1)])
    vary("sizes", "HannWindow", [g(scalar(5))], at0=[g(scalar(0)), g(scalar(-1)), g(scalar(HUGE)), g(i(5)), g(scalar(1))], output_datatype=[7, 11, 9])
    vary("sizes", "MelWeightMatrix", [g(scalar(8)), scalar(16), scalar(8192), scalar(0.0), scalar(4096.0)], at1=[scalar(0), scalar(HUGE)], at2=[scalar(0)], at3=[scalar(5000.0)])
    vary("sizes", "CenterCropPad", [x, i(4, 4)], at1=[i(4), i(-1, 4), i(1 << 40, 4)], axes=[[0, 5]])
    vary("sizes", "RandomNormal", [], {"shape": [2, 2]}, shape=[[1 << 40], [-1]], dtype=[7, 1])


def quantisation():
    x, q = f(4, 4), u8(4, 4)
    s, z = np.array(0.5, np.float32), np.array(1, np.uint8)
    per = np.full(4, 0.5, np.float32)
    for kind, data in ("QuantizeLinear", x), ("DequantizeLinear", q):
        vary("quantisation", kind, [data, s, z], at1=[per, f(3), np.full((1, 1), 0.5, np.float32), np.full((4, 1), 0.5, np.float32), np.full((2, 4), 0.5, np.float32), np.array(0.0, np.float32), np.array(0.5, np.float64), np.array(2)],
             at2=[np.array(1, np.int8), np.ones(4, np.uint8), np.array(1.0, np.float32), None], block_size=[2, -1, 1])
        zs = np.ones(4, np.uint8)
        vary("quantisation", kind, [data, per, zs], axis=[0, 2, -3], at1=[np.full(1, 0.5, np.float32)], at2=[np.ones(3, np.uint8), np.ones((4, 1), np.uint8), np.ones(1, np.uint8), z])
        blocks = np.full((2, 4), 0.5, np.float32)
        vary("quantisation", kind, [data, blocks], {"axis": 0, "block_size": 2}, block_size=[0, 3, 4, -2, 1 << 40], axis=[1], at1=[np.full((2, 3), 0.5, np.float32), np.full((3, 4), 0.5, np.float32), per])
    vary("quantisation", "QuantizeLinear", [x, s], output_dtype=[2, 3, 17, 1, 99], saturate=[0])
    vary("quantisation", "DynamicQuantizeLinear", [x], outputs=3, at0=[f(0, 4), x.astype(np.float64), np.full((2, 2), np.nan, np.float32)])
    vary("quantisation", "MatMulInteger", [q, u8(4, 4), z, z], at1=[i8(4, 4), u8(3, 4), x], at2=[np.ones(4, np.uint8), np.ones(3, np.uint8), np.array(1, np.int8)], at3=[np.ones(4, np.uint8), np.ones(3, np.uint8)])
    vary("quantisation", "QLinearMatMul", [q, s, z, u8(4, 4), s, z, s, z], at1=[f(3), per], at4=[per, f(3)], at6=[per, np.array(0, np.float32)], at7=[np.array(1, np.int8)])
    image8, w8 = u8(1, 2, 5, 5), u8(4, 2, 3, 3)
    vary("quantisation", "ConvInteger", [image8, w8, z, z], at1=[i8(4, 2, 3, 3), u8(4, 3, 3, 3)], at2=[np.ones(2, np.uint8)], at3=[np.ones(4, np.uint8), np.ones(3, np.uint8)], group=[2, 0])
    vary("quantisation", "QLinearConv", [image8, s, z, w8, s, z, s, z], at4=[per, f(3)], at5=[np.ones(3, np.uint8), np.array(1, np.int8)], at1=[per])
    ms = "com.microsoft"
    packed = [f(2, 32), u8(8, 1, 16), np.full(8, 0.5, np.float32)]
    vary("quantisation", "MatMulNBits", packed, {"K": 32, "N": 8, "bits": 4, "block_size": 32}, domain=ms, K=[0, 31, HUGE], N=[7, -8], bits=[3, 0, 16], block_size=[0, 17, 64, 8], at2=[f(7)], at1=[u8(8, 1, 15)])
    vary("quantisation", "DynamicQuantizeMatMul", [x, i8(4, 4), s], domain=ms, at1=[i8(3, 4), x], at2=[per, f(3)])


def types():
    one = {np.float32: f(2, 2), np.int64: np.ones((2, 2), np.int64), np.bool_: np.ones((2, 2), bool), np.uint8: u8(2, 2), np.float64: f(2, 2).astype(np.float64), np.str_: np.array([["a", "b"], ["c", "d"]], object)}
    for kind in "Relu", "Sqrt", "Not", "Abs", "Erf", "IsNaN", "Softmax", "ReduceMean", "BitwiseNot", "Det", "StringNormalizer", "Gelu", "Sign", "NonZero":
        for d, a in one.items():
            op("types", f"of {d.__name__}", kind, [a])
    for kind in "Add", "And", "MatMul", "Less", "Pow", "Mod", "BitShift", "Where", "Equal", "Max":
        for d, e in (np.float32, np.int64), (np.bool_, np.bool_), (np.uint8, np.uint8), (np.str_, np.str_), (np.float32, np.float64):
            more = [np.ones((2, 2), bool)] if kind == "Where" else []
            op("types", f"of {d.__name__} and {e.__name__}", kind, [*more, g(one[d]), g(one[e])], **({"direction": "LEFT"} if kind == "BitShift" else {}))
    vary("types", "Cast", [f(2)], {"to": 7}, to=[0, 99, -1, 8, 9, 14, 23, None])
    vary("types", "Mod", [f(2), f(2)], {"fmod": 1}, fmod=[0, 2])


def operands():
    x, y3 = f(2, 3), f(3, 2)
    for kind in "MatMul", "Gemm", "Add", "Mul":
        for a, b in (x, x), (x, f(2)), (x, scalar(1.0)), (f(0, 3), f(3, 0)), (x, f(2, 3, 2)), (f(2, 2, 3), f(3, 3, 2)):
            op("operands", f"of {a.shape} and {b.shape}", kind, [a, b])
    vary("operands", "Gemm", [x, y3, f(2)], at2=[f(3), f(2, 2), f(2, 2, 2), f(1, 3), scalar(1.0)], transA=[1, 2], transB=[1])
    vary("operands", "Einsum", [x, y3], {"equation": "ij,jk->ik"}, equation=["ij,jk->im", "ij,jk", "ij->i", "ij,ij->ij", "ii,jk->ik", "i...,jk->i", "ij,jk->iki", "", "ij jk", "1j,jk->k", "ij,jk,kl->il"])
    channels = f(2)
    positive = np.ones(2, np.float32)
    vary("operands", "BatchNormalization", [image, channels, channels, channels, positive], at1=[f(3), f(2, 1), f(1)], at4=[f(3)], training_mode=[1, 2])
    vary("operands", "InstanceNormalization", [image, channels, channels], at1=[f(3), f(1)], at0=[f(2, 2)])
    vary("operands", "GroupNormalization", [image, channels, channels], {"num_groups": 2}, num_groups=[0, 3, -1, None], at1=[f(3)])
    vary("operands", "LayerNormalization", [x, f(3), f(3)], outputs=1, at1=[f(2), f(1), scalar(1.0), f(3, 3)], at2=[f(2)], stash_type=[0, 11])
    vary("operands", "PRelu", [x, f(3)], at1=[f(2), f(2, 3, 1), f(1)])
    vary("operands", "Clip", [x, scalar(-1.0), scalar(1.0)], at1=[f(3), scalar(1), scalar(2.0)])
    vary("operands", "Dropout", [x, scalar(0.5), np.array(True)], at1=[scalar(1.0), scalar(-0.5), f(2)], at2=[np.array(1), np.array([True])])
    vary("operands", "Where", [g(np.ones((2, 3), bool)), x, x], at1=[f(2), f(4, 1, 1)], at0=[g(np.ones(4, bool)), g(x)])
    vary("operands", "GridSample", [image, f(1, 3, 3, 2)], at1=[f(2, 3, 3, 2), f(1, 3, 3, 3), f(1, 3, 2)], mode=["cubic", "bilinear", "odd"], padding_mode=["odd"])
    vary("operands", "AffineGrid", [f(1, 2, 3), i(1, 1, 4, 4)], at1=[i(2, 1, 4, 4), i(1, 1, -4, 4), i(1, 1, 4), i(1, 1, 1 << 31, 4)], at0=[f(1, 3, 3)])
    vary("operands", "NonMaxSuppression", [f(1, 4, 4), f(1, 1, 4), i(2), f(1), f(1)], at0=[f(1, 4, 3), f(2, 4, 4), f(4, 4)], at1=[f(1, 1, 5)], at2=[i(-1), i(HUGE), i(1, 2)], at3=[np.array([2.0], np.float32)], center_point_box=[1, 2])
    vary("operands", "RoiAlign", [image, f(1, 4), i(0)], at1=[f(1, 3), f(4)], at2=[i(1), i(-1), i(0, 0)], output_height=[0, -1, 1 << 40], mode=["max", "odd"], sampling_ratio=[-1, 1 << 40])
    x3, w, r = f(3, 2, 4), f(1, 20, 4), f(1, 20, 5)
    vary("operands", "LSTM", [x3, w, r], {"hidden_size": 5}, outputs=3, hidden_size=[4, 0, -5, None], at1=[f(1, 20, 3), f(2, 20, 4), f(1, 19, 4)], at2=[f(1, 20, 4)], direction=["reverse", "bidirectional", "odd"],
         layout=[1, 2], activations=[["Tanh"], ["Sigmoid", "Tanh", "Odd"]], clip=[-1.0], at0=[f(3, 2), f(0, 2, 4)])
    op("operands", "lengths beyond", "LSTM", [x3, w, r, None, np.array([4, 1], np.int32)], hidden_size=5)
    op("operands", "lengths below", "LSTM", [x3, w, r, None, np.array([-1, 1], np.int32)], hidden_size=5)
    vary("operands", "GRU", [x3, f(1, 15, 4), f(1, 15, 5)], {"hidden_size": 5}, at1=[f(1, 20, 4)], linear_before_reset=[1, 2])
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    a = f(1, 3, 8)
    vary("operands", "Attention", [a, f(1, 4, 8), f(1, 4, 8)], heads, opset=23, q_num_heads=[3, 0, -1, None], kv_num_heads=[3, 0, 1], at1=[f(1, 4, 6), f(2, 4, 8), f(1, 4, 2, 4)], at2=[f(1, 5, 8)], is_causal=[1], qk_matmul_output_mode=[9], softcap=[-1.0])
    op("operands", "a mask of another length", "Attention", [a, a, a, f(3, 4)], opset=23, **heads)
    vary("operands", "RotaryEmbedding", [f(1, 2, 3, 8), f(10, 4), f(10, 4), np.zeros((1, 3), np.int64)], opset=23, at1=[f(10, 3), f(10, 4, 1)], at3=[np.full((1, 3), 10), np.full((1, 3), -1), np.zeros((1, 4), np.int64)], rotary_embedding_dim=[7, 10])
    vary("operands", "STFT", [f(1, 16, 1), scalar(4), f(8)], at1=[scalar(0), scalar(-4), i(4)], at2=[f(17), f(2, 4), scalar(1.0)], at0=[f(16), f(1, 16, 3)], onesided=[0])
    vary("operands", "NegativeLogLikelihoodLoss", [f(2, 3), i(0, 1)], at1=[i(0, 3), i(0, -1), i(0)], reduction=["none", "odd"], ignore_index=[3])
    for kind, n in ("Add", 1), ("Add", 3), ("Relu", 0), ("Relu", 2), ("Concat", 0), ("Where", 2), ("Gather", 1), ("Conv", 1), ("Sum", 0), ("LSTM", 2):
        op("operands", f"{n} of them", kind, [f(2, 2)] * n, **({"axis": 0} if kind == "Concat" else {}))
    op("operands", "a result too many", "Relu", [x], 2)
    op("operands", "an operand left out", "Add", [x, None])
    op("operands", "an attribute that is not its own", "Relu", [x], alpha=1.0)
    for kind, v in ("Softmax", 1.5), ("Softmax", "1"), ("Softmax", [1]), ("Elu", 1), ("Concat", 0.0):
        key = "alpha" if kind == "Elu" else "axis"
        op("operands", f"{key} of another type: {v!r}", kind, [x], **{key: v})


def strings():
    words = np.array(["a", "B"], object)
    vary("strings", "StringNormalizer", [words], locale=["en_US", "xx_YY", "", "tr_TR"], case_change_action=["LOWER", "UPPER", "lower"], stopwords=[["a"], ["a", "B"]], at0=[np.array([["a"], ["b"]], object), np.array([["a", "b"]], object), np.array("a", object), f(2)])
    for action in "LOWER", "UPPER":
        op("strings", f"{action} in xx_YY", "StringNormalizer", [words], locale="xx_YY", case_change_action=action, is_case_sensitive=0, stopwords=["a"])
    vary("strings", "RegexFullMatch", [words], {"pattern": "a.*"}, pattern=["(", "(a*)*b", "a{1000}{1000}", "(a)\\1", "", None], at0=[f(2)])
    vary("strings", "StringSplit", [words], outputs=2, delimiter=["", "a"], maxsplit=[0, -1, HUGE])
    vary("strings", "StringConcat", [words, words], at1=[np.array(["a", "b", "c"], object), f(2), np.array("z", object)])
    tf = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0], "ngram_indexes": [0, 1], "pool_int64s": [1, 2]}
    vary("strings", "TfIdfVectorizer", [i(1, 2)], tf, mode=["IDF", "odd"], min_gram_length=[0, 2], max_gram_length=[0, 1 << 40], max_skip_count=[-1, 1 << 40], ngram_counts=[[5], [0, 1], [-1]], ngram_indexes=[[0], [0, -1], [0, 1 << 40]], pool_int64s=[[1]], weights=[[1.0]])
    op("strings", "no number", "Cast", [np.array(["x"], object)], to=1)
    op("strings", "a number beyond", "Cast", [np.array(["99999999999999999999"], object)], to=7)
    vary("strings", "LabelEncoder", [i(1, 2)], {"keys_int64s": [1, 2], "values_int64s": [3, 4]}, domain="ai.onnx.ml", keys_int64s=[[1], [1, 1], None], values_int64s=[[3]])
    tree = {"n_targets": 1, "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
            "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [3.0, 4.0]}
    vary("strings", "TreeEnsembleRegressor", [f(2, 3)], tree, domain="ai.onnx.ml", nodes_falsenodeids=[[9, 0, 0], [2, 0]], nodes_modes=[["ODD", "LEAF", "LEAF"]], target_ids=[[0, 5]], nodes_featureids=[[3, 0, 0]])
    vary("strings", "Scaler", [f(2, 3)], {"offset": [1.0], "scale": [2.0]}, domain="ai.onnx.ml", offset=[[1.0, 2.0]], scale=[[1.0] * 3, [1.0] * 4])
    vary("strings", "ArrayFeatureExtractor", [f(2, 3), i(0)], domain="ai.onnx.ml", at1=[i(3), i(-1), i()])


def body(name, ins, outs, *nodes):
    return helper.make_graph(list(nodes), name, [onnx.ValueInfoProto(name=n) if isinstance(n, str) else n for n in ins], [onnx.ValueInfoProto(name=n) for n in outs])


def control():
    n, tensor, x = helper.make_node, helper.make_tensor_value_info, f(2)
    true = {"c": np.array(True)}

    def both(name, nodes, inputs=None, weights=None, outputs=("y",), **kw):
        inputs = {"x": x} if inputs is None else inputs
        add("control", name, model(nodes, inputs, weights or {}, outputs, **kw), inputs)

    neg = body("t", [], ["a"], n("Neg", ["x"], ["a"]))
    others = {
        "in order": body("e", [], ["b"], n("Abs", ["x"], ["b"])), "an unknown operator": body("e", [], ["b"], n("Frobnicate", ["x"], ["b"])),
        "an operator of an unknown domain": body("e", [], ["b"], n("Relu", ["x"], ["b"], domain="elsewhere")), "another type": body("e", [], ["b"], n("Cast", ["x"], ["b"], to=7)),
        "an unknown attribute": body("e", [], ["b"], n("Abs", ["x"], ["b"], odd=1)), "a value that nothing makes": body("e", [], ["b"], n("Abs", ["ghost"], ["b"])),
        "an output that nothing makes": body("e", [], ["ghost"]), "two outputs": body("e", [], ["b", "d"], n("Abs", ["x"], ["b"]), n("Abs", ["x"], ["d"])), "an input": body("e", ["x"], ["b"], n("Abs", ["x"], ["b"])),
        "a type error": body("e", [], ["b"], n("Not", ["x"], ["b"])), "a shape error": body("e", [], ["b"], n("MatMul", ["x", "w"], ["b"])), "an operand too many": body("e", [], ["b"], n("Abs", ["x", "x"], ["b"])),
        "a wrong axis": body("e", [], ["b"], n("Softmax", ["x"], ["b"], axis=5)), "a name of outside": body("e", [], ["x"], n("Abs", ["x"], ["x"])),
    }
    for name, other in others.items():
        both(f"If, the condition a weight, the other branch has {name}", [n("If", ["c"], ["y"], then_branch=neg, else_branch=other)], weights={**true, "w": f(3, 3)})
        both(f"If, the condition an input, the other branch has {name}", [n("If", ["c"], ["y"], then_branch=neg, else_branch=other)], {"x": x, **true}, {"w": f(3, 3)})
    for name, c in ("a number", f(1)), ("two", np.array([True, True])), ("none", np.zeros(0, bool)), ("a matrix of one", np.array([[True]])):
        both(f"If, the condition {name}", [n("If", ["c"], ["y"], then_branch=neg, else_branch=others["in order"])], {"x": x, "c": c})
    flag, count = tensor("cond", T.BOOL, []), tensor("it", T.INT64, [])
    step = [count, flag, tensor("v", T.FLOAT, None)]
    bodies = {
        "in order": body("b", step, ["cond", "w"], n("Neg", ["v"], ["w"])), "no outputs": body("b", step, []), "no condition": body("b", step, ["w"], n("Neg", ["v"], ["w"])),
        "an input too many": body("b", [*step, "more"], ["cond", "w"], n("Neg", ["v"], ["w"])), "another type": body("b", step, ["cond", "w"], n("Cast", ["v"], ["w"], to=7)),
        "a condition that is a number": body("b", step, ["v", "w"], n("Neg", ["v"], ["w"])), "a shape that grows": body("b", step, ["cond", "w"], n("Concat", ["v", "v"], ["w"], axis=0)),
        "an unknown operator": body("b", step, ["cond", "w"], n("Frobnicate", ["v"], ["w"])), "itself within": body("b", step, ["cond", "w"], n("Loop", ["it", "cond", "v"], ["w"], body=body("c", step, ["cond", "w2"], n("Neg", ["v"], ["w2"])))),
    }
    for name, b in bodies.items():
        both(f"Loop, {name}", [n("Loop", ["m", "", "x"], ["y"], body=b)], weights={"m": scalar(3)})
    for m in scalar(0), scalar(-1), scalar(HUGE), i(3), i(3, 3), scalar(3.0):
        both(f"Loop of {m.tolist()} trips, {m.dtype}{list(m.shape)}", [n("Loop", ["m", "", "x"], ["y"], body=bodies["in order"])], {"x": x, "m": m})
    both("Loop without an end", [n("Loop", ["", "", "x"], ["y"], body=bodies["in order"])])
    both("Loop that doubles 40 times", [n("Loop", ["m", "", "x"], ["y"], body=bodies["a shape that grows"])], {"x": x, "m": scalar(40)})
    grow = body("b", [count, flag], ["cond", "w"], n("Expand", ["x", "big"], ["w"]))
    both("Loop that stacks", [n("Loop", ["m", ""], ["y"], body=grow)], {"x": x, "m": scalar(4000)}, {"big": i(1 << 19, 2)})
    element = body("b", [tensor("v", T.FLOAT, None)], ["w"], n("Neg", ["v"], ["w"]))
    for change in ({}, {"num_scan_inputs": 0}, {"num_scan_inputs": 2}, {"num_scan_inputs": -1}, {"scan_input_axes": [1]}, {"scan_input_axes": [0, 0]}, {"scan_input_directions": [7]}, {"scan_output_directions": [2]}, {"scan_output_axes": [1]}, {"scan_output_axes": [9]}):
        both(f"Scan {change}", [n("Scan", ["x"], ["y"], **{"num_scan_inputs": 1, "body": element, **change})])
    push = body("b", [count, flag, "s"], ["cond", "t"], n("SequenceInsert", ["s", "x"], ["t"]))
    push.input[2].CopyFrom(helper.make_tensor_sequence_value_info("s", T.FLOAT, None))
    both("Loop that fills a sequence", [n("SequenceEmpty", [], ["s"]), n("Loop", ["m", "", "s"], ["t"], body=push), n("SequenceLength", ["t"], ["y"])], {"x": x, "m": scalar(100_000)})
    make = n("SequenceConstruct", ["x", "x"], ["s"])
    for at in scalar(0), scalar(-3), scalar(2), scalar(HUGE), i(0), scalar(0.0):
        both(f"SequenceAt {at.dtype}{list(at.shape)} {at.tolist()}", [make, n("SequenceAt", ["s", "p"], ["y"])], weights={"p": at})
        both(f"SequenceErase {at.dtype}{list(at.shape)} {at.tolist()}", [make, n("SequenceErase", ["s", "p"], ["t"]), n("SequenceLength", ["t"], ["y"])], weights={"p": at})
    both("SequenceConstruct of two types", [n("Cast", ["x"], ["k"], to=7), n("SequenceConstruct", ["x", "k"], ["s"]), n("SequenceLength", ["s"], ["y"])])
    both("ConcatFromSequence beyond", [make, n("ConcatFromSequence", ["s"], ["y"], axis=3)])
    both("ConcatFromSequence of nothing", [n("SequenceEmpty", [], ["s"]), n("ConcatFromSequence", ["s"], ["y"], axis=0)])
    both("OptionalGetElement of nothing", [n("Optional", [], ["o"], type=helper.make_tensor_type_proto(1, [2])), n("OptionalGetElement", ["o"], ["y"])])
    both("OptionalHasElement of nothing", [n("Optional", [], ["o"], type=helper.make_tensor_type_proto(1, [2])), n("OptionalHasElement", ["o"], ["y"])])
    both("SplitToSequence by 0", [n("SplitToSequence", ["x", "p"], ["s"]), n("SequenceLength", ["s"], ["y"])], weights={"p": scalar(0)})


def structure():
    n, x = helper.make_node, {"x": f(2)}

    def both(name, m):
        add("structure", name, m, x)

    relu = n("Relu", ["x"], ["y"])
    both("in order", model([relu], x, {}))
    both("a cycle", model([n("Add", ["x", "b"], ["a"]), n("Relu", ["a"], ["b"]), n("Relu", ["b"], ["y"])], x, {}))
    both("out of order", model([n("Relu", ["a"], ["y"]), n("Relu", ["x"], ["a"])], x, {}))
    both("a value twice", model([relu, n("Abs", ["x"], ["y"])], x, {}))
    both("a node that makes its input", model([n("Relu", ["x"], ["x"]), relu], x, {}))
    both("an unknown value", model([n("Add", ["x", "ghost"], ["y"])], x, {}))
    both("an output that nothing makes", model([relu], x, {}, ["y", "ghost"]))
    both("an output that is an input", model([], x, {}, ["x"]))
    both("an output twice", model([relu], x, {}, ["y", "y"]))
    both("no outputs", model([relu], x, {}, []))
    both("an unknown operator that nothing reads", model([relu, n("Frobnicate", ["x"], ["z"])], x, {}))
    both("a type error that nothing reads", model([relu, n("Not", ["x"], ["z"])], x, {}))
    both("an operator without a name", model([n("", ["x"], ["y"])], x, {}))
    for v in 0, -1, 1, 5, 99, HUGE:
        both(f"opset {v}", model([relu], x, {}, opset=v))
    for v in 0, -1, 1, 2, 99, 1 << 40:
        m = model([relu], x, {})
        m.ir_version = v
        both(f"IR version {v}", m)
    bare = model([relu], x, {})
    del bare.opset_import[:]
    both("no opset", bare)
    for name, change in {
        "no graph": lambda m: m.ClearField("graph"), "no graph name": lambda m: m.graph.ClearField("name"), "an input without a type": lambda m: m.graph.input[0].ClearField("type"), "an input of type 99": lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99),
        "an input of another size": lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", -3), "an input twice": lambda m: m.graph.input.append(m.graph.input[0]), "an output of another type": lambda m: m.graph.output[0].CopyFrom(value("y", i(1, 2))),
        "an output of another rank": lambda m: m.graph.output[0].CopyFrom(value("y", f(2, 1))), "an output of another size": lambda m: m.graph.output[0].CopyFrom(value("y", f(3))), "an intermediate value of another type": lambda m: m.graph.value_info.append(value("y", i(1))),
        "an attribute twice": lambda m: m.graph.node[0].attribute.extend([helper.make_attribute("alpha", 1.0)] * 2), "an opset twice": lambda m: m.opset_import.append(helper.make_opsetid("", 20)),
    }.items():
        m = model([relu], x, {})
        change(m)
        both(name, m)
    fn = lambda name, *nodes: helper.make_function("local", name, ["a"], ["b"], list(nodes), [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)])
    call = lambda k, a, b: n(k, [a], [b], domain="local")
    for name, fs in {"in order": [fn("F", n("Neg", ["a"], ["b"]))], "that calls itself": [fn("F", call("F", "a", "b"))], "of two that call each other": [fn("F", call("G", "a", "b")), fn("G", call("F", "a", "b"))], "twice": [fn("F", n("Neg", ["a"], ["b"]))] * 2,
                     "without its output": [fn("F", n("Neg", ["a"], ["c"]))], "of an unknown operator": [fn("F", n("Frobnicate", ["a"], ["b"]))],
                     "of 2^24 nodes": [fn("F" + "F" * k, *[call("F" * (k + 2), "a" if j == 0 else f"t{j}", "b" if j == 7 else f"t{j + 1}") for j in range(8)]) for k in range(8)] + [fn("F" * 9, n("Neg", ["a"], ["b"]))]}.items():
        both(f"a function {name}", model([call("F", "x", "y")], x, {}, functions=fs))
    deep = body("e", [], ["b"], n("Abs", ["x"], ["b"]))
    for k in range(20):
        deep = body("e", [], ["b"], n("If", ["c"], ["b"], then_branch=deep, else_branch=body("o", [], ["b2"], n("Abs", ["x"], ["b2"]))))
    both("20 branches deep", model([n("If", ["c"], ["y"], then_branch=deep, else_branch=body("e", [], ["z"], n("Abs", ["x"], ["z"])))], x, {"c": np.array(True)}))
    good = model([n("Add", ["x", "w"], ["y"])], x, {"w": f(2)})
    data = good.SerializeToString()
    for k in range(0, len(data), max(1, len(data) // 24)):
        both(f"the first {k} bytes", data[:k])
    random = np.random.default_rng(23)
    for k in range(40):
        flipped = bytearray(data)
        flipped[random.integers(len(data))] ^= 1 << random.integers(8)
        both(f"flipped bit {k}", bytes(flipped))
    both("bytes after it", data + b"\x00\xff" * 9)


def weights():
    n, x = helper.make_node, {"x": f(2)}
    good = dict(name="w", data_type=1, dims=[2], raw_data=f(2).tobytes())
    for name, change in {
        "in order": {}, "a byte too few": {"raw_data": b"1234567"}, "a byte too many": {"raw_data": b"123456789"}, "no bytes": {"raw_data": b""}, "a size of -2": {"dims": [-2]}, "a size of 2^40": {"dims": [1 << 40]}, "sizes that overflow": {"dims": [1 << 32, 1 << 32]},
        "type 0": {"data_type": 0}, "type 99": {"data_type": 99}, "type -1": {"data_type": -1}, "raw strings": {"data_type": 8}, "the wrong field": {"raw_data": None, "int32_data": [1, 2]}, "both fields": {"float_data": [1, 2]}, "too few floats": {"raw_data": None, "float_data": [1.0]},
        "external without a place": {"raw_data": None, "data_location": 1}, "another name": {"name": "v"}, "no name": {"name": ""}, "a long comment": {"doc_string": "x" * 99999},
    }.items():
        t = onnx.TensorProto(**{k: v for k, v in {**good, **change}.items() if v is not None})
        add("weights", name, model([n("Add", ["x", "w"], ["y"])], x, {"w": t}), x)
        add("weights", name + ", unread", model([n("Neg", ["x"], ["y"])], x, {"w": t}), x)
    for name, entries in {"a file that is not there": {"location": "none"}, "a file above": {"location": "../secret"}, "an absolute path": {"location": "/etc/hostname"}, "/dev/zero": {"location": "/dev/zero"}, "itself": {"location": "."}, "an offset of -1": {"location": "model.onnx", "offset": "-1"},
                          "a length of 2^62": {"location": "model.onnx", "length": str(HUGE)}, "no number": {"location": "model.onnx", "length": "x"}, "its own model": {"location": "model.onnx", "offset": "0", "length": "8"}}.items():
        t = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=1)
        for k, v in entries.items():
            t.external_data.add(key=k, value=v)
        add("weights", f"external: {name}", model([n("Add", ["x", "w"], ["y"])], x, {"w": t}), x)
    for name, values, indices, dims in ("in order", [1.0, 2.0], [0, 1], [2]), ("beyond", [1.0], [2], [2]), ("twice", [1.0, 2.0], [0, 0], [2]), ("below", [1.0], [-1], [2]), ("2^40", [1.0], [0], [1 << 40]), ("more values", [1.0, 2.0, 3.0], [0, 1], [2]):
        m = model([n("Add", ["x", "w"], ["y"])], x, {})
        m.graph.sparse_initializer.append(helper.make_sparse_tensor(helper.make_tensor("w", T.FLOAT, [len(values)], values), helper.make_tensor("k", T.INT64, [len(indices)], indices), dims))
        add("weights", f"sparse: {name}", m, x)


def work():
    n = helper.make_node
    x, big = {"x": f(2)}, {"big": i(1 << 14, 1 << 14)}

    def both(name, nodes, weights=None, inputs=None):
        add("work", name, model(nodes, inputs or x, weights or {}), inputs or x)

    first = [n("ReduceSum", ["x"], ["s"], keepdims=0)]
    both("a product of 2^42 operations", [*first, n("Expand", ["s", "big"], ["e"]), n("MatMul", ["e", "e"], ["p"]), n("ReduceSum", ["p"], ["y"])], big)
    both("a transcendental over 1 GiB", [*first, n("Expand", ["s", "big"], ["e"]), n("Erf", ["e"], ["p"]), n("Erf", ["p"], ["q"]), n("ReduceSum", ["q"], ["y"])], big)
    both("a power of 2^30 elements", [*first, n("Expand", ["s", "big"], ["e"]), n("Concat", ["e"] * 4, ["p"], axis=0), n("NonZero", ["p"], ["y"])], big)
    both("a sum of 4,000 operands", [n("Sum", ["x"] * 4000, ["y"])])
    both("a product of one by one that doubles", [n("Concat", ["x" if k == 0 else f"v{k}"] * 2, [f"v{k + 1}" if k < 39 else "y"], axis=0) for k in range(40)])
    both("strings that double", [n("Cast", ["x"], ["v0"], to=8)] + [n("StringConcat", [f"v{k}"] * 2, [f"v{k + 1}" if k < 39 else "y"]) for k in range(40)])
    both("a sort of 2^24", [*first, n("Expand", ["s", "k"], ["e"]), n("RandomNormalLike", ["e"], ["r"]), n("TopK", ["r", "k"], ["v", "y"])], {"k": i(1 << 24)})
    both("a chain of 20,000 nodes", [n("Neg", ["x" if k == 0 else f"v{k}"], [f"v{k + 1}" if k < 19_999 else "y"]) for k in range(20_000)])
    both("a pool of 2^24 by 2^24", [n("AveragePool", ["x"], ["y"], kernel_shape=[1 << 24, 1 << 24], auto_pad="SAME_UPPER")], inputs={"x": f(1, 1, 64, 64)})
    both("a median of Resize", [n("Resize", ["x", "", "", "to"], ["y"], mode="cubic")], {"to": i(1, 1, 1 << 14, 1 << 14)}, {"x": f(1, 1, 4, 4)})
    both("a transform of a prime length", [n("Expand", ["x", "to"], ["e"]), n("DFT", ["e", "", "k"], ["y"])], {"to": i(1, 1_000_003, 1), "k": scalar(1)}, {"x": f(1, 1, 1)})


def convolutions():
    """Windows, channels and sizes of convolutions in every element type, and of what becomes of them: tiles, depthwise kernels, products."""
    w, edge, far = f(4, 2, 3, 3), (1 << 63) - 1, 1 << 31
    pads = [[edge, 0, 0, 0], [edge, edge, edge, edge], [HUGE, 0, HUGE, 0], [far, far, far, far], [0, 0, -1, 0], [1, 1]]
    steps = [[0, 1], [-1, 1], [edge, 1], [HUGE, HUGE], [far, far], [1]]
    vary("convolutions", "Conv", [image, w], pads=pads, strides=steps, dilations=steps, group=[edge, -edge, 1 << 32], auto_pad=["SAME_UPPER", ""],
         at0=[f(0, 2, 5, 5), f(1, 2, 0, 5), f(1, 2, 2, 2), f(2, 5), f(1, 2, 5), f(1, 0, 5, 5)], at1=[f(4, 2, 0, 3), f(4, 0, 3, 3), w.astype(np.float64), f(4, 2, 3, 3, 1)])
    grouped = f(1, 4, 5, 5)
    vary("convolutions", "Conv", [grouped, f(4, 2, 3, 3)], {"group": 2}, group=[1, 3, 4, 8], at1=[f(3, 2, 3, 3), f(4, 1, 3, 3), f(1, 2, 3, 3), f(0, 2, 3, 3)], at0=[f(1, 5, 5, 5), f(1, 0, 5, 5)])
    vary("convolutions", "Conv", [grouped, f(4, 1, 3, 3)], {"group": 4}, pads=pads, strides=steps, dilations=steps, at0=[f(1, 8, 5, 5), f(1, 3, 5, 5), f(1, 4, 2, 2)], at1=[f(6, 1, 3, 3), f(8, 1, 3, 3), f(2, 1, 3, 3)])
    tiled = f(1, 16, 32, 32)
    vary("convolutions", "Conv", [tiled, f(16, 16, 3, 3)], {"pads": [1, 1, 1, 1]}, pads=[[1 << 20, 0, 0, 0], [1 << 14, 1 << 14, 1 << 14, 1 << 14], [0, edge, 0, edge]],
         at0=[f(1, 16, 1, 1), f(1, 16, 0, 32), np.full((1, 16, 32, 32), np.nan, np.float32), np.full((1, 16, 32, 32), 3e38, np.float32)], at1=[np.full((16, 16, 3, 3), np.inf, np.float32)])
    vary("convolutions", "Conv", [g(image), g(w)], at1=[g(f(4, 3, 3, 3)), g(f(4, 2, 9, 9)), g(f(4, 2, 0, 0))], group=[2], pads=pads[:3])
    extra = {"output_padding": [1, 1], "strides": [2, 2]}
    vary("convolutions", "ConvTranspose", [image, f(2, 3, 3, 3)], extra, output_padding=[[2, 2], [HUGE, 0], [edge, edge], [-1, -1]], strides=steps + [[1 << 20, 1 << 20]], dilations=steps + [[1 << 20, 1 << 20]],
         pads=pads + [[9, 9, 9, 9]], output_shape=[[HUGE, HUGE], [edge, 1], [far, far], [-7, 7], [7], [1 << 16, 1 << 16]], group=[2, 3, edge], at1=[f(2, 0, 3, 3), f(2, 3, 0, 0), f(2, 3, 3), f(1, 3, 3, 3)], auto_pad=["SAME_UPPER", "SAME_LOWER"])
    vary("convolutions", "ConvTranspose", [image, f(2, 3, 3, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, output_shape=[[HUGE, 2], [1, 1], [11, 11]], strides=[[HUGE, 1], [9, 9]])
    zero, scale = np.array(1, np.uint8), np.array(0.5, np.float32)
    bytes_ = [u8(1, 2, 5, 5), u8(4, 2, 3, 3), zero, zero]
    vary("convolutions", "ConvInteger", bytes_, pads=pads + [[1 << 14, 1 << 14, 1 << 14, 1 << 14]], strides=steps, dilations=steps, group=[2, 3, edge], at0=[u8(1, 2, 2, 2), u8(0, 2, 5, 5), u8(1, 2, 0, 5), i8(1, 2, 5, 5), u8(2, 5)],
         at1=[u8(4, 2, 0, 3), u8(0, 2, 3, 3), u8(4, 1, 3, 3), u8(4, 2, 12, 12), f(4, 2, 3, 3)], at2=[np.array(1, np.int8), u8(0), u8(4)], at3=[u8(0), u8(3), np.ones((4, 1), np.uint8)])
    vary("convolutions", "ConvInteger", [u8(1, 4, 5, 5), u8(4, 2, 3, 3), zero, zero], {"group": 2}, group=[3, 4], at1=[u8(3, 2, 3, 3), i8(4, 2, 3, 3)], at3=[u8(4), u8(2)])
    quantised = [u8(1, 2, 5, 5), scale, zero, u8(4, 2, 3, 3), scale, zero, scale, zero]
    vary("convolutions", "QLinearConv", quantised, pads=pads, strides=steps, dilations=steps, group=[2, edge], at1=[np.array(0, np.float32), np.array(np.nan, np.float32), np.array(np.inf, np.float32), f(0)], at3=[u8(4, 2, 6, 6), u8(4, 3, 3, 3), f(4, 2, 3, 3)],
         at4=[f(0), f(4, 1), np.full(3, 0.5, np.float32)], at6=[np.array(0, np.float32), np.array(-1, np.float32), np.array(np.nan, np.float32), np.full(4, 0.5, np.float32)], at7=[u8(4), np.array(1, np.int8)])
    vary("convolutions", "QLinearConv", quantised + [np.zeros(4, np.int32)], at8=[np.zeros(3, np.int32), np.zeros(4, np.int64), np.zeros((4, 1), np.int32), f(4)])
    ms = "com.microsoft"
    vary("convolutions", "FusedConv", [image, w], {"activation": "Relu"}, domain=ms, activation=["Odd", "", "HardSigmoid", "Clip"], activation_params=[[1.0], [float("nan"), 1.0]], group=[2], pads=pads[:2])
    vary("convolutions", "FusedConv", [image, w, f(4), f(1, 4, 3, 3)], domain=ms, at3=[f(1, 4, 3, 2), f(4), f(1, 4, 1, 1), f(2, 4, 3, 3)])
    n = helper.make_node
    for before in [0, 0, 1, 1, 0, 0, 1, 1], [0, 0, edge, 0, 0, 0, edge, 0], [0, 0, HUGE, 0, 0, 0, HUGE, 0], [0, 0, 1 << 14, 1 << 14, 0, 0, 0, 0], [0, 1, 0, 0, 0, 1, 0, 0], [0, 0, -3, 0, 0, 0, 0, 0], [0, 0, -9, 0, 0, 0, 0, 0]:
        for own in [0, 0, 0, 0], [edge, 0, 0, 0], [HUGE, 0, HUGE, 0]:
            add("convolutions", f"Pad by {before} before pads {own}", model([n("Pad", ["x", "p"], ["v"]), n("Conv", ["v", "w"], ["y"], pads=own)], {"x": image}, {"p": i(*before), "w": w}), {"x": image})


def recurrences():
    """Weights, lengths and states of recurrent cells that do not fit."""
    x = f(3, 2, 4)
    for kind, gates in ("RNN", 1), ("GRU", 3), ("LSTM", 4):
        w, r, b, lengths, h = f(1, gates * 5, 4), f(1, gates * 5, 5), f(1, gates * 10), np.array([3, 1], np.int32), f(1, 2, 5)
        results = 3 if kind == "LSTM" else 2
        vary("recurrences", kind, [x, w, r, b, lengths, h], {"hidden_size": 5}, results,
             at0=[f(0, 2, 4), f(3, 0, 4), f(3, 2, 0), f(3, 2, 5), f(3, 2, 4, 1), x.astype(np.float64)], at1=[f(1, gates * 5, 0), f(1, gates * 5 + 1, 4), f(2, gates * 5, 4), f(gates * 5, 4), f(1, 0, 4)],
             at2=[f(1, gates * 5, 0), f(1, gates * 5, 4), f(1, gates * 4, 5), f(2, gates * 5, 5), f(1, 5, 5), f(1, 0, 0)], at3=[f(1, gates * 10 - 1), f(2, gates * 10), f(gates * 10), f(1, 0)],
             at4=[np.array([4, 1], np.int32), np.array([-1, 1], np.int32), np.array([(1 << 31) - 1, 1], np.int32), np.array([-1 << 31, 1], np.int32), np.array([3], np.int32), np.array([3, 1, 1], np.int32), i(3, 1), np.array([0, 0], np.int32)],
             at5=[f(1, 2, 4), f(1, 3, 5), f(2, 2, 5), f(2, 5), f(1, 0, 5)],
             hidden_size=[0, -5, 6, HUGE], direction=["reverse", "bidirectional", ""], layout=[1, 2], clip=[0.0, -1.0, float("nan"), float("inf")], activations=[["Relu"], ["Odd"] * gates, ["Tanh"] * 9], activation_alpha=[[1.0], [float("nan")] * 9])
        given = [g(x), g(w), g(r), None, g(lengths)]
        vary("recurrences", kind, given, {"hidden_size": 5}, results, at1=[g(f(1, gates * 5, 3)), g(f(1, gates * 5 + 1, 4))], at2=[g(f(1, gates * 5, 4)), g(f(1, gates * 4, 4))], at4=[g(np.array([9, 1], np.int32)), g(np.array([-9, 1], np.int32))])
        both, two = [x, f(2, gates * 5, 4), f(2, gates * 5, 5), f(2, gates * 10)], {"hidden_size": 5, "direction": "bidirectional"}
        vary("recurrences", kind, both, two, results, at1=[w], at2=[r], at3=[b], direction=["forward"], layout=[1])
    vary("recurrences", "LSTM", [x, f(1, 20, 4), f(1, 20, 5), None, None, None, f(1, 2, 5), f(1, 15)], {"hidden_size": 5}, 3, at6=[f(1, 2, 4), f(1, 3, 5)], at7=[f(1, 14), f(2, 15), f(1, 20)], input_forget=[1, 2])


def caches():
    """Keys and values of the past, lengths and positions that lie."""
    ms, n = "com.microsoft", helper.make_node
    q, kv, past = f(1, 1, 8), f(1, 1, 8), f(1, 2, 4, 4)
    heads = {"num_heads": 2, "kv_num_heads": 2}
    k32 = lambda *v: np.array(v, np.int32)
    vary("caches", "GroupQueryAttention", [q, kv, kv, past, past, k32(4), k32(5)[0]], heads, 3, domain=ms, at3=[f(1, 2, 4, 5), f(1, 1, 4, 4), f(2, 2, 4, 4), f(1, 2, 0, 4), f(2, 4, 4)], at4=[f(1, 2, 5, 4)],
         at5=[k32(5), k32(-1), k32((1 << 31) - 1), k32(-1 << 31), k32(4, 4), k32(), i(4)], at6=[k32(9)[0], k32(0)[0], k32(-1)[0], k32((1 << 31) - 1)[0], k32(5, 5)], num_heads=[0, 3, -2, HUGE], kv_num_heads=[0, 3, 4], local_window_size=[0, 1, HUGE, -2], do_rotary=[1], softcap=[-1.0, float("nan")])
    cos = f(4, 2)
    vary("caches", "GroupQueryAttention", [q, kv, kv, past, past, k32(3), k32(4)[0], cos, cos], {**heads, "do_rotary": 1}, 3, domain=ms, at5=[k32(4), k32(9), k32(-5)], at7=[f(2, 2), f(0, 2), f(4, 3), f(4)], at8=[f(4, 1)])
    vary("caches", "MultiHeadAttention", [q, kv, kv, None, None, None, past, past], {"num_heads": 2}, 3, domain=ms, at6=[f(1, 2, 4, 5), f(1, 1, 4, 4), f(2, 2, 4, 4)], at7=[f(1, 2, 3, 4)], num_heads=[0, 3, HUGE])
    vary("caches", "Attention", [f(1, 2, 8), f(1, 2, 8), f(1, 2, 8), None, past, past], {"q_num_heads": 2, "kv_num_heads": 2}, 3, opset=24, at4=[f(1, 2, 5, 4), f(1, 2, 4, 5), f(2, 2, 4, 4), f(1, 2, 0, 4), f(1, 1, 4, 4)], is_causal=[1], softcap=[float("nan")], scale=[float("inf")])
    vary("caches", "Attention", [f(1, 2, 8), f(1, 4, 8), f(1, 4, 8), None, None, None, i(4)], {"q_num_heads": 2, "kv_num_heads": 2}, opset=24, at6=[i(5), i(-1), i(0), i(HUGE), i(-HUGE), i(4, 4), i(), k32(4)], is_causal=[1])
    vary("caches", "TensorScatter", [f(2, 4, 3), f(2, 1, 3), i(0, 3)], {"axis": 1}, opset=24, at1=[f(2, 5, 3), f(2, 1, 4), f(1, 1, 3), f(2, 0, 3)], at2=[i(4, 0), i(-1, 0), i(HUGE, 0), i(0), i(0, 0, 0), i((1 << 63) - 1, 0)], axis=[0, 3, -1, -4, HUGE], mode=["circular", "odd"])
    vary("caches", "RotaryEmbedding", [f(1, 2, 8), np.zeros((1, 2), np.int64), f(4, 2), f(4, 2)], {"num_heads": 2}, domain=ms, at1=[i(0), i(3), i(-1), i(HUGE), np.full((1, 2), 4), np.full((1, 2), -4), np.zeros((1, 3), np.int64)], at2=[f(4, 3), f(0, 2)], num_heads=[0, 3, HUGE], rotary_embedding_dim=[2, 3, HUGE])
    state = f(2, 4, 2)
    vary("caches", "CausalConvWithState", [f(2, 4, 5), f(4, 1, 3), f(4), state], outputs=2, opset=27, at1=[f(4, 1, 0), f(3, 1, 3), f(4, 2, 3), f(4, 1, 9)], at2=[f(3)], at3=[f(2, 4, 3), f(2, 3, 2), f(1, 4, 2)], at0=[f(2, 4, 0), f(0, 4, 5), f(2, 4)])
    vary("caches", "Gather", [g(f(4, 3)), g(i(0, 3))], at1=[g(i(4)), g(i(-5)), g(i(1 << 31)), g(i(1 << 32)), g(i((1 << 63) - 1)), g(i(-1 << 63))])


def packing():
    """Texts without padding whose lengths, places and sums lie."""
    ms, n = "com.microsoft", helper.make_node
    k32 = lambda *v: np.array(v, np.int32)
    huge, least = (1 << 31) - 1, -1 << 31
    x = f(2, 3, 4)
    for give in g, np.asarray:
        what = "given" if give is g else "constant"
        for counts in k32(3, 1), k32(0, 0), k32(4, 1), k32(-1, 3), k32(huge, huge), k32(least, 0), k32(3), k32(3, 1, 1), i(3, 1), k32():
            op("packing", f"{what} counts {counts.tolist()} of {counts.dtype}", "RemovePadding", [g(x), give(counts)], 4, domain=ms)
        tokens, places = f(4, 4), k32(0, 1, 2, 3, 4, 5).reshape(2, 3)
        for where in places, k32(0, 0, 0, 0, 0, 0).reshape(2, 3), k32(6, 0, 1, 2, 3, 4).reshape(2, 3), k32(-1, 0, 1, 2, 3, 4).reshape(2, 3), k32(huge, least, 1, 2, 3, 4).reshape(2, 3), k32(0, 1, 2).reshape(1, 3), k32(*range(6)), np.zeros((0, 3), np.int32), places.astype(np.int64):
            op("packing", f"{what} places {where.tolist()} of {where.dtype}", "RestorePadding", [g(tokens), give(where)], domain=ms)
        for sums in k32(0, 3, 4), k32(0, 4, 4), k32(0, 5, 9), k32(1, 2, 3), k32(4, 3, 0), k32(0, -1, 4), k32(0, huge, huge), k32(least, 0, 4), k32(0, 4), k32(0), k32(), k32(0, 1, 2, 3, 4):
            op("packing", f"{what} sums {sums.tolist()}", "PackedAttention", [g(tokens), f(4, 24), f(24), give(places), give(sums)], domain=ms, num_heads=2)
            op("packing", f"{what} sums {sums.tolist()}", "PackedMultiHeadAttention", [g(f(4, 8)), g(f(4, 8)), g(f(4, 8)), None, give(places), give(sums)], domain=ms, num_heads=2)
        for where in k32(6, 7, 8, 9, 10, 11).reshape(2, 3), k32(huge, -1, -2, -3, least, 0).reshape(2, 3), k32(0, 1, 2, 3).reshape(1, 4):
            op("packing", f"{what} places {where.tolist()} and a bias", "PackedAttention", [g(tokens), f(4, 24), f(24), give(where), give(k32(0, 3, 4)), f(2, 2, 3, 3)], domain=ms, num_heads=2)
    vary("packing", "PackedAttention", [g(f(4, 4)), f(4, 24), f(24), k32(*range(6)).reshape(2, 3), k32(0, 3, 4), f(1, 2, 3, 3)], {"num_heads": 2}, domain=ms, at1=[f(3, 24), f(4, 23), f(4, 0)], at2=[f(23), f(0)], at5=[f(1, 2, 2, 3), f(1, 3, 3, 3), f(3, 2, 3, 3), f(2, 3, 3)], num_heads=[0, 3, -1, HUGE], qkv_hidden_sizes=[[8, 8, 8], [8, 4, 12], [-8, 8, 24], [HUGE, HUGE, 24]], scale=[float("nan")])
    # What one node says of the texts, read by another with other tokens.
    remove = n("RemovePadding", ["x", "c"], ["t", "o", "s", "m"], domain=ms)
    for name, nodes in {"restored": [n("RestorePadding", ["t", "o"], ["y"], domain=ms)], "half of them restored": [n("Slice", ["t", "zero", "one"], ["h"]), n("RestorePadding", ["h", "o"], ["y"], domain=ms)],
                        "twice as many restored": [n("Concat", ["t", "t"], ["h"], axis=0), n("RestorePadding", ["h", "o"], ["y"], domain=ms)],
                        "attended by twice as many": [n("Concat", ["t", "t"], ["h"], axis=0), n("PackedAttention", ["h", "w", "b", "o", "s"], ["y"], domain=ms, num_heads=2)],
                        "of sums that grow": [n("Add", ["s", "s"], ["s2"]), n("PackedAttention", ["t", "w", "b", "o", "s2"], ["y"], domain=ms, num_heads=2)]}.items():
        weights = {"zero": i(0), "one": i(1), "w": f(4, 24), "b": f(24)}
        for c in k32(3, 1), k32(0, 0), k32(9, 9):
            add("packing", f"tokens {name}, of {c.tolist()}", model([remove, *nodes], {"x": x, "c": c}, weights), {"x": x, "c": c})


def places():
    """Sizes, counts and positions that only a run knows, and numbers that are none."""
    nan, inf, edge = float("nan"), float("inf"), (1 << 63) - 1
    x = f(2, 3)
    sizes_ = [i(1 << 31, 1), i(edge, 1), i(edge, edge), i(1 << 32, 1 << 32), i(-edge, 1), i(0, 0), i(1), i(1, 1, 1)]
    vary("places", "Tile", [g(x), g(i(1, 2))], at1=[g(a) for a in sizes_])
    vary("places", "Expand", [g(x), g(i(2, 3))], at1=[g(a) for a in sizes_])
    vary("places", "Range", [g(scalar(0)), g(scalar(5)), g(scalar(1))], at0=[g(scalar(-1 << 63)), g(scalar(edge))], at1=[g(scalar(edge)), g(scalar(-1 << 63)), g(scalar(1 << 40))], at2=[g(scalar(0)), g(scalar(-1 << 63)), g(scalar(edge))])
    vary("places", "Range", [g(scalar(0.0)), g(scalar(5.0)), g(scalar(1.0))], **{f"at{k}": [g(scalar(v)) for v in (nan, inf, -inf, 1e30, 1e-38, 0.0)] for k in range(3)})
    low = [g(np.array(v, np.int32)) for v in (0, 5, 1)]
    vary("places", "Range", low, at1=[g(np.array((1 << 31) - 1, np.int32)), g(np.array(-1 << 31, np.int32))], at2=[g(np.array((1 << 31) - 1, np.int32)), g(np.array(-1, np.int32))])
    square = f(1, 1, 4, 4)
    vary("places", "Resize", [g(square), None, g(np.array([1, 1, 2, 2], np.float32))], at2=[g(np.array(s, np.float32)) for s in ([1, 1, nan, 2], [1, 1, inf, 2], [1, 1, -inf, 2], [1, 1, 1e30, 1e30], [1, 1, 1e-30, 1], [1, 1, 0, 0], [1, 1], [])], mode=["linear", "cubic"])
    vary("places", "Resize", [g(square), None, None, g(i(1, 1, 8, 8))], at3=[g(i(1, 1, edge, edge)), g(i(1, 1, 1 << 31, 1 << 31)), g(i(1, 1, -1, 8)), g(i(1, 1, 0, 0)), g(i(edge, 1, 8, 8))], mode=["linear", "cubic"], keep_aspect_ratio_policy=["not_larger", "not_smaller"])
    roi = lambda *v: g(np.array(v, np.float32))
    vary("places", "Resize", [g(square), roi(0, 0, 0, 0, 1, 1, 1, 1), None, g(i(1, 1, 8, 8))], {"coordinate_transformation_mode": "tf_crop_and_resize"}, at1=[roi(0, 0, nan, nan, 1, 1, nan, 1), roi(0, 0, -inf, 0, 1, 1, inf, 1), roi(0, 0, 1e30, 0, 1, 1, -1e30, 1), roi(0, 0), roi()], mode=["linear", "cubic"])
    vary("places", "TopK", [g(x), g(i(1))], outputs=2, at1=[g(i(v)) for v in (0, 3, 4, -1, 1 << 31, 1 << 32, edge, -edge)] + [g(i()), g(i(1, 1))], at0=[g(np.full((2, 3), nan, np.float32)), g(f(0, 3)), g(f(2, 0))], largest=[0, 2], sorted=[0])
    for mode in "linear", "nearest", "cubic":
        for padding in "zeros", "border", "reflection":
            for align in 0, 1:
                for v in nan, inf, -inf, 1e30, -1e30, 3e9, -2147483649.0, 1.0000001:
                    op("places", f"{mode}, {padding}, {align}: {v}", "GridSample", [g(square), g(np.array([[[[v, 0], [0, v], [v, v], [0.5, v]]]], np.float32))], mode=mode, padding_mode=padding, align_corners=align)
    vary("places", "GridSample", [g(square), g(f(1, 3, 3, 2))], at0=[g(f(1, 1, 0, 0)), g(f(0, 1, 4, 4)), g(f(1, 0, 4, 4)), g(f(1, 1, 1, 1))], at1=[g(f(1, 0, 3, 2)), g(f(0, 3, 3, 2))], padding_mode=["reflection", "border"])
    at = lambda *v: np.array(v, np.int64).reshape(1, -1)
    for v in 2, -3, 1 << 31, 1 << 32, edge, -1 << 63:
        op("places", f"{v}", "ScatterElements", [g(x), g(at(v, 0, 0)), g(f(1, 3))])
        op("places", f"{v}", "ScatterND", [g(x), g(at(v).reshape(1, 1)), g(f(1, 3))])
        op("places", f"{v}, {v}", "ScatterND", [g(x), g(at(v, v)), g(f(1))])
        op("places", f"{v}", "GatherND", [g(x), g(at(v, 0))])
        op("places", f"{v}", "GatherElements", [g(x), g(at(v, 0, 0))])
        op("places", f"{v}", "OneHot", [g(at(v, 0)), g(scalar(3)), g(f(2))])
        op("places", f"a depth of {v}", "OneHot", [g(at(1, 0)), g(scalar(v)), g(f(2))])
        op("places", f"{v}", "Slice", [g(x), g(i(v)), g(i(v)), g(i(0)), g(i(1))])
        op("places", f"steps of {v}", "Slice", [g(x), g(i(0)), g(i(9)), g(i(1)), g(i(v))])
        op("places", f"{v}", "Trilu", [g(x), g(scalar(v))])
        op("places", f"{v}", "CumSum", [g(x), g(scalar(v))])
        op("places", f"{v}", "ConstantOfShape", [g(i(v))])
        op("places", f"{v}", "Pad", [g(x), g(i(v, 0, 0, 0))])
        op("places", f"{v} and {v}", "Pad", [g(x), g(i(v, 0, v, 0))])
        op("places", f"{v}", "Reshape", [g(x), g(i(v, -1))])
        op("places", f"{v}", "SplitToSequence", [g(x), g(scalar(v))])
        op("places", f"{v}", "ReverseSequence", [g(f(3, 2)), g(i(v, 1))])
    op("places", "updates of another shape", "ScatterND", [g(x), g(at(0).reshape(1, 1)), g(f(1, 4))])
    op("places", "a tuple longer than the axes", "ScatterND", [g(x), g(at(0, 0, 0)), g(f(1))])
    op("places", "no tuples", "ScatterND", [g(x), g(np.zeros((0, 1), np.int64)), g(f(0, 3))])
    op("places", "empty tuples", "ScatterND", [g(x), g(np.zeros((1, 0), np.int64)), g(f(1, 2, 3))])
    for kind in "ArgMax", "ArgMin":
        vary("places", kind, [g(x)], {"axis": 1}, at0=[g(np.full((2, 3), nan, np.float32)), g(f(2, 0)), g(f(0, 3)), g(np.array([[nan, 1, nan], [1, nan, 2]], np.float32))], select_last_index=[1, 2], keepdims=[0, 2])


CLASSES = [windows, axes, sizes, quantisation, types, operands, strings, control, structure, weights, work, convolutions, recurrences, caches, packing, places]


def bounded():
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))


def watched(command):
    """Runs a command; returns its exit code or signal, the processor's seconds, peak bytes and what it wrote."""
    out = os.path.join(folder, "said")
    with open(out, "wb") as w:
        p = subprocess.Popen(command, stdout=w, stderr=w, stdin=subprocess.DEVNULL, preexec_fn=bounded)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    return p.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10, open(out, errors="replace").read()


def reference(path, inputs):
    """onnxruntime's verdict, from a fork: "" or an error."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        bounded()
        try:
            import onnxruntime as ort
            o = ort.SessionOptions()
            o.log_severity_level, o.intra_op_num_threads = 4, 1
            ort.InferenceSession(path, o, ["CPUExecutionProvider"]).run(None, inputs)
            said = ""
        except BaseException as e:  # whatever it says
            said = str(e)[:400] or repr(e)[:400]
        os.write(w, said.encode())
        os._exit(0)
    os.close(w)
    said = b""
    while part := os.read(r, 4096):
        said += part
    os.close(r)
    _, status = os.waitpid(pid, 0)
    return said.decode(errors="replace").replace("\n", " ") if status == 0 else f"died with {status}"


def main():
    global folder
    rlxc, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    import onnxruntime as ort
    ort.set_default_logger_severity(4)
    for c in CLASSES:
        if len(sys.argv) < 4 or c.__name__ in sys.argv[3:]:
            c()
    counts = collections.defaultdict(collections.Counter)
    peak = slowest = (0, "")
    for k, (cls, name, data, inputs) in enumerate(cases):
        home = os.path.join(folder, f"{k:04d}")
        os.makedirs(home, exist_ok=True)
        path = os.path.join(home, "model.onnx")
        with open(path, "wb") as w:
            w.write(data)
        given = []
        for n, a in inputs.items():
            a = np.asarray(a)
            proto = os.path.join(home, f"{n}.pb")
            with open(proto, "wb") as w:
                w.write(numpy_helper.from_array(a, n).SerializeToString())
            given += ["--input", f"{n}={proto}"]
        count, said = counts[cls], ""
        count["models"] += 1
        for command in (["inspect", path], ["compile", path, "--memory-limit", "1GiB", "-o", os.path.join(home, "a.rlxc")], ["run", path, "--memory-limit", "1GiB", "--threads", "1", *given]):
            code, took, memory, said = watched([rlxc, *command])
            at = f"{cls}: {name}: {command[0]}"
            peak, slowest = max(peak, (memory, at)), max(slowest, (took, at))
            for what, bad in ("crash", code < 0 and took < PATIENCE - 1 or "goroutine " in said or code not in (0, 1, 3) and code > 0), ("hang", took >= PATIENCE - 1), ("memory", memory > LIMIT + SLACK), ("internal", "internal error" in said):
                if bad:
                    count[what] += 1
                    print(f"{what.upper()} {k} {at}: {code}, {took:.1f} s, {memory >> 20} MiB: {said[:600]}", flush=True)
        if os.path.exists(os.path.join(home, "a.rlxc")):
            os.remove(os.path.join(home, "a.rlxc"))
        theirs = reference(path, {n: np.asarray(a) for n, a in inputs.items()})
        count["refused"] += code != 0
        # What it does not implement, or has no memory or locale for, and results that numpy cannot hold say nothing of the model.
        unknown = re.search("locale name not valid|array is too big|NOT_IMPLEMENTED|Could not find an implementation|not implemented|not supported|allocate memory|bad_alloc|died", theirs)
        if code == 0 and theirs and not unknown:
            count["accepted alone"] += 1
            print(f"ACCEPTED {k} {cls}: {name}: onnxruntime: {theirs}", flush=True)
        if code != 0 and not theirs:
            count["refused alone"] += 1
            print(f"REFUSED {k} {cls}: {name}: {said.strip()[:300]}", flush=True)
    for cls, count in counts.items():
        print(cls, json.dumps(count))
    print("in all", json.dumps(sum(counts.values(), collections.Counter())))
    print(f"largest: {peak[0] >> 20} MiB ({peak[1]}); slowest: {slowest[0]:.1f} s ({slowest[1]})")


if __name__ == "__main__":
    main()
