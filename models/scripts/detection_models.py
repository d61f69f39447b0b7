"""Makes small detection models with random weights, and records what transformers' pipeline and ultralytics find in images:

    python detection_models.py ../../pipeline/testdata/images

Its packages: torch, torchvision, transformers, onnx, pillow<13, ultralytics. detr, yolos, deformable and rtdetr are folders as optimum
writes them. The other four are modules of our own whose inputs, outputs and metadata are those of YOLO exports.
"""

import json
import pathlib
import sys

import numpy as np
import onnx
import torch
import transformers
from PIL import Image
from ultralytics.data.augment import LetterBox
from ultralytics.utils.nms import non_max_suppression
from ultralytics.utils.ops import scale_boxes

OUT = pathlib.Path(sys.argv[1])
LABELS = {0: "cat", 1: "dog's bed", 2: "bird"}
EDGE, STRIDE = 40, 8  # of the images that YOLO models take: one of the photos is not scaled


def export(wrap, inputs, outputs, file, axes):
    torch.onnx.export(wrap, inputs, str(file), input_names=list(axes)[: len(inputs)], output_names=outputs, dynamic_axes=axes,
                      opset_version=17, dynamo=False)
    model, short = onnx.load(file), {}
    kept = {v.name for v in [*model.graph.input, *model.graph.output]} | {""}
    named = lambda name: name if name in kept else short.setdefault(name, str(len(short)))
    for node in model.graph.node:  # long names are half of a small file
        node.name = ""
        node.input[:], node.output[:] = map(named, node.input), map(named, node.output)
    for weight in model.graph.initializer:
        weight.name = named(weight.name)
    onnx.save(model, file)


def record(folder, find):
    found = {}
    for image in sorted(OUT.glob("*.png")):
        found[image.name] = find(Image.open(image).convert("RGB"))
        print(folder.name, image.name, len(found[image.name]), [round(d["score"], 3) for d in found[image.name]][:4])
    (folder / "boxes.json").write_text(json.dumps(found))


def randomize(model, std):
    """Draws weights so that boxes differ, and some scores are high."""
    torch.manual_seed(1)
    for name, p in model.named_parameters():
        scale = 0.1 if name.endswith("bias") else 5 if "query" in name or "tokens" in name else 2 if "class" in name else 1
        torch.nn.init.normal_(p, mean=float("norm" in name and name.endswith("weight")), std=std * scale)
    return model.eval()


class Outputs(torch.nn.Module):
    def __init__(self, model, mask):
        super().__init__()
        self.model, self.mask = model, mask

    def forward(self, pixel_values, pixel_mask=None):
        out = self.model(pixel_values, pixel_mask) if self.mask else self.model(pixel_values)
        return out.logits, out.pred_boxes


def make(name, model, processor, std=0.3, mask=None, threshold=0.5):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    config = model.config
    randomize(model, std)
    settings = {"model_type": config.model_type, "id2label": {str(i): label for i, label in LABELS.items()}}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    axes = {"pixel_values": {0: "batch_size", 1: "num_channels", 2: "height", 3: "width"}}
    pixels = (torch.zeros(2, 3, 64, 64),)
    if mask is not None:
        axes["pixel_mask"] = {0: "batch_size", **mask}
        pixels += (torch.ones(2, 64, 64, dtype=torch.int64),)
    axes.update({n: {0: "batch_size"} for n in ("logits", "pred_boxes")})
    export(Outputs(model, mask is not None).eval(), pixels, ["logits", "pred_boxes"], folder / "model.onnx", axes)
    config.id2label = LABELS
    pipe = transformers.pipeline("object-detection", model=model, image_processor=transformers.AutoImageProcessor.from_pretrained(folder))
    pipe._get_bounding_box = lambda box: box.tolist()  # numbers that are not rounded down
    record(folder, lambda image: pipe(image, threshold=threshold))


RESNET = {"embedding_size": 4, "hidden_sizes": [4, 8, 8, 8], "depths": [1, 1, 1, 1], "layer_type": "basic"}
SMALL = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
         "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "num_queries": 12, "num_labels": 3}


class Yolo(torch.nn.Module):
    """A grid of boxes, one for each 8 × 8 pixels, in one of the forms of YOLO exports."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        extra = 5 if form == "yolov5" else 4
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.SiLU(), torch.nn.Conv2d(8, 8, 3, 2, 1), torch.nn.SiLU(),
                                          torch.nn.Conv2d(8, extra + len(LABELS), 3, 2, 1))

    def forward(self, images):
        x = self.layers(images)
        rows, columns = x.shape[2], x.shape[3]
        y, x0 = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        x = x.flatten(2)
        grid = torch.stack([x0.flatten(), y.flatten()]).float()
        center = (x[:, :2].sigmoid() * 2 - 0.5 + grid) * 8
        size = ((x[:, 2:4] * 0.2).sigmoid() * 2) ** 2 * 12
        scores = (x[:, 4:] * 0.12 + (0.5 if self.form == "yolov5" else -1)).sigmoid()
        raw = torch.cat([center, size, scores], 1)
        if self.form == "yolov8":
            return raw
        if self.form == "yolov5":
            return raw.transpose(1, 2)
        best, label = scores.max(1)
        best, at = best.topk(20, dim=1)
        label = label.gather(1, at)
        corners = torch.cat([center - size / 2, center + size / 2], 1).transpose(1, 2)
        corners = corners.gather(1, at.unsqueeze(-1).repeat(1, 1, 4))
        if self.form == "yolov10":
            return torch.cat([corners, best.unsqueeze(-1), label.unsqueeze(-1).float()], 2)
        return (best > 0.25).sum(1, keepdim=True).int(), corners, best, label.int()


def yolo(form, metadata, outputs=("output0",), iou=0.7):
    folder = OUT / form
    folder.mkdir(parents=True, exist_ok=True)
    model = randomize(Yolo(form), 0.6)
    dynamic = {0: "batch", 2: "height", 3: "width"} if form == "yolov8" else {}
    axes = {"images": dynamic, **{n: {0: "batch"} if dynamic else {} for n in outputs}}
    export(model, (torch.zeros(1, 3, EDGE, EDGE),), list(outputs), folder / "model.onnx", axes)
    stored = onnx.load(folder / "model.onnx")
    for key, value in metadata.items():
        stored.metadata_props.add(key=key, value=str(value))
    onnx.save(stored, folder / "model.onnx")

    def find(image):
        letterbox = LetterBox((EDGE, EDGE), auto=form == "yolov8", stride=STRIDE)
        pixels = letterbox(image=np.asarray(image))
        with torch.no_grad():
            out = model(torch.from_numpy(pixels.transpose(2, 0, 1)[None].astype(np.float32) / 255))
        if form == "end2end":
            n, corners, scores, labels = out
            out = torch.cat([corners, scores.unsqueeze(-1), labels.unsqueeze(-1).float()], 2)[:, : n[0]]
        if form == "yolov5":  # the score of a class is multiplied by that of the box
            out = torch.cat([out[..., :4], out[..., 5:] * out[..., 4:5]], 2).transpose(1, 2)
        kept = non_max_suppression(out, 0.25, iou)[0]
        boxes = scale_boxes(pixels.shape[:2], kept[:, :4].clone(), (image.height, image.width))
        name = (lambda c: f"LABEL_{c}") if form == "end2end" else LABELS.get
        return [{"label": name(int(r[5])), "score": float(r[4]), "box": b.tolist()} for r, b in zip(kept, boxes)]

    record(folder, find)


def main():
    resnet = transformers.ResNetConfig(**RESNET, out_features=["stage4"])
    size = {"size": {"shortest_edge": 40, "longest_edge": 64}}
    detr = transformers.DetrConfig(backbone_config=resnet, use_timm_backbone=False, use_pretrained_backbone=False, **SMALL)
    padded = {"pad_size": {"height": 96, "width": 96}}  # so that pixel_mask hides a third of the features
    make("detr", transformers.DetrForObjectDetection(detr), {"image_processor_type": "DetrImageProcessor", **size, **padded}, mask={})
    yolos = transformers.YolosConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, image_size=[32, 48],
                                     patch_size=8, num_detection_tokens=10, num_labels=3)
    make("yolos", transformers.YolosForObjectDetection(yolos), {"image_processor_type": "YolosImageProcessor", **size}, std=0.18)
    many = {**SMALL, "num_queries": 60}  # 180 scores, of which 100 count
    conditional = transformers.ConditionalDetrConfig(backbone_config=resnet, use_timm_backbone=False, use_pretrained_backbone=False, **many)
    make("conditional", transformers.ConditionalDetrForObjectDetection(conditional),
         {"image_processor_type": "ConditionalDetrImageProcessor", **size}, mask={1: "mask_height", 2: "mask_width"})
    rtdetr = transformers.RTDetrConfig(
        backbone_config=transformers.RTDetrResNetConfig(**RESNET, out_features=["stage2", "stage3", "stage4"]), encoder_hidden_dim=16,
        encoder_in_channels=[8, 8, 8], encoder_ffn_dim=16, encoder_attention_heads=2, d_model=16, decoder_in_channels=[16, 16, 16],
        num_queries=10, decoder_layers=1, decoder_ffn_dim=16, decoder_attention_heads=2, decoder_n_points=2, num_labels=3,
        hidden_expansion=0.25, use_pretrained_backbone=False, anchor_image_size=[64, 64])
    make("rtdetr", transformers.RTDetrForObjectDetection(rtdetr),
         {"image_processor_type": "RTDetrImageProcessor", "size": {"height": 64, "width": 64}})
    common = {"description": "made by a script", "stride": STRIDE, "task": "detect", "batch": 1, "imgsz": [EDGE, EDGE], "names": LABELS}
    yolo("yolov8", {**common, "args": {"batch": 1, "dynamic": True, "nms": False}, "end2end": False})
    yolo("yolov10", {**common, "end2end": True})
    yolo("yolov5", {"stride": STRIDE, "names": LABELS}, iou=0.45)
    yolo("end2end", {}, ("num_dets", "det_boxes", "det_scores", "det_classes"))


main()
