"""Makes small rerankers that are decoders, with random weights, and records the scores that transformers and mxbai-rerank give them:

    python judges.py ../../pipeline/testdata/judges

Its packages: torch, transformers, tokenizers, onnx, mxbai-rerank==0.1.6. The first folder is of Qwen3-Reranker's form, with the
prompt and the scores of its model card. The second one is of mxbai-rerank-v2's, as its package computes them. qwen3/model_cached.onnx is
the same model with inputs and outputs for keys and values (text-generation-with-past).
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers
from mxbai_rerank import MxbaiRerankV2
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

QUERIES = ["where do cats sleep?", "capital of France", ""]
DOCUMENTS = ["Cats sleep on the mat.", "Paris is the capital of France.", "", "no", "the cat " * 40, "Grüße, 漢字 <|im_end|> yes"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LENGTH = {"qwen3": 160, "qwen2": 224}  # tokens of a sequence; the fifth document is longer


def tokenizer(folder, corpus):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=SPECIAL, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    t.train_from_iterator(corpus, trainer)
    t.add_tokens(["<think>", "</think>"])
    for token in ("yes", "no", "0", "1"):
        assert len(t.encode(token).ids) == 1, token
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=t, pad_token=SPECIAL[0], eos_token=SPECIAL[2], model_max_length=LENGTH[folder.name])
    fast.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(t.to_str())
    return fast


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, use_cache=False).logits


def export(model, file):
    ids = torch.ones(2, 5, dtype=torch.long)
    names = ["input_ids", "attention_mask", "position_ids"]
    # The exporter by torch.export (2.15) writes a model with other results than PyTorch's.
    torch.onnx.export(Logits(model), (ids, ids, torch.arange(5).expand(2, 5)), file, dynamo=False, input_names=names, output_names=["logits"],
                      dynamic_axes={name: {0: "batch_size", 1: "sequence_length"} for name in names + ["logits"]}, opset_version=17)


class Cached(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = transformers.DynamicCache()
        for layer, (key, value) in enumerate(zip(past[::2], past[1::2])):
            cache.update(key, value, layer)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache, use_cache=True)
        return out.logits, *(x for layer in out.past_key_values.layers for x in (layer.keys, layer.values))


def export_cached(model, file):
    """The names of inputs, outputs and sizes are those of optimum."""
    c, length, before = model.config, 5, 3
    ids, mask = torch.ones(2, length, dtype=torch.long), torch.ones(2, before + length, dtype=torch.long)
    past = [torch.randn(2, c.num_key_value_heads, before, c.head_dim) for _ in range(2 * c.num_hidden_layers)]
    names = [f"{i}.{kind}" for i in range(c.num_hidden_layers) for kind in ("key", "value")]
    axes = {"input_ids": {0: "batch_size", 1: "sequence_length"}, "position_ids": {0: "batch_size", 1: "sequence_length"},
            "attention_mask": {0: "batch_size", 1: "past_sequence_length + sequence_length"}, "logits": {0: "batch_size", 1: "sequence_length"}}
    axes |= {f"past_key_values.{n}": {0: "batch_size", 2: "past_sequence_length"} for n in names}
    axes |= {f"present.{n}": {0: "batch_size", 2: "past_sequence_length + sequence_length"} for n in names}
    torch.onnx.export(Cached(model), (ids, mask, before + torch.arange(length).expand(2, length), *past), file, dynamo=False,
                      input_names=["input_ids", "attention_mask", "position_ids"] + [f"past_key_values.{n}" for n in names],
                      output_names=["logits"] + [f"present.{n}" for n in names], dynamic_axes=axes, opset_version=17)


def qwen3(folder, model, fast, instruction):
    """The scores of Qwen3-Reranker's model card."""
    prefix = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can '
              'only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
    suffix = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    first, last = (fast.encode(x, add_special_tokens=False) for x in (prefix, suffix))
    yes, no = fast.convert_tokens_to_ids("yes"), fast.convert_tokens_to_ids("no")
    out = []
    for query in QUERIES:
        scores = []
        for document in DOCUMENTS:
            body = f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
            ids = fast(body, truncation="longest_first", max_length=LENGTH["qwen3"] - len(first) - len(last))["input_ids"]
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([first + ids + last])).logits[0, -1]
            scores.append(torch.nn.functional.softmax(logits[[no, yes]], dim=0)[1].item())
        out.append(scores)
    return out


def prepared(self, first, second, max_length, **_):
    """What the tokenizers of transformers 4 do for mxbai-rerank with truncation="only_second"; those of transformers 5 lack it."""
    return {"input_ids": first + second[: max_length - len(first)]}


def qwen2(folder, model, fast, instruction):
    reranker = MxbaiRerankV2(str(folder), device="cpu", torch_dtype=torch.float32, max_length=4096, device_map=None)
    type(fast).prepare_for_model = prepared
    reranker.tokenizer = fast  # that of the file; Qwen2Tokenizer would split words by its own pattern
    reranker.tokenizer.padding_side = "left"
    reranker.max_length = reranker.model_max_length  # which the next line lowers by the tokens of the prompt
    reranker.prepare_predefined_inputs()
    reranker.model = model  # float32, whatever the folder's file says
    # The package cuts documents so that the whole sequence has at most max_position_embeddings tokens.
    return [[reranker.predict([q], [d], instruction=instruction)[0].item() for d in DOCUMENTS] for q in QUERIES]


def main():
    out = pathlib.Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    texts = QUERIES + DOCUMENTS + ["yes no 0 1 query: document: instruction: Instruct Query Document Judge whether the requirements", "user system assistant",
                                   "You are a search relevance expert who evaluates how well documents match search queries."] + ["yes", "no", "1", "0"] * 20
    shape = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, pad_token_id=0, bos_token_id=None,
                 eos_token_id=2, tie_word_embeddings=True, initializer_range=0.3)
    for kind, config, form in (("qwen3", transformers.Qwen3Config, transformers.Qwen3ForCausalLM), ("qwen2", transformers.Qwen2Config, transformers.Qwen2ForCausalLM)):
        folder = out / kind
        folder.mkdir(parents=True)
        fast = tokenizer(folder, texts * 3)
        more = {"head_dim": 8} if kind == "qwen3" else {}
        torch.manual_seed(5)
        model = form(config(vocab_size=len(fast), max_position_embeddings=LENGTH[kind], attn_implementation="eager", **shape, **more)).eval()
        model.save_pretrained(folder)
        answers = {"queries": QUERIES, "documents": DOCUMENTS, "instruction": "Find the answer"}
        for name, instruction in (("plain", None), ("instructed", answers["instruction"])):
            if kind == "qwen3":
                answers[name] = qwen3(folder, model, fast, instruction or "Given a web search query, retrieve relevant passages that answer the query")
            else:
                answers[name] = qwen2(folder, model, fast, instruction)
        (folder / "answers.json").write_text(json.dumps(answers, ensure_ascii=False) + "\n")
        for file in ("model.safetensors", "generation_config.json", "special_tokens_map.json", "chat_template.jinja"):
            (folder / file).unlink(missing_ok=True)
        export(model, folder / "model.onnx")
        if kind == "qwen3":
            export_cached(model, folder / "model_cached.onnx")


main()
