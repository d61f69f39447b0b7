"""Makes small models of static embeddings as model2vec and sentence-transformers write them, with random vectors, and records the vectors
that model2vec 0.10.0 returns for some texts:

    python static.py ../../pipeline/testdata/minilm/tokenizer.json ../../pipeline/testdata/static

Its packages: model2vec==0.10.0. The folders in sentence-transformers' form have no unknown token in their texts, so that model2vec, which
leaves unknown tokens out, returns what sentence-transformers returns.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
from model2vec import StaticModel
from safetensors.numpy import save_file
from tokenizers import Tokenizer

TEXTS = ["A cat sits on the mat.", "Stock prices fell today", "", "the", "zebra \u6f22 quark", "cat " * 40]


def record(folder, model, texts):
    vectors = model.encode(texts)
    (folder / "expected.json").write_text(json.dumps({"texts": texts, "vectors": np.asarray(vectors, np.float32).tolist()}) + "\n")


def main():
    tokenizer = Tokenizer.from_file(sys.argv[1])
    out = pathlib.Path(sys.argv[2])
    shutil.rmtree(out, ignore_errors=True)
    rng = np.random.default_rng(7)
    size, dim = tokenizer.get_vocab_size(), 6
    table = rng.standard_normal((size, dim)).astype(np.float32)
    forms = {
        "float32": dict(vectors=table, normalize=True),
        "float16": dict(vectors=table.astype(np.float16), normalize=False),
        "int8": dict(vectors=np.clip(table * 40, -127, 127).astype(np.int8), normalize=True),
        "clusters": dict(vectors=table[:20], weights=rng.random(size).astype(np.float32),
                         token_mapping=rng.integers(0, 20, size), normalize=True),
        "short": dict(vectors=table, normalize=True, max_length=5),
    }
    for name, form in forms.items():
        model = StaticModel(tokenizer=tokenizer, config={}, **form)
        folder = out / name
        model.save_pretrained(folder)
        (folder / "README.md").unlink()
        record(folder, StaticModel.from_pretrained(folder), TEXTS)
    folder = out / "sentence-transformers"
    inner = folder / "0_StaticEmbedding"
    inner.mkdir(parents=True)
    save_file({"embedding.weight": table}, inner / "model.safetensors")
    tokenizer.save(str(inner / "tokenizer.json"), pretty=False)
    (folder / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "0_StaticEmbedding", "type": "sentence_transformers.models.StaticEmbedding"}]))
    (folder / "config_sentence_transformers.json").write_text("{}")
    record(folder, StaticModel.from_pretrained(folder), TEXTS[:4])


main()
