"""Makes small dual encoders and an image classifier with random weights, and records what transformers makes of images and texts:

    python towers.py ../../pipeline/testdata/images

Its packages: torch, torchvision, transformers, tokenizers, onnx, pillow<13. The photos are there (image_models.py). The folders:

    clip-towers  two files, as transformers.js writes them; the scale of logits is in config.json alone
    clip-file    one file, as optimum exports it
    siglip       two files and one of both towers
    classifier   ResNet with labels
"""

import json
import pathlib
import sys

import numpy as np
import tokenizers
import torch
import transformers
from PIL import Image
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(sys.argv[1])
TEXTS = ["A cat sits on the mat.", "two dogs", "This is a photo of a red car, and of a tall house in the rain.", ""]
LABELS = ["cat", "two dogs", "a red car"]
VISION = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 24, "patch_size": 8}
CORPUS = TEXTS * 4 + ["This is a photo of {}.", "the dogs sit on the house", "a photo of the rain"] * 4


def clip_tokenizer():
    start, end = "<|startoftext|>", "<|endoftext|>"
    t = tokenizers.Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token=end))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(tokenizers.Regex(r"\s+"), " "), normalizers.Lowercase()])
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(words), "removed", invert=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=100, end_of_word_suffix="</w>", special_tokens=[start, end],
                                                      show_progress=False))
    t.post_processor = processors.RobertaProcessing((end, t.token_to_id(end)), (start, t.token_to_id(start)), False, False)
    t.decoder = decoders.ByteLevel()
    return t, end, 24


def siglip_tokenizer():
    t = tokenizers.Tokenizer(models.Unigram())
    t.normalizer = normalizers.Lowercase()
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=60, special_tokens=["<unk>", "</s>"], unk_token="<unk>",
                                                          show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    return t, "</s>", 64


class Export(torch.nn.Module):
    def __init__(self, model, inputs, outputs):
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *values):
        out = self.model(**dict(zip(self.inputs, values)))
        return tuple(getattr(out, n) for n in self.outputs)


AXES = {"pixel_values": {0: "image_batch_size", 1: "num_channels", 2: "height", 3: "width"},
        "input_ids": {0: "text_batch_size", 1: "sequence_length"}, "attention_mask": {0: "text_batch_size", 1: "sequence_length"},
        "text_embeds": {0: "text_batch_size"}, "image_embeds": {0: "image_batch_size"}, "logits": {0: "image_batch_size"},
        "logits_per_image": {0: "image_batch_size", 1: "text_batch_size"}, "logits_per_text": {0: "text_batch_size", 1: "image_batch_size"}}


def export(file, model, inputs, outputs):
    file.parent.mkdir(parents=True, exist_ok=True)
    examples = {"pixel_values": torch.zeros(2, 3, 24, 24), "input_ids": torch.ones(3, 64 if "siglip" in str(file) else 9, dtype=torch.long)}
    examples["attention_mask"] = torch.ones_like(examples["input_ids"])
    axes = dict(AXES)
    for n in outputs:
        axes.setdefault(n, {0: AXES[inputs[0]][0]})
    torch.onnx.export(Export(model, inputs, outputs).eval(), tuple(examples[n] for n in inputs), str(file), input_names=inputs,
                      output_names=outputs, dynamic_axes={n: axes[n] for n in inputs + outputs}, opset_version=17, dynamo=False)


def randomise(m):
    torch.manual_seed(2)
    m.eval()
    for n, p in m.named_parameters():
        torch.nn.init.normal_(p, std=0.02 if n.endswith("bias") or "position" in n else 0.4)


def write(folder, config, processor, tokenizer=None, end="", length=0):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    if tokenizer:
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length, "pad_token": end, "eos_token": end}))


def photos():
    return {f.name: Image.open(f).convert("RGB") for f in sorted(OUT.glob("*.png"))}


def record(folder, model, tokenizer, **padding):
    process = transformers.AutoImageProcessor.from_pretrained(folder)
    all, out = photos(), {"texts": {}, "images": {}, "labels": {}}
    with torch.no_grad():
        for text in TEXTS:
            v = model.get_text_features(**tokenizer(text, return_tensors="pt", **padding))
            out["texts"][text] = getattr(v, "pooler_output", v)[0].tolist()
        for name, image in all.items():
            v = model.get_image_features(pixel_values=process(image, return_tensors="pt")["pixel_values"])
            out["images"][name] = getattr(v, "pooler_output", v)[0].tolist()
    pipe = transformers.pipeline("zero-shot-image-classification", model=model, tokenizer=tokenizer, image_processor=process)
    for name, image in all.items():
        out["labels"][name] = pipe(image, candidate_labels=LABELS)
    (folder / "transformers.json").write_text(json.dumps(out))


def fast(t, end, length, inputs):
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, pad_token=end, eos_token=end, model_max_length=length,
                                                model_input_names=inputs)


def clip(name, towers, scale, init):
    t, end, length = clip_tokenizer()
    text = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": length,
            "vocab_size": t.get_vocab_size(), "eos_token_id": t.token_to_id(end), "projection_dim": 12}
    config = transformers.CLIPConfig(text_config=text, vision_config={**VISION, "projection_dim": 12}, projection_dim=12,
                                     logit_scale_init_value=init, attn_implementation="eager")
    model = transformers.CLIPModel(config)
    randomise(model)
    model.logit_scale.data.fill_(scale)
    folder = OUT / name
    write(folder, {"model_type": "clip", "architectures": ["CLIPModel"], "logit_scale_init_value": init, "text_config": {
        "max_position_embeddings": length}}, {"image_processor_type": "CLIPImageProcessor", "size": 24, "crop_size": 24}, t, end, length)
    if towers:
        for file, kind, c, given, outputs in (
                ("text_model", transformers.CLIPTextModelWithProjection, config.text_config, ["input_ids"], ["text_embeds"]),
                ("vision_model", transformers.CLIPVisionModelWithProjection, config.vision_config, ["pixel_values"], ["image_embeds"])):
            tower = kind(c).eval()
            tower.load_state_dict(model.state_dict(), strict=False)
            export(folder / "onnx" / f"{file}.onnx", tower, given, outputs)
    else:
        export(folder / "model.onnx", model, ["input_ids", "pixel_values", "attention_mask"],
               ["logits_per_image", "logits_per_text", "text_embeds", "image_embeds"])
    record(folder, model, fast(t, end, length, ["input_ids", "attention_mask"]), padding=True)


def siglip():
    t, end, length = siglip_tokenizer()
    text = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": length,
            "vocab_size": t.get_vocab_size(), "projection_size": 16, "pad_token_id": t.token_to_id(end)}
    config = transformers.SiglipConfig(text_config=text, vision_config=VISION, attn_implementation="eager")
    model = transformers.SiglipModel(config)
    randomise(model)
    model.logit_scale.data.fill_(1.5)
    model.logit_bias.data.fill_(-2)
    folder = OUT / "siglip"
    write(folder, {"model_type": "siglip", "architectures": ["SiglipModel"]},
          {"image_processor_type": "SiglipImageProcessor", "size": {"height": 24, "width": 24}}, t, end, length)
    export(folder / "onnx" / "model.onnx", model, ["input_ids", "pixel_values"],
           ["logits_per_image", "logits_per_text", "text_embeds", "image_embeds"])
    for file, kind, c, given in (("text_model", transformers.SiglipTextModel, config.text_config, ["input_ids"]),
                                 ("vision_model", transformers.SiglipVisionModel, config.vision_config, ["pixel_values"])):
        tower = kind(c).eval()
        own = {k.removeprefix(f"{file}."): v for k, v in model.state_dict().items() if k.startswith(file)}
        tower.load_state_dict(own if set(own) >= set(tower.state_dict()) else {f"{file}.{k}": v for k, v in own.items()})
        export(folder / "onnx" / f"{file}.onnx", tower, given, ["last_hidden_state", "pooler_output"])
    record(folder, model, fast(t, end, length, ["input_ids"]), padding="max_length", max_length=length)


def classifier():
    labels = {i: n for i, n in enumerate(("cat", "dog", "car", "house", "rain"))}
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", id2label=labels)
    model = transformers.ResNetForImageClassification(config)
    randomise(model)
    folder = OUT / "classifier"
    write(folder, {"model_type": "resnet", "architectures": ["ResNetForImageClassification"], "id2label": labels},
          {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 40}, "crop_pct": 0.875})
    export(folder / "model.onnx", model, ["pixel_values"], ["logits"])
    process = transformers.AutoImageProcessor.from_pretrained(folder)
    out = {}
    for kind in ("single_label_classification", "multi_label_classification"):
        model.config.problem_type = kind
        pipe = transformers.pipeline("image-classification", model=model, image_processor=process)
        out[kind] = {name: pipe(image, top_k=3) for name, image in photos().items()}
    (folder / "transformers.json").write_text(json.dumps(out))


clip("clip-towers", True, np.log(20), float(np.log(20)))
clip("clip-file", False, np.log(30), float(np.log(14)))
siglip()
classifier()
