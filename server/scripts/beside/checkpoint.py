"""Makes a folder that infinity-emb opens with both of its engines of a folder with an ONNX export of a BERT: checkpoint.py FROM TO."""
import json
import pathlib
import shutil
import sys

import onnx
import torch
from onnx import numpy_helper
from transformers import BertConfig, BertModel

source, target = map(pathlib.Path, sys.argv[1:])
config = BertConfig.from_pretrained(source)
graph = onnx.load(source / "model.onnx").graph
values = {i.name: torch.tensor(numpy_helper.to_array(i)) for i in graph.initializer}
weights = {name.removeprefix("m."): v for name, v in values.items()}
for node in graph.node:  # products' weights are transposed, and named by their nodes
    if node.op_type == "MatMul" and node.input[1] in values:
        path = node.name.strip("/").removeprefix("m/").removesuffix("/MatMul").replace("/", ".")
        weights[path + ".weight"] = values[node.input[1]].T.contiguous()
model = BertModel(config)
missing, _ = model.load_state_dict(weights, strict=False)
assert all(name.startswith("pooler.") for name in missing), missing
model.save_pretrained(target)
for name in "tokenizer.json", "tokenizer_config.json", "vocab.txt":
    if (source / name).exists():
        shutil.copy(source / name, target)
(target / "onnx").mkdir()
shutil.copy(source / "model.onnx", target / "onnx")
shutil.copytree(source / "1_Pooling", target / "1_Pooling")
kinds = ["Transformer", "Pooling", "Normalize"]
modules = [{"idx": i, "name": str(i), "path": f"{i}_{k}" if i else "", "type": f"sentence_transformers.models.{k}"} for i, k in enumerate(kinds)]
(target / "modules.json").write_text(json.dumps(modules))
