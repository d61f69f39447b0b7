"""Writes the vectors that sentence-transformers makes of testdata/texts.json with the real all-MiniLM-L6-v2:

    python minilm.py FIXTURES ../../pipeline/testdata

FIXTURES holds minilm/model.onnx, of which the weights are taken, and the model's tokenizer in tokenizer/. The length is the model's, 256.
"""

import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer

from minilm_dynamo import weights

FIXTURES, OUT = map(pathlib.Path, sys.argv[1:])


def main():
    config = transformers.BertConfig(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    model = transformers.BertModel(config, add_pooling_layer=False)
    missing, unexpected = model.load_state_dict(weights(FIXTURES), strict=False)
    assert not [n for n in missing if "position_ids" not in n] and all(n.startswith("pooler.") for n in unexpected), (missing, unexpected)
    texts = json.loads((OUT / "texts.json").read_text())
    texts[180:] = [" ".join([text] * 3) for text in texts[180:]]  # beyond the length
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(FIXTURES / "tokenizer").save_pretrained(folder)
        transformer = Transformer(folder, max_seq_length=256)
        vectors = SentenceTransformer(modules=[transformer, Pooling(384, pooling_mode="mean"), Normalize()], device="cpu").encode(texts, batch_size=1)
    np.savez_compressed(OUT / "all-MiniLM-L6-v2.npz", embeddings=vectors.astype(np.float32))
    print(vectors.shape)


if __name__ == "__main__":
    main()
