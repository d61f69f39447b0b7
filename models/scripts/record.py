"""Records what onnxruntime answers: writes test_data_set_N/{input_i,output_i}.pb beside a model, as ONNX's own tests have them.

    python record.py FOLDER        # with FOLDER/model.onnx

For the built-in model and its forms, in the folder models:

    rlxc models bert-tiny -o recorded/bert-tiny/model.onnx
    python scripts/record.py recorded/bert-tiny
    rlxc models bert-tiny-int8 -o recorded/bert-tiny-int8/model.onnx
    python scripts/record.py recorded/bert-tiny-int8 --shapes 1x8 3x12    # -fp16: 3x12 1x8, so that no row is masked whole

The references are onnxruntime's CPU provider on one thread, graph optimisations off: the model's own arithmetic. Batches
above 1 are padded; in the last data set the mask of one row is all zero, if it has several. In float16 such a row has no right
answer: onnxruntime adds the mask in float32.
"""

import argparse
import pathlib
import shutil

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

SHAPES = [(1, 1), (1, 8), (2, 16), (3, 37), (1, 128), (4, 64), (3, 12)]


def inputs_for(model, batch, seq, rng, vocabulary, masked_row):
    """The inputs of an encoder by name: ids of the vocabulary, a mask that is 0 after a random length, two segments."""
    lengths = rng.integers(1, seq + 1, batch)
    lengths[0] = seq
    mask = (np.arange(seq) < lengths[:, None]).astype(np.int64)
    if masked_row:
        mask[1] = 0
    known = {
        "input_ids": rng.integers(1, vocabulary, (batch, seq)) * mask,
        "attention_mask": mask,
        "token_type_ids": (np.arange(seq) >= lengths[:, None] // 2).astype(np.int64) * mask,
        "position_ids": np.broadcast_to(np.arange(seq, dtype=np.int64), (batch, seq)).copy(),
    }
    return {i.name: known[i.name] for i in model.graph.input}


def record(folder, vocabulary, shapes=SHAPES, seed=0):
    """Records an encoder at many shapes (batch, seq)."""
    model = onnx.load(pathlib.Path(folder) / "model.onnx", load_external_data=False)
    rng = np.random.default_rng(seed)
    last = len(shapes) - 1
    record_inputs(folder, [inputs_for(model, b, s, rng, vocabulary, masked_row=b > 1 and i == last) for i, (b, s) in enumerate(shapes)])


def reference(folder):
    """FOLDER/model.onnx as onnxruntime runs it, one thread, graph optimisations off."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])


def record_inputs(folder, runs):
    """Records FOLDER/model.onnx on inputs by name, a data set a run."""
    folder = pathlib.Path(folder)
    session = reference(folder)
    for old in folder.glob("test_data_set_*"):
        shutil.rmtree(old)
    for i, inputs in enumerate(runs):
        inputs = {x.name: inputs[x.name] for x in session.get_inputs()}  # the files are numbered in the model's order
        outputs = session.run(None, inputs)
        target = folder / f"test_data_set_{i}"
        target.mkdir()
        for kind, names, values in (
            ("input", list(inputs), list(inputs.values())),
            ("output", [o.name for o in session.get_outputs()], outputs),
        ):
            for j, (name, value) in enumerate(zip(names, values)):
                (target / f"{kind}_{j}.pb").write_bytes(numpy_helper.from_array(value, name).SerializeToString())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("--shapes", nargs="+", type=lambda s: tuple(map(int, s.split("x"))), default=SHAPES)
    args = parser.parse_args()
    record(args.folder, args.vocabulary, args.shapes)
