"""Writes the GLiNER models of package pipeline: small ones of random weights, as the package gliner exports them, and what it answers for
the texts of testdata/texts.json by the exported model.

    pip install -r requirements.txt gliner==0.2.29
    python gliner_models.py ../../pipeline/testdata

Nothing is downloaded: tokenizers are those of other models of testdata.
"""

import gzip
import json
import pathlib
import shutil
import sys
import warnings

import onnx
import torch
import transformers
from gliner import GLiNER
from gliner.config import GLiNERConfig
from gliner.model import UniEncoderSpanGLiNER, UniEncoderTokenGLiNER

warnings.filterwarnings("ignore")
OUT = pathlib.Path(sys.argv[1])
TEXTS = json.loads((OUT / "texts.json").read_text())[::2]
LABELS = ["person", "city or country", "Organisation", "date-of-birth"]
SIZES = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
BERT = dict(model_type="bert", max_position_embeddings=64, type_vocab_size=2, **SIZES)
DEBERTA = dict(model_type="deberta-v2", type_vocab_size=0, relative_attention=True, position_buckets=16, norm_rel_ebd="layer_norm",
               share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, max_position_embeddings=512, **SIZES)
ASKED = {"flat": dict(), "low": dict(threshold=0.3), "nested": dict(flat_ner=False), "multi": dict(threshold=0.6, multi_label=True),
         "all": dict(threshold=0.6, flat_ner=False, multi_label=True)}


def write(name, kind, encoder, tokenizer, seed, deviation, **extra):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    tok = transformers.PreTrainedTokenizerFast.from_pretrained(OUT / tokenizer)
    tok.add_tokens(["<<ENT>>", "<<SEP>>"], special_tokens=True)
    config = GLiNERConfig(model_name=name, encoder_config=dict(encoder, vocab_size=len(tok)), hidden_size=16, max_len=24, vocab_size=len(tok),
                          class_token_index=tok.convert_tokens_to_ids("<<ENT>>"), dropout=0.0, **extra)
    torch.manual_seed(seed)
    model = kind(config, tokenizer=tok, backbone_from_pretrained=False).eval()
    with torch.no_grad():
        for n, p in model.named_parameters():
            p.normal_(0, deviation) if p.ndim > 1 else p.uniform_(0.7, 1.3) if n.endswith("weight") else p.normal_(0, 0.1)
    model.export_to_onnx(folder)
    graph = onnx.load(folder / "model.onnx")
    for node in graph.graph.node:  # what only debuggers read
        node.ClearField("doc_string")
        del node.metadata_props[:]
    onnx.save(graph, folder / "model.onnx")
    model = GLiNER.from_pretrained(str(folder), runtime="onnxruntime", local_files_only=True)
    answers = {}
    for how, options in ASKED.items():
        found = model.inference(TEXTS, LABELS, **options)
        answers[how] = [[[e["label"], float(f"{e['score']:.7g}"), e["start"], e["end"]] for e in list] for list in found]
        print(name, how, sum(map(len, found)), "entities")
    with gzip.GzipFile(folder / "answers.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps(dict(answers, labels=LABELS)).encode())
    print(name, sum(p.stat().st_size for p in folder.iterdir()), "bytes")


write("gliner", UniEncoderSpanGLiNER, BERT, "minilm", 0, 0.25, max_width=5)
write("gliner-words", UniEncoderTokenGLiNER, DEBERTA, "ner-pieces", 5, 0.35, span_mode="token_level", subtoken_pooling="last")
