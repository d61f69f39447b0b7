"""Exports BERT-family models of random weights by PyTorch's two exporters and records what onnxruntime answers.

    pip install -r requirements.txt
    python export.py OUT                                   # every model, legacy exporter at opset 17, dynamo at 20
    python export.py OUT --models bert electra --exporter legacy --opset 11 13 14 17
    python export.py OUT --size small                      # hidden 128 instead of 32

writes OUT/NAME-EXPORTER-OPSET/{model.onnx, test_data_set_N/}. Nothing is downloaded: configurations are made here, weights
drawn from a fixed seed, biases and normalisation included, so that none is zero or one. The legacy exporter's mpnet and
deberta-v2 at opset 11 are no valid models (Min and Clip of int64 came with opset 12): they are reported as failed.
"""

import argparse
import inspect
import pathlib
import shutil
import sys
import traceback

import torch
import transformers

from record import record

SIZES = {
    "tiny": dict(hidden=32, heads=2, inner=64, vocabulary=100),
    "small": dict(hidden=128, heads=2, inner=512, vocabulary=1000),
}
POSITIONS = 160


def common(size):
    """The sizes under the names that most configurations use."""
    return dict(
        vocab_size=size["vocabulary"],
        hidden_size=size["hidden"],
        num_hidden_layers=2,
        num_attention_heads=size["heads"],
        intermediate_size=size["inner"],
        max_position_embeddings=POSITIONS,
    )


def bert_like(kind, head="Model", **extra):
    return lambda size: (kind + "Config", kind + head, {**common(size), "type_vocab_size": 2, **extra})


def distilbert(size):
    names = dict(vocab_size=size["vocabulary"], dim=size["hidden"], n_layers=2, n_heads=size["heads"], hidden_dim=size["inner"])
    return "DistilBertConfig", "DistilBertModel", {**names, "max_position_embeddings": POSITIONS}


MODELS = {
    "bert": bert_like("Bert"),
    "bert-ner": bert_like("Bert", "ForTokenClassification", num_labels=9),
    "bert-qa": bert_like("Bert", "ForQuestionAnswering"),
    "bert-mlm": bert_like("Bert", "ForMaskedLM"),
    "bert-classifier": bert_like("Bert", "ForSequenceClassification", num_labels=3),
    "distilbert": distilbert,
    "roberta": bert_like("Roberta", "ForSequenceClassification", num_labels=1, pad_token_id=0),
    "xlm-r": bert_like("XLMRoberta", pad_token_id=0),
    "electra": bert_like("Electra", embedding_size=16),
    "mpnet": bert_like("MPNet", pad_token_id=0),
    "albert": bert_like("Albert", embedding_size=16),
    "deberta-v2": bert_like(
        "DebertaV2", relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"], share_att_key=True,
        norm_rel_ebd="layer_norm", position_biased_input=False, max_relative_positions=-1,
    ),
    "modernbert": bert_like("ModernBert", local_attention=16, global_attn_every_n_layers=2, pad_token_id=0,
                            bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2),
}

# The exporter sees a plain signature: tensors in, the named outputs as a tuple out.
OUTPUTS = ("last_hidden_state", "pooler_output", "logits", "start_logits", "end_logits")


class Plain(torch.nn.Module):
    def __init__(self, model, inputs):
        super().__init__()
        self.m = model
        self.inputs = inputs

    def forward(self, *values):
        result = self.m(**dict(zip(self.inputs, values)))
        return tuple(result[name] for name in OUTPUTS if result.get(name) is not None)


def best_attention(name, size, exporter, opset):
    """sdpa where the model and the exporter have it; the legacy exporter has it from opset 14 on."""
    model = getattr(transformers, MODELS[name](size)[1])
    return "sdpa" if model._supports_sdpa and (exporter == "dynamo" or opset >= 14) else "eager"


def build(name, size, attention):
    config_class, model_class, arguments = MODELS[name](size)
    config = getattr(transformers, config_class)(**arguments)
    config._attn_implementation = attention
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            spread = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.1
            parameter.copy_(parameter.mean() * (parameter.dim() == 1) + torch.randn_like(parameter) * spread)
    accepted = inspect.signature(model.forward).parameters
    inputs = [i for i in ("input_ids", "attention_mask", "token_type_ids") if i in accepted]
    if config.model_type in ("roberta", "xlm-roberta", "mpnet"):  # of one segment, or none
        inputs = inputs[:2]
    return Plain(model, inputs)


def export(plain, path, exporter, opset):
    shape = (2, 7)
    ids = torch.randint(3, 50, shape)
    mask = torch.ones(shape, dtype=torch.int64)
    mask[1, 5:] = 0
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros(shape, dtype=torch.int64)}
    args = tuple(values[i] for i in plain.inputs)
    with torch.no_grad():
        ranks = [o.dim() for o in plain(*args)]
        outputs = [n for n in OUTPUTS if plain.m(**dict(zip(plain.inputs, args))).get(n) is not None]
    names = dict(input_names=plain.inputs, output_names=outputs, opset_version=opset)
    if exporter == "legacy":
        axes = {n: {0: "batch", 1: "seq"} for n in plain.inputs}
        axes |= {n: {0: "batch", 1: "seq"} if rank > 2 or n.startswith(("start", "end")) else {0: "batch"} for n, rank in zip(outputs, ranks)}
        torch.onnx.export(plain, args, path, dynamo=False, dynamic_axes=axes, **names)
    else:
        batch, seq = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("seq", min=1, max=128)
        shapes = (tuple({0: batch, 1: seq} for _ in args),)  # forward takes *values
        torch.onnx.export(plain, args, path, dynamo=True, dynamic_shapes=shapes, external_data=False, **names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--exporter", choices=["legacy", "dynamo"])
    parser.add_argument("--opset", nargs="+", type=int)
    parser.add_argument("--size", choices=list(SIZES), default="tiny")
    parser.add_argument("--attention", choices=["sdpa", "eager"], help="default: sdpa where the exporter has it")
    args = parser.parse_args()
    size, failed = SIZES[args.size], []
    for name in args.models:
        for exporter in [args.exporter] if args.exporter else ["legacy", "dynamo"]:
            for opset in args.opset or [17 if exporter == "legacy" else 20]:
                folder = args.out / f"{name}-{exporter}-{opset}"
                folder.mkdir(parents=True, exist_ok=True)
                try:
                    export(build(name, size, args.attention or best_attention(name, size, exporter, opset)), folder / "model.onnx", exporter, opset)
                    record(folder, size["vocabulary"])
                    print("wrote", folder)
                except Exception:  # one model that an exporter refuses must not cost the others
                    traceback.print_exc()
                    shutil.rmtree(folder)
                    failed.append(folder.name)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
