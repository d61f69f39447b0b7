"""Makes small models of control flow and of sizes without names, and records what onnxruntime answers.

    python control.py ../../testdata/control

writes OUT/NAME.zip with model.onnx and test_data_set_N/. The models are in ONNX's text form, below.
"""

import argparse
import pathlib
import tempfile

import numpy as np
import onnx
from onnx import parser

from beyond import pack
from record import record_inputs

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
YES, NO = np.array(True), np.array(False)


def x(*shape):
    return (np.arange(np.prod(shape), dtype=np.float32) / 8 - 1).reshape(shape)


# Each model with the inputs of its runs.
MODELS = {
    # The branches' results differ in their number of axes.
    "ranks": ("""g (bool c, float[n,3] x) => (float y) <int64[1] first = {0}> {
        a = If(c) <then_branch = t () => (float[n,3] p) { p = Relu(x) },
                   else_branch = e () => (float[3] q) { q = ReduceSum<keepdims=0>(x, first) }>
        y = ReduceSum(a)
    }""", [dict(c=YES, x=x(2, 3)), dict(c=NO, x=x(2, 3)), dict(c=YES, x=x(5, 3))]),
    # They differ in a size.
    "sizes": ("""g (bool c, float[n,3] x) => (float[k,3] y) {
        a = If(c) <then_branch = t () => (float[k1,3] p) { p = Concat<axis=0>(x, x) }, else_branch = e () => (float[k2,3] q) { q = Relu(x) }>
        mean = ReduceMean<axes=[0]>(a)
        y = Add(a, mean)
    }""", [dict(c=YES, x=x(2, 3)), dict(c=NO, x=x(2, 3))]),
    # A branch that fits some sizes alone, as PyTorch's exporter writes squeeze.
    "squeeze": ("""g (float[n,m] x) => (float[] y) <int64 first = {0}, int64 one = {1}, int64[1] axes = {0}> {
        s = Shape(x)
        d = Gather(s, first)
        is1 = Equal(d, one)
        a = If(is1) <then_branch = t () => (float[] p) { p = Squeeze(x, axes) }, else_branch = e () => (float[] q) { q = Identity(x) }>
        y = Mul(a, a)
    }""", [dict(x=x(1, 3)), dict(x=x(2, 3)), dict(x=x(5, 1))]),
    # A shape that the data tell, inside a branch.
    "reshape": ("""g (bool c, float[n,m] x, int64[k] shape) => (float[] y) {
        y = If(c) <then_branch = t () => (float[] p) { one = Constant<value = int64[1] {1}>() rows = Concat<axis=0>(shape, one) p = Reshape(x, rows) },
                   else_branch = e () => (float[] q) { at = NonZero(x) turned = Transpose(at) q = Cast<to=1>(turned) }>
    }""", [dict(c=YES, x=x(2, 3), shape=np.array([3, 2])), dict(c=NO, x=x(2, 3), shape=np.array([3, 2])), dict(c=YES, x=x(2, 3), shape=np.array([6]))]),
    # Names of every scope around a branch, one of which two branches use for different values.
    "names": ("""g (bool c, bool d, float[n,3] x) => (float[n,3] y) <float[3] w = {1.0, 2.0, 3.0}> {
        u = Mul(x, w)
        y = If(c) <
            then_branch = t () => (float[n,3] p) {
                v = Add(u, w)
                p = If(d) <then_branch = tt () => (float[n,3] pp) { k = Add(v, u) pp = Mul(k, w) },
                           else_branch = te () => (float[n,3] pq) {
                               pq = If(c) <then_branch = ttt () => (float[n,3] r) { r = Sub(v, x) }, else_branch = tte () => (float[n,3] s) { s = Sub(u, x) }> }>
            },
            else_branch = e () => (float[n,3] q) {
                v = Sub(u, w)
                q = If(d) <then_branch = et () => (float[n,3] minus) { minus = Neg(v) }, else_branch = ee () => (float[n,3] size) { size = Abs(v) }>
            }>
    }""", [dict(c=c, d=d, x=x(2, 3)) for c in (YES, NO) for d in (YES, NO)]),
    "loop": ("""g (int64 n, float[k] x) => (float[k] y, float[i,k] all) <bool on = {1}> {
        y, all = Loop(n, on, x) <body = b (int64 i, bool c, float[k] s) => (bool co, float[k] so, float[k] sc) {
            two = Constant<value = int64 {2}>()
            m = Mod(i, two)
            odd = Cast<to=9>(m)
            so = If(odd) <then_branch = tb () => (float[k] p) { p = Add(s, x) }, else_branch = eb () => (float[k] q) { q = Mul(s, s) }>
            co = Identity(c)
            sc = Neg(so)
        }>
    }""", [dict(n=np.array(3), x=x(4)), dict(n=np.array(20), x=x(2))]),
    "empty": ("""g (bool c, float[n] x) => (float[k] y, int64[j] z) {
        y, z = If(c) <then_branch = t () => (float[k0] p, int64[j0] pz) { p = Identity(x) pz = Shape(x) },
                      else_branch = e () => (float[k1] q, int64[j1] qz) { q = Constant<value = float[0] {}>() qz = Constant<value = int64[2] {4, 5}>() }>
    }""", [dict(c=YES, x=x(3)), dict(c=NO, x=x(3))]),
    "sequence": ("""g (bool c, float[n] x) => (float[k] y) {
        s = If(c) <then_branch = t () => (seq(float) p) { p = SequenceConstruct(x, x) }, else_branch = e () => (seq(float) q) { q = SequenceConstruct(x) }>
        y = ConcatFromSequence<axis=0>(s)
    }""", [dict(c=YES, x=x(3)), dict(c=NO, x=x(3))]),
    # What the model says of a value is wrong.
    "declared": ("""g (float[n,4] a) => (float[n] y) <int64[1] flat = {-1}, float[n] v> { v = Reshape(a, flat) y = Relu(v) }""",
                 [dict(a=x(3, 4)), dict(a=x(1, 4))]),
    # A body that asks for the number of the trip and the condition with an axis, as paddle2onnx writes it, and gets them so; the outer ones have another.
    "axes": ("""g (int64 n, bool flag, int64[axes] shape, float[k] x) => (float[k] y, int64[i,1] numbers) {
        on = Reshape(flag, shape)
        y, numbers = Loop(n, on, x) <body = b (int64[1] i, bool c, float[k] s) => (bool c1, float[k] s1, int64[1] all) {
            d = Cast<to=1>(i)
            s1 = Add(s, d)
            c1 = Identity(c)
            all = Identity(i)
        }>
    }""", [dict(n=np.array(3), flag=YES, shape=np.array([1]), x=x(4)), dict(n=np.array(20), flag=YES, shape=np.array([1]), x=x(2))]),
    # A signal without the axis of one number.
    "signal": ("""g (float[batch,n] a) => (float[batch,f,9,2] y) <int64 step = {4}, float[16] w = {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1}> {
        y = STFT<onesided=1>(a, step, w)
    }""", [dict(a=x(1, 16)), dict(a=x(2, 50))]),
    # A word that stands for any size.
    "none": ("""g (float[None] a, float[None] b) => (float[None] y) { y = Concat<axis=0>(a, b) }""", [dict(a=x(3), b=x(5)), dict(a=x(1), b=x(1))]),
}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=pathlib.Path)
    out = arguments.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, (text, runs) in MODELS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            onnx.save(parser.parse_model(HEAD + text), folder / "model.onnx")
            record_inputs(folder, runs)
            pack(folder, out / f"{name}.zip")
            print("wrote", name)


if __name__ == "__main__":
    main()
