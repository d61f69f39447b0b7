"""Writes the reference models of package pipeline: small models of random weights in the layouts of real ones, and what
sentence-transformers and transformers answer for the texts of testdata/texts.json.

    pip install -r requirements.txt transformers sentence-transformers tokenizers
    pip install --no-deps --target OLD transformers==4.57.1 tokenizers==0.22.1 huggingface_hub==0.36.0
    python pipelines.py ../../pipeline/testdata                       # all but qa
    PYTHONPATH=OLD python pipelines.py ../../pipeline/testdata qa     # transformers 5 has no question answering

Nothing is downloaded: tokenizers are trained on the texts, weights drawn from a fixed seed.
"""

import gzip
import json
import pathlib
import random
import shutil
import sys
import warnings

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
OUT = pathlib.Path(sys.argv[1])
LENGTH = 64  # positions of the models
SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=LENGTH)

# ---------------------------------------------------------------------------------------------------------------- texts

SEEDS = """The quick brown fox jumps over the lazy dog near the river bank.
Angela Merkel met Emmanuel Macron in Berlin on Tuesday to discuss the budget of the European Union.
Stock prices fell today after the central bank raised interest rates by half a percent.
A cat sits on the mat, and the kitten sleeps under the warm blanket.
Apple Inc. was founded by Steve Jobs, Steve Wozniak and Ronald Wayne in Cupertino, California.
How do I reset my password if I no longer have access to my e-mail address?
The train from Zürich to München leaves at 7:45 p.m. from platform 12.
Das Wetter ist heute schön, aber morgen soll es den ganzen Tag regnen.
Wie viele Einwohner hat die Stadt Köln, und wann wurde sie gegründet?
Le petit chat dort sur le canapé pendant que les enfants jouent dehors.
Où se trouve la bibliothèque nationale de France à Paris?
El rápido zorro marrón salta sobre el perro perezoso en Madrid.
¿Cuántos habitantes tiene la ciudad de México y cuándo fue fundada?
Быстрая коричневая лиса прыгает через ленивую собаку в Москве.
Сколько стоит билет до Санкт-Петербурга на завтра?
東京は日本の首都であり、世界最大の都市のひとつです。
猫は窓のそばで眠っています。
北京是中华人民共和国的首都。
الطقس جميل اليوم في القاهرة.
오늘 서울의 날씨는 매우 맑습니다.
Ο γρήγορος σκύλος τρέχει στην Αθήνα.
I love this product! It works perfectly and arrived two days early 😀.
This was the worst meal I have ever had; the soup was cold and the waiter rude.
def add(a, b): return a + b  # adds two numbers
Email: jane.doe@example.com, phone: +1 (555) 010-9999, ID no. 12345-678.
Photosynthesis converts light energy into chemical energy in plants, algae and some bacteria.
The committee will vote on the new climate law in Strasbourg next Wednesday.
John Smith works for Microsoft in Seattle and lives with Mary Jones in Portland.""".split("\n")


def make_texts():
    rng = random.Random(7)
    texts = ["", " ", "a", "?", "😀", "\n\t", "Hello", "HELLO world", "naïve café", "x" * 150, "word " * 100, "é́́"] + SEEDS
    while len(texts) < 180:
        words = " ".join(rng.sample(SEEDS, 2)).split()
        start = rng.randrange(len(words))
        texts.append(" ".join(words[start:start + rng.randint(1, 20)]))
    while len(texts) < 200:  # beyond what the models take
        texts.append(" ".join(rng.choices(SEEDS, k=rng.randint(4, 9))))
    return texts


TEXTS = make_texts()

# ----------------------------------------------------------------------------------------------------------- tokenizers


def word_piece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[Q]", "[D]"]
    t.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=700, special_tokens=special, show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.decoder = decoders.WordPiece()
    kind = getattr(transformers, "PreTrainedTokenizerFast")
    return kind(tokenizer_object=t, model_max_length=LENGTH, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                mask_token="[MASK]", model_input_names=["input_ids", "token_type_ids", "attention_mask"])


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(__import__("tokenizers").Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(TEXTS, trainers.UnigramTrainer(vocab_size=600, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>",
                                                         show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    t.decoder = decoders.Metaspace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, model_max_length=LENGTH, unk_token="<unk>", pad_token="<pad>", cls_token="<s>",
                                                sep_token="</s>", bos_token="<s>", eos_token="</s>", model_input_names=["input_ids", "attention_mask"])


def byte_level(roberta):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if roberta else ["<|endoftext|>", "<|im_start|>"]
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=560, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                     show_progress=False))
    t.decoder = decoders.ByteLevel()
    if roberta:
        t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
        return transformers.PreTrainedTokenizerFast(tokenizer_object=t, model_max_length=LENGTH, unk_token="<unk>", pad_token="<pad>",
            cls_token="<s>", sep_token="</s>", bos_token="<s>", eos_token="</s>", mask_token="<mask>", model_input_names=["input_ids", "attention_mask"])
    t.post_processor = processors.TemplateProcessing(single="$A <|endoftext|>", pair="$A $B <|endoftext|>", special_tokens=[("<|endoftext|>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, model_max_length=LENGTH, pad_token="<|endoftext|>", eos_token="<|endoftext|>",
                                                padding_side="left", model_input_names=["input_ids", "attention_mask"])


WORDS, PIECES, BYTES, ROBERTA = word_piece(), unigram(), byte_level(False), byte_level(True)

# --------------------------------------------------------------------------------------------------------------- models


def build(kind, tokenizer, seed, head="Model", sharp=1.0, **extra):
    sizes = dict(SIZES, vocab_size=len(tokenizer))
    if kind in ("Bert", "Roberta", "XLMRoberta"):
        sizes["type_vocab_size"] = 2 if kind == "Bert" else 1
    if kind in ("Roberta", "XLMRoberta"):
        sizes.update(max_position_embeddings=LENGTH + 2, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    if kind == "DistilBert":
        sizes = dict(vocab_size=len(tokenizer), dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=LENGTH)
    if kind == "Qwen3":
        sizes.update(num_key_value_heads=2, head_dim=8, max_position_embeddings=512, pad_token_id=0, eos_token_id=0, bos_token_id=0)
    config = getattr(transformers, kind + "Config")(**sizes, **extra)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    name = kind + head
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for n, p in model.named_parameters():
            if p.ndim > 1:
                p.normal_(0, 0.25)
            elif n.endswith("weight"):
                p.uniform_(0.7, 1.3)
            else:
                p.normal_(0, 0.1)
            if sharp != 1 and ("classifier" in n or "qa_outputs" in n):
                p.mul_(sharp)
    return model


class Export(torch.nn.Module):
    def __init__(self, model, inputs, outputs):
        super().__init__()
        self.m, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *args):
        out = self.m(**dict(zip(self.inputs, args)), return_dict=True)
        return tuple(getattr(out, n) for n in self.outputs)


def export(model, tokenizer, file, outputs, wrap=None):
    file.parent.mkdir(parents=True, exist_ok=True)
    enc = tokenizer(["Hello world, hello", "one"], padding=True, return_tensors="pt")
    inputs = [n for n in ("input_ids", "attention_mask", "token_type_ids") if n in tokenizer.model_input_names]
    if wrap is None:
        wrap = Export(model, inputs, outputs)
    axes = {n: {0: "batch_size", 1: "sequence_length"} for n in inputs}
    axes |= {n: {0: "batch_size"} | ({1: "sequence_length"} if n not in POOLED else {}) for n in outputs}
    if "logits" in outputs and type(model).__name__.endswith("SequenceClassification"):
        axes["logits"] = {0: "batch_size"}
    wrap.eval()  # the exporter leaves the model in the mode of what wraps it
    torch.onnx.export(wrap, tuple(enc[n] for n in inputs), str(file), input_names=inputs, output_names=list(outputs), dynamic_axes=axes,
                      opset_version=17, dynamo=False)


POOLED = ("pooler_output", "dense_vecs")


class Decoder(torch.nn.Module):
    """A decoder as exporters with a cache write it: positions and past keys and values are inputs."""

    def __init__(self, model, layers):
        super().__init__()
        self.m, self.layers = model, layers

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = transformers.DynamicCache()
        for i in range(self.layers):
            cache.update(past[2 * i], past[2 * i + 1], i)
        length, total = input_ids.shape[1], attention_mask.shape[1]
        query = torch.arange(length)[:, None] + (total - length)
        visible = (torch.arange(total)[None, :] <= query)[None, None] & attention_mask[:, None, None, :].bool()
        mask = torch.where(visible, 0.0, torch.finfo(torch.float32).min)
        out = self.m(input_ids=input_ids, attention_mask=mask, position_ids=position_ids, past_key_values=cache, use_cache=True)
        present = []
        for i in range(self.layers):
            present += [cache.layers[i].keys, cache.layers[i].values]
        return (out.last_hidden_state, *present)


def export_decoder(model, tokenizer, file):
    file.parent.mkdir(parents=True, exist_ok=True)
    enc = tokenizer(["Hello world, hello", "one"], padding=True, return_tensors="pt")
    ids, mask = enc["input_ids"], enc["attention_mask"]
    layers = model.config.num_hidden_layers
    past = [torch.randn(2, 2, 3, 8) for _ in range(2 * layers)]
    names = [f"past_key_values.{i}.{w}" for i in range(layers) for w in ("key", "value")]
    present = [n.replace("past_key_values", "present") for n in names]
    axes = {"input_ids": {0: "batch_size", 1: "sequence_length"}, "attention_mask": {0: "batch_size", 1: "past_sequence_length + sequence_length"},
            "position_ids": {0: "batch_size", 1: "sequence_length"}, "last_hidden_state": {0: "batch_size", 1: "sequence_length"}}
    axes |= {n: {0: "batch_size", 2: "past_sequence_length"} for n in names}
    axes |= {n: {0: "batch_size", 2: "past_sequence_length + sequence_length"} for n in present}
    long_mask = torch.cat([torch.ones(2, 3, dtype=torch.int64), mask], 1)
    torch.onnx.export(Decoder(model, layers).eval(), (ids, long_mask, torch.arange(ids.shape[1])[None].repeat(2, 1), *past), str(file),
                      input_names=["input_ids", "attention_mask", "position_ids", *names], output_names=["last_hidden_state", *present],
                      dynamic_axes=axes, opset_version=17, dynamo=False)


# -------------------------------------------------------------------------------------------------------------- answers

MADE = []


def start(name):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    MADE.append(name)
    return folder


def record(folder, answers=None, **arrays):
    if answers is not None:
        with gzip.GzipFile(folder / "answers.json.gz", "wb", mtime=0) as f:
            f.write(json.dumps(answers, ensure_ascii=False).encode())
    if arrays:
        np.savez_compressed(folder / "answers.npz", **arrays)
    # what rlxc does not read, and large
    for p in folder.rglob("*"):
        if p.name in ("model.safetensors", "README.md", "pytorch_model.bin") and "Dense" not in str(p) and "LayerNorm" not in str(p):
            p.unlink()
    print(folder.name, sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()), "bytes")


def rounded(x):
    if isinstance(x, (float, np.floating)):
        return float(f"{x:.7g}")
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [rounded(v) for v in x]
    return int(x) if isinstance(x, np.integer) else x


def sentence_model(folder, backbone, tokenizer, modules, max_length=None, **kwargs):
    """Saves a model as sentence-transformers does, and opens what was saved."""
    from sentence_transformers import SentenceTransformer, models as st

    raw = folder / "raw"
    backbone.save_pretrained(raw)
    tokenizer.save_pretrained(raw)
    word = st.Transformer(str(raw), max_seq_length=max_length)
    model = SentenceTransformer(modules=[word, *modules], device="cpu", **kwargs)
    model.save(str(folder))
    shutil.rmtree(raw)
    if max_length is not None:  # newer versions say so in the tokenizer alone; most models have this file
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_length, "do_lower_case": False}))
    return SentenceTransformer(str(folder), device="cpu")


def dense_models():
    from sentence_transformers import models as st
    from sentence_transformers.util import quantize_embeddings

    f = start("minilm")
    net = build("Bert", WORDS, 1)
    m = sentence_model(f, net, WORDS, [st.Pooling(32, "mean"), st.Normalize()], max_length=48, similarity_fn_name="cosine")
    # the layout of older versions, which most models on the hub have
    (f / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False}))
    export(net, WORDS, f / "onnx" / "model.onnx", ["last_hidden_state"])
    e = m.encode(TEXTS)
    record(f, embeddings=e, truncated=m.encode(TEXTS, truncate_dim=16, normalize_embeddings=True), similarity=m.similarity(e[:20], e[20:60]).numpy(),
           **{p: quantize_embeddings(e, p) for p in ("int8", "uint8", "binary", "ubinary")})

    f = start("dense")
    net = build("Bert", WORDS, 2)
    torch.manual_seed(3)
    d = st.Dense(32, 12, activation_function=torch.nn.Tanh())
    n = st.LayerNorm(12)
    with torch.no_grad():
        n.norm.weight.uniform_(0.5, 1.5), n.norm.bias.normal_()
    m = sentence_model(f, net, WORDS, [st.Pooling(32, "mean"), d, n, st.Normalize()])
    export(net, WORDS, f / "model.onnx", ["last_hidden_state", "pooler_output"])
    record(f, embeddings=m.encode(TEXTS))

    f = start("prompts")
    net = build("Bert", WORDS, 4)
    m = sentence_model(f, net, WORDS, [st.Pooling(32, "cls"), st.Normalize()], prompts={"query": "Represent this sentence: ", "document": "passage: "},
                       default_prompt_name="document", similarity_fn_name="dot")
    export(net, WORDS, f / "onnx" / "model.onnx", ["last_hidden_state"])
    record(f, embeddings=m.encode(TEXTS), query=m.encode_query(TEXTS), document=m.encode_document(TEXTS), custom=m.encode(TEXTS, prompt="classify this: "))

    f = start("pooled")
    net = build("DistilBert", ROBERTA, 5)
    modes = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
    m = sentence_model(f, net, ROBERTA, [st.Pooling(32, modes, include_prompt=False)], prompts={"query": "search: "})
    export(net, ROBERTA, f / "onnx" / "model.onnx", ["last_hidden_state"])
    record(f, embeddings=m.encode(TEXTS), query=m.encode(TEXTS, prompt_name="query"))

    f = start("decoder")
    net = build("Qwen3", BYTES, 6)
    m = sentence_model(f, net, BYTES, [st.Pooling(32, "lasttoken"), st.Normalize()], prompts={"query": "Instruct: Find the passage\nQuery:", "document": ""})
    export_decoder(net, BYTES, f / "onnx" / "model.onnx")
    record(f, embeddings=m.encode(TEXTS), query=m.encode_query(TEXTS), document=m.encode_document(TEXTS))


def save_head(folder, net, tokenizer, outputs, where="model.onnx"):
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    export(net, tokenizer, folder / where, outputs)


def pipe(task, net, tokenizer, **kwargs):
    return transformers.pipeline(task, model=net, tokenizer=tokenizer, device="cpu", **kwargs)


PAIRS = [(TEXTS[(7 * i) % 200], TEXTS[i]) for i in range(200)]


def classifiers():
    names = {0: "negative", 1: "neutral", 2: "positive"}
    for name, kind, tok, labels, problem, sharp in (
            ("classify", "Bert", WORDS, names, "single_label_classification", 3),
            ("multilabel", "Roberta", ROBERTA, {0: "toxic", 1: "insult", 2: "threat", 3: "spam"}, "multi_label_classification", 3),
            ("regression", "Bert", WORDS, {0: "LABEL_0"}, "regression", 1)):
        f = start(name)
        net = build(kind, tok, 10 + len(name), "ForSequenceClassification", sharp, num_labels=len(labels), id2label=labels,
                    label2id={v: k for k, v in labels.items()}, problem_type=problem)
        save_head(f, net, tok, ["logits"])
        p = pipe("text-classification", net, tok)
        record(f, rounded({
            "texts": [[(x["label"], x["score"]) for x in p(t, top_k=None, truncation=True)] for t in TEXTS],
            "pairs": [[(x["label"], x["score"]) for x in p({"text": a, "text_pair": b}, top_k=None, truncation=True)] for a, b in PAIRS if a and b]}))

    f = start("nli")
    labels = {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}
    net = build("Bert", WORDS, 20, "ForSequenceClassification", 3, num_labels=3, id2label=labels, label2id={v: k for k, v in labels.items()})
    save_head(f, net, WORDS, ["logits"])
    p = pipe("zero-shot-classification", net, WORDS)
    candidates = ["politics", "sports", "weather and climate", "food"]
    nonempty = [t for t in TEXTS if t]
    record(f, rounded({"labels": candidates, "texts": nonempty,
        "single": [list(zip(r["labels"], r["scores"])) for r in (p(t, candidates) for t in nonempty)],
        "multi": [list(zip(r["labels"], r["scores"])) for r in (p(t, candidates, multi_label=True, hypothesis_template="It is about {}.") for t in nonempty)]}))


def rerankers():
    from sentence_transformers import CrossEncoder

    for name, seed, labels, activation in (("rerank", 30, 1, None), ("rerank-raw", 31, 1, "torch.nn.modules.linear.Identity"), ("rerank-two", 32, 2, None)):
        f = start(name)
        extra = {"sbert_ce_default_activation_function": activation} if activation else {}
        net = build("Bert", WORDS, seed, "ForSequenceClassification", 2, num_labels=labels, **extra)
        save_head(f, net, WORDS, ["logits"], "onnx/model.onnx")
        config = json.loads((f / "config.json").read_text()) | extra
        (f / "config.json").write_text(json.dumps(config, indent=2))
        net.save_pretrained(f / "tmp"), WORDS.save_pretrained(f / "tmp")
        (f / "tmp" / "config.json").write_text(json.dumps(config))
        m = CrossEncoder(str(f / "tmp"), device="cpu")
        scores = m.predict(PAIRS)
        answers = {}
        if labels == 1:
            ranked = m.rank(TEXTS[12], TEXTS[20:60])
            answers["rank"] = [(r["corpus_id"], r["score"]) for r in ranked]
        shutil.rmtree(f / "tmp")
        record(f, rounded(answers), scores=np.asarray(scores))


def taggers():
    bio = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
    bilou = ["O"] + [f"{x}-{t}" for t in ("PER", "LOC") for x in "BILU"]
    strategies = ["none", "simple", "first", "average", "max"]
    for name, kind, tok, names in (("ner", "Bert", WORDS, bio), ("bilou", "Roberta", ROBERTA, bilou), ("ner-pieces", "XLMRoberta", PIECES, bio)):
        f = start(name)
        labels = dict(enumerate(names))
        net = build(kind, tok, 140 + len(name), "ForTokenClassification", 2, num_labels=len(names), id2label=labels, label2id={v: k for k, v in labels.items()})
        with torch.no_grad():
            net.classifier.bias[0] += 0.5
        save_head(f, net, tok, ["logits"])
        if name == "bilou":  # transformers knows B and I: the last of several is one inside, and one alone begins
            known = {i: {"L": "I", "U": "B"}.get(n[0], n[0]) + n[1:] if n != "O" else n for i, n in labels.items()}
            net.config.id2label = known
        answers = {}
        for s in strategies:
            p = pipe("token-classification", net, tok, aggregation_strategy=s, **({"stride": 16} if s != "none" else {}))
            rows = []
            for t in TEXTS:
                found = p(t) if t else []
                rows.append([(e.get("entity_group") or e.get("entity"), e["score"], e["start"], e["end"]) for e in found])
            answers[s] = rows
        record(f, rounded(answers))


def question_answering():
    f = start("qa")
    net = build("Bert", WORDS, 50, "ForQuestionAnswering", 2)
    save_head(f, net, WORDS, ["start_logits", "end_logits"])
    p = pipe("question-answering", net, WORDS)
    asked = [(TEXTS[(11 * i) % 40 + 12], " ".join(TEXTS[j % 200] for j in range(i, i + 1 + i % 4))) for i in range(200)]
    asked = [(" ".join(q.split()[:5]), c) for q, c in asked if q.strip() and c.strip()]
    while len(asked) < 200:
        asked.append((" ".join(TEXTS[12 + len(asked) % 28].split()[:5]), TEXTS[190 - len(asked) % 20]))
    def ask(**kw):
        rows = []
        for q, c in asked:
            found = p(question=q, context=c, max_seq_len=LENGTH, doc_stride=16, max_question_len=20, **kw)
            rows.append([(a["answer"], a["score"], a["start"], a["end"]) for a in (found if isinstance(found, list) else [found])])
        return rows
    record(f, rounded({"asked": asked, "top1": ask(), "top3": ask(top_k=3), "none": ask(handle_impossible_answer=True)}))


def masked():
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.models import MLMTransformer, SpladePooling

    f = start("splade")
    net = build("Bert", WORDS, 60, "ForMaskedLM")
    raw = f / "raw"
    net.save_pretrained(raw), WORDS.save_pretrained(raw)
    m = SparseEncoder(modules=[MLMTransformer(str(raw)), SpladePooling("max")], device="cpu")
    m.save(str(f))
    m = SparseEncoder(str(f), device="cpu")
    shutil.rmtree(raw)
    export(net, WORDS, f / "onnx" / "model.onnx", ["logits"])
    e = m.encode(TEXTS, convert_to_sparse_tensor=False).numpy()
    p = pipe("fill-mask", net, WORDS)
    masks = [t.replace(" the ", " [MASK] ", 1) if " the " in t else t + " [MASK]" for t in TEXTS[12:160]]
    filled = [[(x["token"], x["token_str"], x["score"], x["sequence"]) for x in p(t, tokenizer_kwargs={"truncation": True})] for t in masks]
    record(f, rounded({"masks": masks, "filled": filled}), embeddings=e)


def multi_vector():
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers import models as st
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    f = start("colbert")
    net = build("Bert", WORDS, 70)
    raw = f / "raw"
    net.save_pretrained(raw), WORDS.save_pretrained(raw)
    torch.manual_seed(71)
    word = st.Transformer(str(raw), query_length=16, document_length=40, query_expansion={"strategy": "fixed", "attend": False, "length": 16})
    dense = st.Dense(32, 16, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings")
    m = MultiVectorEncoder(modules=[word, dense, MultiVectorMask(skiplist_words=list(".,;:!?")), st.Normalize(module_input_name="token_embeddings")],
                           prompts={"query": "[Q] ", "document": "[D] "}, device="cpu")
    m.save(str(f))
    m = MultiVectorEncoder(str(f), device="cpu")
    shutil.rmtree(raw)
    export(net, WORDS, f / "onnx" / "model.onnx", ["last_hidden_state"])
    q, d = m.encode_query(TEXTS, convert_to_numpy=True), m.encode_document(TEXTS, convert_to_numpy=True)
    scores = m.similarity(q[12:32], d[12:60]).numpy()
    flat = lambda rows: (np.concatenate(rows).astype(np.float32), np.array([len(r) for r in rows], dtype=np.int64))
    (qs, qn), (ds, dn) = flat(q), flat(d)
    record(f, queries=qs, query_rows=qn, documents=ds, document_rows=dn, scores=scores)

    # the heads of BGE-M3 as its exports have them: dense, a weight for each token, a vector for each token
    f = start("m3")
    net = build("XLMRoberta", PIECES, 72)
    torch.manual_seed(73)
    heads = torch.nn.ModuleDict({"sparse": torch.nn.Linear(32, 1), "colbert": torch.nn.Linear(32, 32)})
    net.save_pretrained(f), PIECES.save_pretrained(f)

    class M3(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m, self.heads = net, heads

        def forward(self, input_ids, attention_mask):
            h = self.m(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            c = torch.nn.functional.normalize(self.heads["colbert"](h[:, 1:]) * attention_mask[:, 1:, None].float(), dim=-1)
            return torch.nn.functional.normalize(h[:, 0], dim=-1), torch.relu(self.heads["sparse"](h)), c

    wrap = M3().eval()
    export(net, PIECES, f / "onnx" / "model.onnx", ["dense_vecs", "sparse_vecs", "colbert_vecs"], wrap)
    dense, sparse, colbert = [], np.zeros((200, len(PIECES)), np.float32), []
    for i, t in enumerate(TEXTS):
        enc = PIECES(t, truncation=True, return_tensors="pt")
        with torch.no_grad():
            d, s, c = wrap(enc["input_ids"], enc["attention_mask"])
        dense.append(d[0].numpy()), colbert.append(c[0].numpy())
        for token, weight in zip(enc["input_ids"][0].tolist(), s[0, :, 0].tolist()):
            if token not in PIECES.all_special_ids:  # as FlagEmbedding does
                sparse[i, token] = max(sparse[i, token], weight)
    vs, vn = flat(colbert)
    record(f, dense=np.stack(dense), sparse=sparse, vectors=vs, vector_rows=vn)


JOBS = {"dense": dense_models, "classify": classifiers, "rerank": rerankers, "tag": taggers, "masked": masked, "multi": multi_vector}
OUT.mkdir(parents=True, exist_ok=True)
(OUT / "texts.json").write_text(json.dumps(TEXTS, ensure_ascii=False, indent=0))
for job in sys.argv[2:] or JOBS:
    {**JOBS, "qa": question_answering}[job]()
