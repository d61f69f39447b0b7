"""How far a quantised model moves when its norms differ in the last place.

    python last_place.py FIXTURE [RUNS]

FIXTURE is a folder with model.onnx and test_data_set_*. In each run, onnxruntime has the float32 parameters of every
LayerNorm multiplied by 1 ± 2⁻²³ at random, which is at most one unit in the last place. The worst cosine of any output to the recorded
one is printed for each run. What is quantised afterwards may lie in the middle between two steps, and then it falls to the other side.
"""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper


def tensors(folder, kind):
    for path in sorted(folder.glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.split("_")[1])):
        yield numpy_helper.to_array(onnx.load_tensor(path))


def cosine(x, y):
    x, y = x.ravel().astype(np.float64), y.ravel().astype(np.float64)
    return x @ y / np.sqrt((x @ x) * (y @ y))


def main(folder, runs=16):
    folder = pathlib.Path(folder)
    model = onnx.load(folder / "model.onnx")
    sets = [(list(tensors(s, "input")), list(tensors(s, "output"))) for s in sorted(folder.glob("test_data_set_*"))]
    for seed in range(int(runs)):
        random, moved = np.random.default_rng(seed), onnx.ModelProto()
        moved.CopyFrom(model)
        for w in moved.graph.initializer:
            if "LayerNorm" in w.name and w.data_type == onnx.TensorProto.FLOAT:
                x = numpy_helper.to_array(w)
                x = (x * (1 + random.uniform(-(2.0**-23), 2.0**-23, x.shape))).astype(np.float32)
                w.CopyFrom(numpy_helper.from_array(x, w.name))
        session = ort.InferenceSession(moved.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        worst = min(cosine(got, want) for inputs, outputs in sets for got, want in zip(session.run(None, dict(zip(names, inputs))), outputs))
        print(f"seed {seed}: worst cosine {worst:.5f}", flush=True)


main(*sys.argv[1:])
