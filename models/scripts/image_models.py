"""Makes small vision models with random weights, and records the vectors that transformers gives for images:

    python image_models.py ../../pipeline/testdata/images

Its packages: torch, torchvision, transformers, onnx, pillow<13. The folders are as optimum (vit, dinov2, resnet) and transformers.js
(clip: two towers) write them.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers
from PIL import Image

OUT = pathlib.Path(sys.argv[1])
VISION = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 24, "patch_size": 8}


def photo(width, height, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    a = rng.uniform(2, 9, (3, 3))
    out = np.stack([np.sin(a[c, 0] * x + a[c, 2]) * np.cos(a[c, 1] * y) for c in range(3)], 2)
    return Image.fromarray(((out + 1) * 127).astype(np.uint8))


class Export(torch.nn.Module):
    def __init__(self, model, outputs):
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, pixel_values):
        return tuple(getattr(self.model(pixel_values), n) for n in self.outputs)


def make(name, config, model, outputs, processor, file="model.onnx", vector=lambda o: o[-1]):
    folder = OUT / name
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    m = model(config).eval()
    for n, p in m.named_parameters():  # the same numbers for all images are small, so that the vectors differ
        torch.nn.init.normal_(p, std=0.02 if n.endswith("bias") or "token" in n or "position" in n else 0.4)
    (folder / "config.json").write_text(json.dumps({"model_type": config.model_type.removesuffix("_vision_model")}))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    wrap = Export(m, outputs).eval()
    pixels = torch.zeros(2, 3, 24, 24)
    axes = {"pixel_values": {0: "batch_size", 1: "num_channels", 2: "height", 3: "width"}}
    axes.update({n: {0: "batch_size"} for n in outputs})
    torch.onnx.export(wrap, (pixels,), str(folder / file), input_names=["pixel_values"], output_names=list(outputs), dynamic_axes=axes,
                      opset_version=17, dynamo=False)
    process = transformers.AutoImageProcessor.from_pretrained(folder)
    record = {}
    for image in sorted(OUT.glob("*.png")):
        with torch.no_grad():
            out = wrap(process(Image.open(image).convert("RGB"), return_tensors="pt")["pixel_values"])
        record[image.name] = vector(out).flatten().tolist()
    (folder / "vectors.json").write_text(json.dumps(record))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for i, size in enumerate(((40, 30), (30, 47), (25, 25))):
        photo(*size, i).save(OUT / f"photo{i}.png")
    size = {"size": {"height": 24, "width": 24}}
    make("vit", transformers.ViTConfig(**VISION), lambda c: transformers.ViTModel(c, add_pooling_layer=False), ("last_hidden_state",),
         {"image_processor_type": "ViTImageProcessor", **size}, vector=lambda o: o[0][:, 0])
    make("dinov2", transformers.Dinov2Config(**VISION), transformers.Dinov2Model, ("last_hidden_state", "pooler_output"),
         {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 28}, "crop_size": 24}, file="onnx/model.onnx")
    make("clip", transformers.CLIPVisionConfig(**VISION, projection_dim=12), transformers.CLIPVisionModelWithProjection,
         ("last_hidden_state", "image_embeds"), {"image_processor_type": "CLIPImageProcessor", "size": 24, "crop_size": 24},
         file="onnx/vision_model.onnx")
    make("resnet", transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
         transformers.ResNetModel, ("last_hidden_state", "pooler_output"),
         {"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 40}, "crop_pct": 0.875})


main()
