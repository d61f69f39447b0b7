"""Stores the weights of a model's Conv, ConvTranspose, MatMul, Gemm, LSTM, GRU and RNN as codes or as 16-bit floats, with the node that
widens them: what tools for weight-only quantisation write.

    python models/scripts/stored.py IN.onnx OUT.onnx int8|uint8|int4|f16
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# The axis of the channels of the result, by operator and operand.
AXES = {("Conv", 1): 0, ("ConvTranspose", 1): 1, ("MatMul", 1): -1, ("Gemm", 1): -1, ("LSTM", 1): 1, ("LSTM", 2): 1, ("GRU", 1): 1, ("GRU", 2): 1,
        ("RNN", 1): 1, ("RNN", 2): 1}
TYPES = {"int8": (TensorProto.INT8, -127, 127), "uint8": (TensorProto.UINT8, 0, 255), "int4": (TensorProto.INT4, -7, 7)}


def codes(w, axis, form):
    """Returns codes, scales and zero points."""
    kind, lo, hi = TYPES[form]
    rest = tuple(i for i in range(w.ndim) if i != axis)
    least, most = np.minimum(w.min(rest, keepdims=True), 0), np.maximum(w.max(rest, keepdims=True), 0)
    if lo < 0:
        scale, zero = np.maximum(-least, most) / hi, np.zeros_like(least)
    else:
        scale = (most - least) / hi
        zero = np.round(-least / np.where(scale == 0, 1, scale))
    scale = np.where(scale == 0, 1, scale).astype(np.float32)
    q = np.clip(np.round(w / scale) + zero, lo, hi)
    return kind, q, scale.reshape(-1), zero.reshape(-1)


def main():
    source, target, form = sys.argv[1:]
    model = onnx.load(source)
    for o in model.opset_import:
        if o.domain == "" and o.version < (21 if form == "int4" else 13):
            model = onnx.version_converter.convert_version(model, 21)
            break
    if form == "int4":
        model.ir_version = max(model.ir_version, 10)
    graph = model.graph
    weights, done, nodes = {t.name: t for t in graph.initializer}, {}, []
    for node in graph.node:
        for i, name in enumerate(node.input):
            if (node.op_type, i) not in AXES or name not in weights or weights[name].data_type != TensorProto.FLOAT:
                continue
            if name not in done:
                w = numpy_helper.to_array(weights[name])
                axis = AXES[node.op_type, i] % w.ndim
                if node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute):
                    axis = 0
                done[name] = name + "_wide"
                if form == "f16":
                    graph.initializer.append(numpy_helper.from_array(w.astype(np.float16), name + "_stored"))
                    nodes.append(helper.make_node("Cast", [name + "_stored"], [done[name]], to=TensorProto.FLOAT))
                else:
                    kind, q, scale, zero = codes(w, axis, form)
                    if form == "int4":
                        graph.initializer.append(helper.make_tensor(name + "_stored", kind, w.shape, q.astype(np.int64).flatten()))
                    else:
                        graph.initializer.append(numpy_helper.from_array(q.astype(form), name + "_stored"))
                    graph.initializer.append(numpy_helper.from_array(scale, name + "_scale"))
                    graph.initializer.append(helper.make_tensor(name + "_zero", kind, zero.shape, zero.astype(np.int64)))
                    nodes.append(helper.make_node("DequantizeLinear", [name + "_stored", name + "_scale", name + "_zero"], [done[name]], axis=axis))
            node.input[i] = done[name]
    read = {name for node in graph.node for name in node.input}
    kept = [t for t in graph.initializer if t.name not in done or t.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    everything = nodes + list(graph.node)
    del graph.node[:]
    graph.node.extend(everything)
    onnx.save(model, target)


main()
