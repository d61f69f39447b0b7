"""Exports models of the sizes that people use, with random weights, for the figures of BENCHMARKS.md.

    pip install -r requirements.txt
    python large.py OUT                       # all of them
    python large.py OUT --models resnet50 gpt2
    python large.py OUT --decode gpt2         # times onnxruntime's steps of a decoder that is there

writes OUT/NAME.onnx, and beside resnet50.onnx and mobilenetv2.onnx two forms each, NAME-qdq.onnx and NAME-qop.onnx, by onnxruntime's
quantize_static. Nothing is downloaded.
"""

import argparse
import pathlib
import statistics
import time

import numpy as np
import onnxruntime
import torch
import transformers as t

import beyond

IMAGE = (1, 3, 224, 224)


class One(torch.nn.Module):
    """A model of one input and one of its outputs."""

    def __init__(self, model, output):
        super().__init__()
        self.m, self.output = model, output

    def forward(self, x):
        return getattr(self.m(x), self.output)


def plain(model, shape=IMAGE, axes=("batch",), output="logits"):
    for m in model.modules():
        if isinstance(m, torch.nn.BatchNorm2d):  # as trained ones are: not all alike
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    return One(model, output), (torch.randn(shape),), dict(input_names=["x"], output_names=["y"], dynamic_axes={"x": dict(enumerate(axes))})


def decoder(model, layers, heads, size):
    cache = [f"{i}.{k}" for i in range(layers) for k in ("key", "value")]
    past, present = [f"past_key_values.{n}" for n in cache], [f"present.{n}" for n in cache]
    axes = {n: {0: "batch", 2: "past"} for n in past} | {n: {0: "batch", 2: "total"} for n in present}
    axes |= {n: {0: "batch", 1: "seq"} for n in ("input_ids", "position_ids", "logits")} | {"attention_mask": {0: "batch", 1: "total"}}
    tokens, mask = torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 7, dtype=torch.long)
    args = (tokens, mask, tokens, *(torch.zeros(2, heads, 4, size) for _ in cache))
    return beyond.Decoder(model), args, dict(input_names=["input_ids", "attention_mask", "position_ids", *past], output_names=["logits", *present], dynamic_axes=axes)


def eager(config, **sizes):
    return config(attn_implementation="eager", **sizes)


QWEN = dict(vocab_size=32000, hidden_size=896, num_hidden_layers=12, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864)
MODELS = {
    "resnet50": lambda: plain(t.ResNetForImageClassification(t.ResNetConfig())),
    "mobilenetv2": lambda: plain(t.MobileNetV2ForImageClassification(t.MobileNetV2Config())),
    "convnext": lambda: plain(t.ConvNextForImageClassification(t.ConvNextConfig())),
    "vit": lambda: plain(t.ViTForImageClassification(eager(t.ViTConfig))),
    "swin": lambda: plain(t.SwinForImageClassification(t.SwinConfig())),
    "segformer": lambda: plain(t.SegformerForSemanticSegmentation(t.SegformerConfig())),
    "whisper": lambda: plain(t.WhisperModel(eager(t.WhisperConfig)).encoder, (1, 80, 3000), output="last_hidden_state"),
    "wav2vec2": lambda: plain(t.Wav2Vec2ForCTC(eager(t.Wav2Vec2Config)), (1, 16000), ("batch", "samples")),
    "gpt2": lambda: decoder(t.GPT2LMHeadModel(t.GPT2Config(attn_implementation="sdpa")), 12, 12, 64),
    "qwen2": lambda: decoder(t.Qwen2ForCausalLM(t.Qwen2Config(attn_implementation="sdpa", **QWEN)), 12, 2, 64),
}


def export(out, name):
    torch.manual_seed(0)
    model, args, options = MODELS[name]()
    with torch.no_grad():
        torch.onnx.export(model.eval(), args, out / f"{name}.onnx", opset_version=17, dynamo=False, **options)
    if name in ("resnet50", "mobilenetv2"):
        quantize(out, name)


def quantize(out, name):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Images(CalibrationDataReader):
        def __init__(self):
            self.left = [np.random.default_rng(i).standard_normal(IMAGE, np.float32) for i in range(2)]

        def get_next(self):
            return {"x": self.left.pop()} if self.left else None

    for suffix, form in (("qdq", QuantFormat.QDQ), ("qop", QuantFormat.QOperator)):
        quantize_static(out / f"{name}.onnx", out / f"{name}-{suffix}.onnx", Images(), quant_format=form, per_channel=True, weight_type=QuantType.QInt8, activation_type=QuantType.QUInt8)


def decode(path, prompt=256, steps=64):
    """Times steps of one token after a prompt on one thread, as BenchmarkDecode does."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    s = onnxruntime.InferenceSession(path, options)
    outputs = [o.name for o in s.get_outputs()]
    cache = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32) for i in s.get_inputs() if i.name.startswith("past")}

    def run(tokens, length):
        n = len(tokens)
        values = s.run(outputs, cache | {"input_ids": np.array([tokens]), "attention_mask": np.ones((1, length + n), np.int64), "position_ids": np.arange(length, length + n)[None]})
        cache.update((o.replace("present", "past_key_values"), v) for o, v in zip(outputs, values) if o != "logits")

    run([i % 1000 for i in range(prompt)], 0)
    times = []
    for i in range(steps):
        start = time.perf_counter()
        run([i], prompt + i)
        times.append(time.perf_counter() - start)
    print(f"{path}: a step takes {1e3 * statistics.median(times):.2f} ms (the median of {steps})")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    p.add_argument("--decode", choices=["gpt2", "qwen2"])
    a = p.parse_args()
    if a.decode:
        decode(a.out / f"{a.decode}.onnx")
    else:
        a.out.mkdir(parents=True, exist_ok=True)
        for name in a.models:
            export(a.out, name)
