"""Exports whole models beyond BERT, of random weights, by PyTorch's two exporters and records what onnxruntime answers.

    pip install -r requirements.txt
    python beyond.py ../../testdata/exports                # every model, by both exporters
    python beyond.py OUT --models vit gpt2 --exporter dynamo --opset 18

writes OUT/NAME-EXPORTER-OPSET.zip with model.onnx and test_data_set_N/, as ONNX's own tests have them. Nothing is downloaded:
configurations and weights are made here. The weights are multiples of 1/256, so that they compress well.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import traceback
import zipfile

import numpy as np
import onnxscript
import torch
import transformers
from torch.export import Dim
from torch.onnx import symbolic_helper

from record import record_inputs, reference

BATCH = Dim("batch", min=1, max=64)
SEQ = Dim("seq", min=1, max=64)

# ---- models of transformers: the exporter sees a plain signature, tensors in and the named outputs as a tuple out


class Plain(torch.nn.Module):
    def __init__(self, model, inputs, outputs):
        super().__init__()
        self.m, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *values):
        result = self.m(**dict(zip(self.inputs, values)))
        return tuple(result[name] for name in self.outputs)


class Decoder(torch.nn.Module):
    """A causal model whose cache goes in and comes out as tensors: keys and values of each layer in turn."""

    def __init__(self, model):
        super().__init__()
        self.m = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = transformers.DynamicCache(zip(past[::2], past[1::2]))
        result = self.m(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache, use_cache=True)
        return (result.logits, *(t for layer in cache.layers for t in (layer.keys, layer.values)))


# ---- models that are written here


class LSTMTagger(torch.nn.Module):
    def __init__(self, vocabulary=100, hidden=24, labels=7):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, 16)
        self.lstm = torch.nn.LSTM(16, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.classifier = torch.nn.Linear(2 * hidden, labels)

    def forward(self, input_ids):
        states, _ = self.lstm(self.embedding(input_ids))
        return (self.classifier(states).log_softmax(-1),)


class Conv(torch.nn.Sequential):
    def __init__(self, cin, cout, kernel=1, stride=1):
        super().__init__(torch.nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False), torch.nn.BatchNorm2d(cout), torch.nn.SiLU())


class Split(torch.nn.Module):
    """A stage of YOLO's kind: half of the channels go through a residual block, and all that there were are joined."""

    def __init__(self, cin, cout):
        super().__init__()
        half = cout // 2
        self.enter, self.leave = Conv(cin, cout), Conv(3 * half, cout)
        self.block = torch.nn.Sequential(Conv(half, half, 3), Conv(half, half, 3))

    def forward(self, x):
        a, b = self.enter(x).chunk(2, 1)
        return self.leave(torch.cat([a, b, b + self.block(b)], 1))


class Pyramid(torch.nn.Module):
    """Three poolings in a row, of which each sees more of the picture."""

    def __init__(self, channels):
        super().__init__()
        self.enter, self.leave = Conv(channels, channels // 2), Conv(2 * channels, channels)
        self.pool = torch.nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        x = [self.enter(x)]
        for _ in range(3):
            x.append(self.pool(x[-1]))
        return self.leave(torch.cat(x, 1))


class Detector(torch.nn.Module):
    """A small detector of YOLO's kind: two scales, boxes as distributions of distances to the anchor, NonMaxSuppression."""

    BINS = 4

    def __init__(self, classes=5):
        super().__init__()
        self.classes = classes
        self.stem = torch.nn.Sequential(Conv(3, 8, 3, 2), Conv(8, 16, 3, 2), Split(16, 16))
        self.fine = torch.nn.Sequential(Conv(16, 16, 3, 2), Split(16, 16))
        self.coarse = torch.nn.Sequential(Conv(16, 32, 3, 2), Split(32, 32), Pyramid(32))
        self.up = torch.nn.Upsample(scale_factor=2, mode="nearest")
        self.merge = Split(48, 16)
        out = 4 * self.BINS + classes
        self.heads = torch.nn.ModuleList(torch.nn.Sequential(Conv(c, 16, 3), torch.nn.Conv2d(16, out, 1)) for c in (16, 32))

    def forward(self, image):
        fine = self.fine(self.stem(image))
        coarse = self.coarse(fine)
        levels = [self.merge(torch.cat([self.up(coarse), fine], 1)), coarse]
        outs, anchors, strides = [], [], []
        for level, head, stride in zip(levels, self.heads, (8, 16)):
            h, w = level.shape[2:]
            y, x = torch.meshgrid(torch.arange(h, dtype=torch.float32) + 0.5, torch.arange(w, dtype=torch.float32) + 0.5, indexing="ij")
            anchors.append(torch.stack([x, y], -1).view(-1, 2))
            strides.append(torch.full((h * w, 1), float(stride)))
            outs.append(head(level).flatten(2))
        anchors, strides = torch.cat(anchors).T, torch.cat(strides).T
        distances, scores = torch.cat(outs, 2).split([4 * self.BINS, self.classes], 1)
        batch, _, places = distances.shape
        bins = distances.view(batch, 4, self.BINS, places).softmax(2)
        distances = (bins * torch.arange(self.BINS, dtype=torch.float32).view(1, 1, -1, 1)).sum(2)
        near, far = distances.chunk(2, 1)
        boxes = (torch.cat([anchors - near, anchors + far], 1) * strides).transpose(1, 2)
        scores = scores.sigmoid()
        kept = suppress(boxes, scores)
        image_index, label, place = kept.unbind(1)
        return boxes, scores, kept, boxes[image_index, place], scores[image_index, label, place]


@torch.library.custom_op("rlxc::suppress", mutates_args=())
def suppress(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """ONNX's NonMaxSuppression; what it says here only matters to the exporters' shapes."""
    return torch.zeros((3, 3), dtype=torch.int64)


@suppress.register_fake
def _(boxes, scores):
    return boxes.new_empty((torch.library.get_ctx().new_dynamic_size(), 3), dtype=torch.int64)


LIMITS = (20, 0.5, 0.4)  # boxes of a class, overlap, score


@symbolic_helper.parse_args("v", "v")
def suppress_legacy(g, boxes, scores):
    limits = [g.op("Constant", value_t=torch.tensor([x])) for x in LIMITS]
    return g.op("NonMaxSuppression", boxes, scores, *limits)


def suppress_dynamo(boxes, scores):
    op = onnxscript.opset18
    most, overlap, least = LIMITS
    return op.NonMaxSuppression(boxes, scores, op.Constant(value_ints=[most]), op.Constant(value_floats=[overlap]), op.Constant(value_floats=[least]))


class ALiBi(torch.nn.Module):
    """An encoder whose attention knows positions by a bias alone, which falls with the distance (arXiv 2108.12409)."""

    def __init__(self, vocabulary=100, hidden=32, heads=2):
        super().__init__()
        self.heads = heads
        self.embedding = torch.nn.Embedding(vocabulary, hidden)
        self.qkv, self.out = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(hidden) for _ in range(2))
        self.enter, self.leave = torch.nn.Linear(hidden, 2 * hidden), torch.nn.Linear(2 * hidden, hidden)

    def forward(self, input_ids, attention_mask):
        x = self.embedding(input_ids)
        places = torch.arange(input_ids.shape[1])
        distance = (places[None, :] - places[:, None]).abs().float()
        slopes = 2.0 ** -(8.0 / self.heads * torch.arange(1, self.heads + 1))
        hidden = (1 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        bias = -distance[None, None] * slopes[None, :, None, None] + hidden
        batch, seq, width = x.shape
        q, k, v = (t.view(batch, seq, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5 + bias
        x = self.norms[0](x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, seq, width)))
        return (self.norms[1](x + self.leave(torch.nn.functional.gelu(self.enter(x)))),)


# ---- what is exported: a module, its inputs with their free axes, its outputs, and the inputs of the recorded runs


class Case:
    def __init__(self, module, axes, outputs, runs, output_axes=None):
        self.module, self.axes, self.outputs, self.runs = module, axes, outputs, runs
        self.output_axes = output_axes or {name: {0: "batch"} for name in outputs}
        self.prompt = None  # of a model that writes
        self.gain = 1.8  # of convolutions: enough for values not to vanish


rng = np.random.default_rng(0)


def floats(*shape):
    return (np.round(rng.standard_normal(shape) * 16) / 16).astype(np.float32)


def ids(vocabulary, *shape):
    return rng.integers(3, vocabulary, shape)


def padding(batch, seq):
    """A mask with rows of random lengths, the first one whole."""
    lengths = rng.integers(1, seq + 1, batch)
    lengths[0] = seq
    return (np.arange(seq) < lengths[:, None]).astype(np.int64)


SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)


def hugging_face(model, config, inputs, outputs, attention="sdpa"):
    config._attn_implementation = attention
    return Plain(model(config), inputs, outputs)


def vit():
    config = transformers.ViTConfig(**SMALL, image_size=32, patch_size=8)
    outputs = ["last_hidden_state", "pooler_output"]
    module = hugging_face(transformers.ViTModel, config, ["pixel_values"], outputs)
    return Case(module, {"pixel_values": {0: BATCH}}, outputs, [{"pixel_values": floats(b, 3, 32, 32)} for b in (2, 1, 3)])


def clip_image():
    config = transformers.CLIPVisionConfig(**SMALL, image_size=32, patch_size=8, projection_dim=24)
    outputs = ["image_embeds", "last_hidden_state"]
    module = hugging_face(transformers.CLIPVisionModelWithProjection, config, ["pixel_values"], outputs)
    return Case(module, {"pixel_values": {0: BATCH}}, outputs, [{"pixel_values": floats(b, 3, 32, 32)} for b in (2, 1, 3)])


def clip_text():
    config = transformers.CLIPTextConfig(**SMALL, vocab_size=100, max_position_embeddings=77, projection_dim=24, bos_token_id=1, eos_token_id=2)
    inputs, outputs = ["input_ids", "attention_mask"], ["text_embeds", "last_hidden_state"]
    module = hugging_face(transformers.CLIPTextModelWithProjection, config, inputs, outputs)

    def run(b, s):
        mask, words = padding(b, s), ids(100, b, s)
        words[np.arange(b), mask.sum(1) - 1] = 2  # the end, whose place the text's embedding is read from
        return {"input_ids": words, "attention_mask": mask}

    free = {0: BATCH, 1: SEQ}
    return Case(module, {n: free for n in inputs}, outputs, [run(2, 7), run(1, 1), run(3, 20)],
                {"text_embeds": {0: "batch"}, "last_hidden_state": {0: "batch", 1: "seq"}})


def whisper():
    config = transformers.WhisperConfig(d_model=32, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=64, num_mel_bins=16,
                                        max_source_positions=40, vocab_size=100, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=64,
                                        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    module = hugging_face(transformers.models.whisper.modeling_whisper.WhisperEncoder, config, ["input_features"], ["last_hidden_state"])
    return Case(module, {"input_features": {0: BATCH}}, ["last_hidden_state"], [{"input_features": floats(b, 16, 80)} for b in (2, 1, 3)])


def t5():
    config = transformers.T5Config(vocab_size=100, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, relative_attention_num_buckets=8,
                                   relative_attention_max_distance=20, feed_forward_proj="gated-gelu")
    inputs = ["input_ids", "attention_mask"]
    # The dynamo exporter of PyTorch 2.15 fails on T5's sdpa: "Cannot view a tensor …".
    module = hugging_face(transformers.T5EncoderModel, config, inputs, ["last_hidden_state"], attention="eager")
    free = {0: BATCH, 1: SEQ}
    return Case(module, {n: free for n in inputs}, ["last_hidden_state"],
                [{"input_ids": ids(100, b, s), "attention_mask": padding(b, s)} for b, s in ((2, 7), (1, 1), (3, 30))],
                {"last_hidden_state": {0: "batch", 1: "seq"}})


def encoder(module):
    free = {0: BATCH, 1: SEQ}
    return Case(module, {n: free for n in ("input_ids", "attention_mask")}, ["last_hidden_state"],
                [{"input_ids": ids(100, b, s), "attention_mask": padding(b, s)} for b, s in ((2, 7), (1, 1), (3, 30))],
                {"last_hidden_state": {0: "batch", 1: "seq"}})


def alibi():
    return encoder(ALiBi())


def hugging_encoder(model, config, attention="sdpa"):
    return encoder(hugging_face(model, config, ["input_ids", "attention_mask"], ["last_hidden_state"], attention))


def modernbert():
    config = transformers.ModernBertConfig(**SMALL, vocab_size=100, max_position_embeddings=160, local_attention=16, global_attn_every_n_layers=2,
                                           pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
    return hugging_encoder(transformers.ModernBertModel, config)


def mpnet():
    config = transformers.MPNetConfig(**SMALL, vocab_size=100, max_position_embeddings=160, pad_token_id=0)
    return hugging_encoder(transformers.MPNetModel, config, attention="eager")


def deberta():
    config = transformers.DebertaV2Config(**SMALL, vocab_size=100, max_position_embeddings=160, relative_attention=True, position_buckets=8,
                                          pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm", position_biased_input=False,
                                          max_relative_positions=-1)
    return hugging_encoder(transformers.DebertaV2Model, config, attention="eager")


def decoder(model, config, heads):
    """A causal model of two layers, and what it writes after a prompt."""
    config._attn_implementation = "sdpa"
    layers = [f"{i}.{kind}" for i in range(2) for kind in ("key", "value")]
    inputs = ["input_ids", "attention_mask", "position_ids", *("past_key_values." + n for n in layers)]
    outputs = ["logits", *("present." + n for n in layers)]
    past = Dim("past", min=0, max=64)
    axes = {n: {0: BATCH, 2: past} for n in inputs[3:]}
    axes |= {"input_ids": {0: BATCH, 1: SEQ}, "attention_mask": {0: BATCH, 1: Dim.DYNAMIC}, "position_ids": {0: BATCH, 1: SEQ}}

    def run(b, s, p):
        mask = padding(b, s + p)[:, ::-1].copy()  # of generation: the padding stands in front
        positions = np.maximum(mask.cumsum(1) - 1, 0)[:, p:]
        return {"input_ids": ids(100, b, s), "attention_mask": mask, "position_ids": positions, **{n: floats(b, heads, p, 16) for n in inputs[3:]}}

    names = {"logits": {0: "batch", 1: "seq"}, **{n: {0: "batch", 2: "total"} for n in outputs[1:]}}
    axes = {n: axes[n] for n in inputs}
    case = Case(Decoder(model(config)), axes, outputs, [run(2, 3, 4), run(1, 5, 0), run(1, 1, 9), run(3, 6, 10)], names)
    case.prompt = ids(100, 7)
    return case


def gpt2():
    return decoder(transformers.GPT2LMHeadModel, transformers.GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2), 2)


GROUPED = dict(vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
               max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)


def llama():
    return decoder(transformers.LlamaForCausalLM, transformers.LlamaConfig(**GROUPED), 2)


def qwen2():
    return decoder(transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**GROUPED), 2)


SHARED = dict(SMALL, num_attention_heads=4, num_key_value_heads=2, head_dim=8, vocab_size=100, max_position_embeddings=160, use_cache=False,
              bos_token_id=1, eos_token_id=2, pad_token_id=0)


def diffllama():
    """The legacy exporter knows no rms_norm."""
    config = transformers.DiffLlamaConfig(**GROUPED | dict(hidden_size=32, intermediate_size=48, head_dim=16, num_attention_heads=2, num_key_value_heads=2))
    return decoder(transformers.DiffLlamaForCausalLM, config, 2)


def qwen3_reranker():
    """A logit for each text, from the vector of the last token that is no padding."""
    config = transformers.Qwen3Config(**SHARED, num_labels=1)
    case = hugging_encoder(transformers.Qwen3ForSequenceClassification, config)
    case.module.outputs, case.outputs, case.output_axes = ["logits"], ["logits"], {"logits": {0: "batch"}}
    for run in case.runs:
        run["input_ids"] = run["input_ids"] * run["attention_mask"]
    return case


def qwen3_embedding():
    config = transformers.Qwen3Config(**SHARED)
    return hugging_encoder(transformers.Qwen3Model, config)


def embedding_gemma():
    """The legacy exporter ends with an error of its own."""
    config = transformers.Gemma3TextConfig(**SHARED, query_pre_attn_scalar=8, use_bidirectional_attention=True, sliding_window=8,
                                           layer_types=["sliding_attention", "full_attention"])
    return hugging_encoder(transformers.Gemma3TextModel, config)


def nomic():
    return hugging_encoder(transformers.NomicBertModel, transformers.NomicBertConfig(**SMALL, vocab_size=100, max_position_embeddings=160))


def gte():
    return hugging_encoder(transformers.GteModel, transformers.GteConfig(**SMALL, vocab_size=100, max_position_embeddings=160))


def jina_v3():
    config = transformers.JinaEmbeddingsV3Config(**SMALL, vocab_size=100, max_position_embeddings=160)
    return hugging_encoder(transformers.JinaEmbeddingsV3Model, config)


def write(folder, prompt, count=50):
    """Records in generated.json what onnxruntime writes after a prompt with the cache that the model returns: always the likeliest token that it
    has not written, since models of random weights repeat themselves."""
    session = reference(folder)
    cache = {i.name: np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32) for i in session.get_inputs()[3:]}
    tokens, given, margin = [], prompt[None], np.inf
    while len(tokens) < count:
        length = len(prompt) + len(tokens)
        logits, *present = session.run(None, {"input_ids": given, "attention_mask": np.ones((1, length), np.int64),
                                              "position_ids": np.arange(length - given.shape[1], length)[None], **cache})
        cache = dict(zip(cache, present))
        logits[0, -1, tokens] = -np.inf
        best = np.sort(logits[0, -1])[-2:]
        margin = min(margin, best[1] - best[0])
        tokens.append(int(logits[0, -1].argmax()))
        given = np.array([tokens[-1:]])
    print("the closest call:", margin)
    (folder / "generated.json").write_text(json.dumps({"prompt": prompt.tolist(), "tokens": tokens}))


def resnet():
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[16, 24], depths=[1, 2], layer_type="bottleneck", num_labels=10)
    module = Plain(transformers.ResNetForImageClassification(config), ["pixel_values"], ["logits"])
    size = {2: 8 * Dim("height", min=2, max=32), 3: 8 * Dim("width", min=2, max=32)}
    return Case(module, {"pixel_values": {0: BATCH, **size}}, ["logits"], [{"pixel_values": floats(b, 3, h, w)} for b, h, w in ((2, 16, 32), (1, 16, 16), (3, 32, 24))])


def yolo():
    outputs = ["boxes", "scores", "kept", "kept_boxes", "kept_scores"]
    size = {2: 16 * Dim("height", min=2, max=32), 3: 16 * Dim("width", min=2, max=32)}
    names = {"boxes": {0: "batch", 1: "places"}, "scores": {0: "batch", 2: "places"}} | {n: {0: "detections"} for n in outputs[2:]}
    return Case(Detector(), {"image": {0: BATCH, **size}}, outputs, [{"image": floats(b, 3, h, w)} for b, h, w in ((2, 32, 48), (1, 32, 32), (3, 48, 16))], names)


def lstm():
    return Case(LSTMTagger(), {"input_ids": {0: BATCH, 1: SEQ}}, ["log_probabilities"], [{"input_ids": ids(100, b, s)} for b, s in ((2, 7), (1, 1), (3, 20))],
                {"log_probabilities": {0: "batch", 1: "seq"}})


def hugging_image(model, config, outputs, size, axes=None):
    module = hugging_face(model, config, ["pixel_values"], outputs, attention="eager")
    return Case(module, {"pixel_values": {0: BATCH}}, outputs, [{"pixel_values": floats(b, 3, size, size)} for b in (2, 1, 3)], axes)


def hugging_sound(model, config):
    """A model of sound that sees samples, of any number."""
    module = hugging_face(model, config, ["input_values"], ["last_hidden_state"], attention="eager")
    return Case(module, {"input_values": {0: BATCH, 1: Dim("samples", min=400, max=40000)}}, ["last_hidden_state"],
                [{"input_values": floats(b, n)} for b, n in ((2, 1200), (1, 800), (3, 1600))], {"last_hidden_state": {0: "batch", 1: "frames"}})


TEXT = dict(**SMALL, vocab_size=100, max_position_embeddings=160, pad_token_id=0)


def bigbird():
    return hugging_encoder(transformers.BigBirdModel, transformers.BigBirdConfig(**TEXT, attention_type="original_full"), attention="eager")


def bigbird_sparse():
    """Blocks of 4 tokens see some others, in texts of more than 28 tokens."""
    config = transformers.BigBirdConfig(**TEXT, attention_type="block_sparse", block_size=4, num_random_blocks=1)
    case = hugging_encoder(transformers.BigBirdModel, config, attention="eager")
    case.runs = [{"input_ids": ids(100, b, s), "attention_mask": padding(b, s)} for b, s in ((2, 40), (1, 40), (3, 40))]
    return case


def convbert():
    return hugging_encoder(transformers.ConvBertModel, transformers.ConvBertConfig(**SMALL, vocab_size=100, embedding_size=32, max_position_embeddings=160, head_ratio=2,
                                                                                   conv_kernel_size=5), attention="eager")


def xlnet():
    return hugging_encoder(transformers.XLNetModel, transformers.XLNetConfig(vocab_size=100, d_model=32, n_layer=2, n_head=2, d_inner=64), attention="eager")


def bge_m3():
    return hugging_encoder(transformers.XLMRobertaModel, transformers.XLMRobertaConfig(**TEXT))


def ibert():
    return hugging_encoder(transformers.IBertModel, transformers.IBertConfig(**TEXT | {"pad_token_id": 1}), attention="eager")


def funnel():
    """Its exports only take the length that they were made with."""
    config = transformers.FunnelConfig(vocab_size=100, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=2, d_head=16, d_inner=64)
    case = hugging_encoder(transformers.FunnelModel, config, attention="eager")
    case.axes, case.output_axes = {n: {0: BATCH} for n in case.axes}, {"last_hidden_state": {0: "batch"}}
    case.runs = [{"input_ids": ids(100, b, 16), "attention_mask": padding(b, 16)} for b in (2, 1, 3)]
    return case


class Sparse(torch.nn.Module):
    """SPLADE: how much each word of the vocabulary counts for a text."""

    def __init__(self):
        super().__init__()
        self.m = transformers.BertForMaskedLM(transformers.BertConfig(**TEXT, attn_implementation="eager"))

    def forward(self, input_ids, attention_mask):
        logits = self.m(input_ids=input_ids, attention_mask=attention_mask).logits
        return (torch.max(torch.log1p(torch.relu(logits)) * attention_mask.unsqueeze(-1), 1).values,)


class Late(torch.nn.Module):
    """ColBERT: a short vector of length 1 for each token."""

    def __init__(self):
        super().__init__()
        self.m = transformers.BertModel(transformers.BertConfig(**TEXT, attn_implementation="sdpa"))
        self.linear = torch.nn.Linear(32, 16, bias=False)

    def forward(self, input_ids, attention_mask):
        x = self.linear(self.m(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state) * attention_mask.unsqueeze(-1).float()
        return (torch.nn.functional.normalize(x, p=2, dim=2),)


class Sentence(torch.nn.Module):
    """sentence-transformers with its head in the graph: the mean of the tokens, a dense layer, length 1."""

    def __init__(self):
        super().__init__()
        self.m = transformers.BertModel(transformers.BertConfig(**TEXT, attn_implementation="sdpa"))
        self.dense = torch.nn.Linear(32, 16)

    def forward(self, input_ids, attention_mask):
        x = self.m(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).expand(x.size()).float()
        mean = torch.sum(x * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
        return (torch.nn.functional.normalize(torch.tanh(self.dense(mean)), p=2, dim=1),)


def texts(module, output, axes):
    case = encoder(module)
    case.outputs, case.output_axes = [output], {output: axes}
    return case


def siglip():
    return hugging_image(transformers.SiglipVisionModel, transformers.SiglipVisionConfig(**SMALL, image_size=32, patch_size=8), ["last_hidden_state", "pooler_output"], 32)


def swin():
    config = transformers.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    return hugging_image(transformers.SwinModel, config, ["last_hidden_state", "pooler_output"], 32)


def convnext():
    return hugging_image(transformers.ConvNextModel, transformers.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1]), ["last_hidden_state", "pooler_output"], 64)


def mobilenetv2():
    config = transformers.MobileNetV2Config(image_size=64, depth_multiplier=0.1, min_depth=4, depth_divisible_by=4)
    case = hugging_image(transformers.MobileNetV2Model, config, ["pooler_output"], 64)
    case.gain = 1.2  # with more, ReLU6 cuts off half of all values at one end or the other, and roundings grow
    return case


def segformer():
    config = transformers.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
                                          num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=32, num_labels=5)
    return hugging_image(transformers.SegformerForSemanticSegmentation, config, ["logits"], 64)


def rtdetr():
    backbone = transformers.RTDetrResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
                                               out_features=["stage2", "stage3", "stage4"])
    config = transformers.RTDetrConfig(backbone_config=backbone, encoder_hidden_dim=16, encoder_in_channels=[16, 16, 16], encoder_layers=1, encoder_ffn_dim=32,
                                       encoder_attention_heads=2, d_model=16, num_queries=10, decoder_in_channels=[16, 16, 16], decoder_ffn_dim=32,
                                       decoder_layers=1, decoder_attention_heads=2, decoder_n_points=2, num_labels=5, num_denoising=0, anchor_image_size=[64, 64])
    return hugging_image(transformers.RTDetrForObjectDetection, config, ["logits", "pred_boxes"], 64)


SOUND = dict(**SMALL, vocab_size=32, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16,
             num_conv_pos_embedding_groups=4, num_feat_extract_layers=3)


def wav2vec2():
    """The large model's form: norms before the layers, and in the convolutions."""
    return hugging_sound(transformers.Wav2Vec2Model, transformers.Wav2Vec2Config(**SOUND, feat_extract_norm="layer", do_stable_layer_norm=True))


def wavlm():
    return hugging_sound(transformers.WavLMModel, transformers.WavLMConfig(**SOUND, num_buckets=8, max_bucket_distance=20))


class Codec(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.m = model

    def forward(self, audio):
        embeddings = self.m.encoder(audio)
        codes = self.m.quantizer.encode(embeddings, 24.0)
        return embeddings, codes, self.m.decoder(self.m.quantizer.decode(codes))


def encodec():
    config = transformers.EncodecConfig(target_bandwidths=[24.0], sampling_rate=8000, num_filters=4, num_residual_layers=1, upsampling_ratios=[4, 2], hidden_size=16,
                                        codebook_size=16, codebook_dim=16, num_lstm_layers=1, kernel_size=7)
    return Case(Codec(transformers.EncodecModel(config)), {"audio": {0: BATCH, 2: 8 * Dim("frames", min=4, max=500)}}, ["embeddings", "codes", "sound"],
                [{"audio": floats(b, 1, n)} for b, n in ((2, 320), (1, 160), (3, 480))],
                {"embeddings": {0: "batch", 2: "frames"}, "codes": {1: "batch", 2: "frames"}, "sound": {0: "batch", 2: "samples"}})


def rwkv():
    config = transformers.RwkvConfig(vocab_size=100, context_length=64, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, intermediate_size=64)
    module = Plain(transformers.RwkvModel(config), ["input_ids"], ["last_hidden_state"])
    return Case(module, {"input_ids": {0: BATCH}}, ["last_hidden_state"], [{"input_ids": ids(100, b, 7)} for b in (2, 1, 3)])


# Each model with the opsets that dynamo writes it at: transformers before and after Attention became an operator.
MODELS = {
    "vit": (vit, [20, 23]),
    "clip-image": (clip_image, [20, 23]),
    "clip-text": (clip_text, [20, 23]),
    "whisper": (whisper, [20, 23]),
    "t5": (t5, [20, 23]),
    "alibi": (alibi, [20]),
    "modernbert": (modernbert, [20]),
    "mpnet": (mpnet, [20]),
    "deberta": (deberta, [20]),
    "gpt2": (gpt2, [20, 23]),
    "llama": (llama, [20, 23]),
    "qwen2": (qwen2, [20]),
    "diffllama": (diffllama, [20]),
    "qwen3-reranker": (qwen3_reranker, [20]),
    "qwen3-embedding": (qwen3_embedding, [20]),
    "embedding-gemma": (embedding_gemma, [20]),
    "nomic": (nomic, [20]),
    "gte": (gte, [20]),
    "jina-v3": (jina_v3, [20]),
    "resnet": (resnet, [18]),
    "yolo": (yolo, [20]),
    "lstm": (lstm, [18]),
    "bigbird": (bigbird, [20]),
    "bigbird-sparse": (bigbird_sparse, [20]),
    "convbert": (convbert, [20]),
    "xlnet": (xlnet, []),  # torch.export's decomposition fails
    "bge-m3": (bge_m3, [20]),
    "ibert": (ibert, [20]),
    "funnel": (funnel, [20]),
    "splade": (lambda: texts(Sparse(), "weights", {0: "batch"}), [20]),
    "colbert": (lambda: texts(Late(), "vectors", {0: "batch", 1: "seq"}), [20]),
    "sentence": (lambda: texts(Sentence(), "vector", {0: "batch"}), [20]),
    "siglip": (siglip, [20]),
    "swin": (swin, [20]),
    "convnext": (convnext, [20]),
    "mobilenetv2": (mobilenetv2, [20]),
    "segformer": (segformer, [20]),
    "rtdetr": (rtdetr, [20]),
    "wav2vec2": (wav2vec2, [20]),
    "wavlm": (wavlm, [20]),
    "encodec": (encodec, [20]),
    "rwkv": (rwkv, [20]),
}


def build(name):
    global rng
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    case = MODELS[name][0]()
    case.module.eval()
    with torch.no_grad():  # spread so that no bias is zero and attention is far from uniform: a wrong kernel shows
        for kind, tensor in [*case.module.named_parameters(), *case.module.named_buffers()]:
            if not tensor.is_floating_point():
                continue
            if kind.endswith("running_var"):
                tensor.copy_(1 + torch.rand_like(tensor))
            else:
                spread = (case.gain if tensor.dim() == 4 else 1) * tensor[0].numel() ** -0.5 if tensor.dim() > 1 else 0.1
                tensor.copy_(tensor.mean() * (tensor.dim() == 1) + torch.randn_like(tensor) * spread)
            tensor.copy_((tensor * 256).round() / 256)
    return case


def names_of(axes):
    """Free axes as the legacy exporter takes them, which knows no multiples of sizes: names."""
    return {i: d if isinstance(d, str) else "total" if d is Dim.DYNAMIC else d.__name__.replace("*", "_") for i, d in axes.items()}


def export(case, path, exporter, opset):
    args = tuple(torch.from_numpy(x) for x in case.runs[0].values())
    names = dict(input_names=list(case.axes), output_names=case.outputs, opset_version=opset)
    if exporter == "legacy":
        axes = {n: names_of(a) for n, a in [*case.axes.items(), *case.output_axes.items()]}
        torch.onnx.export(case.module, args, path, dynamo=False, dynamic_axes=axes, **names)
        return
    shapes = tuple(case.axes.values())
    if isinstance(case.module, Plain):
        shapes = (shapes,)  # forward takes *values
    elif isinstance(case.module, Decoder):
        shapes = (*shapes[:3], shapes[3:])
    torch.onnx.export(case.module, args, path, dynamo=True, dynamic_shapes=shapes, external_data=False,
                      custom_translation_table={torch.ops.rlxc.suppress.default: suppress_dynamo}, **names)


def pack(folder, path):
    """One zip of a folder, the same bytes for the same files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                z.writestr(zipfile.ZipInfo(str(file.relative_to(folder))), file.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--exporter", choices=["legacy", "dynamo"])
    parser.add_argument("--opset", nargs="+", type=int)
    args = parser.parse_args()
    torch.onnx.register_custom_op_symbolic("rlxc::suppress", suppress_legacy, 17)
    args.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in args.models:
        for exporter in [args.exporter] if args.exporter else ["legacy", "dynamo"]:
            for opset in args.opset or ([17] if exporter == "legacy" else MODELS[name][1]):
                label = f"{name}-{exporter}-{opset}"
                with tempfile.TemporaryDirectory() as scratch:
                    folder = pathlib.Path(scratch)
                    try:
                        case = build(name)
                        export(case, folder / "model.onnx", exporter, opset)
                        record_inputs(folder, case.runs)
                        if case.prompt is not None:
                            write(folder, case.prompt)
                        pack(folder, args.out / f"{label}.zip")
                        print("wrote", label, (args.out / f"{label}.zip").stat().st_size)
                    except Exception:  # one model that an exporter refuses must not cost the others
                        traceback.print_exc()
                        failed.append(label)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
