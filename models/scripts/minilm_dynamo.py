"""Exports the real all-MiniLM-L6-v2 by torch's newer exporter, with its tokenizer, for hugot.sh:

    python minilm_dynamo.py FIXTURES FOLDER

FIXTURES is that of minilm.py. Its packages: torch, onnxscript, transformers.
"""

import pathlib
import sys

import onnx
import torch
import transformers
from onnx import numpy_helper


def weights(fixtures):
    """The parameters by PyTorch's names: the exporter keeps these, but for the matrices of products, which are transposed."""
    graph = onnx.load(fixtures / "minilm" / "model.onnx").graph
    arrays = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    named = {name.removeprefix("m."): a for name, a in arrays.items() if name.startswith("m.")}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in arrays:
            named[node.name.removeprefix("/m/").removesuffix("/MatMul").replace("/", ".") + ".weight"] = arrays[node.input[1]].T
    return {name: torch.from_numpy(a.copy()) for name, a in named.items()}


class Hidden(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state


def main():
    config = transformers.BertConfig(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    fixtures, folder = map(pathlib.Path, sys.argv[1:])
    model.load_state_dict(weights(fixtures), strict=False)
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(fixtures / "tokenizer").save_pretrained(folder)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    dims = {0: torch.export.Dim("batch", max=1024), 1: torch.export.Dim("sequence", max=512)}
    inputs = tuple(torch.ones(2, 7, dtype=torch.long) for _ in names)
    torch.onnx.export(Hidden(model), inputs, str(folder / "model.onnx"), dynamo=True, external_data=False, input_names=names,
                      output_names=["last_hidden_state"], dynamic_shapes=(dims, dims, dims))


if __name__ == "__main__":
    main()
