"""Writes the backend node tests of the Python package onnx, a folder a test, into one compressed archive.

    pip install onnx==1.23.2 zstandard
    python generate.py onnx-node-1.23.2.tar.zst

A test is node/NAME/model.onnx and node/NAME/test_data_set_0/{input_i,output_i}.pb, which hold a TensorProto,
SequenceProto or OptionalProto, as the type of the graph's input or output says. The tests themselves are the work of the
ONNX project (Apache-2.0).
"""

import io
import sys
import tarfile

import numpy as np
import onnx
import zstandard
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def encode(value, info):
    """Serializes one value as its declared type has it."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value.SerializeToString()
    encoders = {
        "sequence_type": numpy_helper.from_list,
        "optional_type": numpy_helper.from_optional,
        "map_type": numpy_helper.from_dict,
    }
    encoder = encoders.get(info.type.WhichOneof("value"))
    if encoder is None:
        return numpy_helper.from_array(np.asarray(value), info.name).SerializeToString()
    return encoder(value, info.name).SerializeToString()


def files(case):
    """Yields the path and the content of every file of a test."""
    folder = f"node/{case.name}"
    yield f"{folder}/model.onnx", case.model.SerializeToString()
    graph = case.model.graph
    for n, (inputs, outputs) in enumerate(case.data_sets):
        for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for i, value in enumerate(values):
                yield f"{folder}/test_data_set_{n}/{kind}_{i}.pb", encode(value, infos[i])


def main(archive):
    compressor = zstandard.ZstdCompressor(level=19)
    with open(archive, "wb") as out, compressor.stream_writer(out) as z, tarfile.open(fileobj=z, mode="w|") as tar:
        for case in sorted(collect_testcases(None), key=lambda c: c.name):
            for path, data in files(case):
                entry = tarfile.TarInfo(path)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main(sys.argv[1])
