"""Images in every form and what transformers makes of them, for the tests of internal/imaging.

    python images.py FOLDER          60 images up to 6,000 x 4,000 pixels, for go test ./internal/imaging -images FOLDER
    python images.py --small FILE    the same forms, small, as internal/imaging/testdata/images.zip.gz

It needs transformers, torch, torchvision and Pillow before 13. Pillow 13 resizes the rows of some images first; torchvision and all
earlier versions of Pillow begin with the columns.
"""

import gzip
import io
import json
import os
import struct
import sys
import zipfile
import zlib

import numpy as np
import PIL
import torch
import transformers
from PIL import Image, ImageOps
from transformers import AutoImageProcessor

SMALL = sys.argv[1] == "--small"
OUT = sys.argv[-1]


def photo(width, height, seed, channels=3, top=255):
    """Smooth gradients, hard edges of saturated colours, and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    out = np.zeros((height, width, channels), np.float32)
    for c in range(channels):
        a, b, p = rng.uniform(0.5, 6, 2).tolist() + [rng.uniform(0, 6)]
        out[..., c] = 0.5 + 0.35 * np.sin(a * x / max(width, 8) * 6 + p) * np.cos(b * y / max(height, 8) * 6)
    for _ in range(6):
        left, up = rng.integers(0, width), rng.integers(0, height)
        out[up : up + height // 4 + 1, left : left + width // 4 + 1] = rng.integers(0, 2, channels)
    out += rng.normal(0, 0 if SMALL else 0.02, out.shape)
    return np.clip(out * top, 0, top).astype(np.uint16 if top > 255 else np.uint8)


def save(image, kind, **options):
    b = io.BytesIO()
    image.save(b, kind, **options)
    return b.getvalue()


def png(width, height, depth, color, rows, chunks=(), interlace=False):
    """A PNG that Pillow cannot write. rows has the bytes of each row."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace))
    for name, data in chunks:
        out += chunk(name, data)
    return out + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r for r in rows))) + chunk(b"IEND", b"")


def turned(orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    return exif


def upright(data):
    """Reads an image like load_image of transformers. It forgets a transparent colour, which convert leaves in an image of three
    channels: some processors would replace the colour by white."""
    rgb = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    rgb.info.pop("transparency", None)
    return rgb


def images():
    """Yields (name, bytes)."""
    w, h = (19, 13) if SMALL else (1201, 799)
    rgb = Image.fromarray(photo(w, h, 1))
    grey = Image.fromarray(photo(w, h, 2, 1)[..., 0])
    alpha = Image.fromarray(photo(w, h, 3, 4))
    cmyk = Image.fromarray(photo(w, h, 4, 4), "CMYK")
    palette = rgb.quantize(64)
    # JPEG
    for sub in ("4:4:4", "4:2:2", "4:2:0"):
        yield f"jpeg-{sub.replace(':', '')}.jpg", save(rgb, "JPEG", quality=92, subsampling=sub)
    # Swapping the axes of a 4:2:2 image in the frame's header makes it 4:4:0: its blocks are read in another order, to other pixels.
    yield "jpeg-440.jpg", save(Image.fromarray(photo(16, 16, 9)), "JPEG", subsampling="4:2:2").replace(b"\x21\0\x02\x11", b"\x12\0\x02\x11")
    yield "jpeg-q30.jpg", save(rgb, "JPEG", quality=30)
    yield "jpeg-progressive.jpg", save(rgb, "JPEG", quality=85, progressive=True)
    yield "jpeg-restart.jpg", save(rgb, "JPEG", quality=85, restart_marker_blocks=3)
    yield "jpeg-grey.jpg", save(grey, "JPEG", quality=90)
    yield "jpeg-rgb.jpg", save(rgb, "JPEG", quality=90, keep_rgb=True)
    yield "jpeg-cmyk.jpg", save(cmyk, "JPEG", quality=90)
    ycck = save(cmyk, "JPEG", quality=90, subsampling="4:4:4")
    at = ycck.index(b"Adobe")
    yield "jpeg-ycck.jpg", ycck[: at + 11] + b"\x02" + ycck[at + 12 :]
    for o in range(1, 9):
        yield f"jpeg-turned{o}.jpg", save(rgb, "JPEG", quality=90, exif=turned(o))
    for a, b in ((1, 1), (2, 2), (3, 5), (5, 3), (17, 31), (1, 40), (40, 1), (16, 16)):
        yield f"jpeg-{a}x{b}.jpg", save(Image.fromarray(photo(a, b, a * b)), "JPEG", quality=90)
    # Cosines have no part in blocks of one colour, so all decoders agree on them, and chroma is compared in every byte.
    rng = np.random.default_rng(5)
    blocks = np.kron(rng.integers(0, 256, (2, 3, 4)), np.ones((16, 16, 1))).astype(np.uint8)
    for sub in ("4:2:2", "4:2:0"):
        yield f"blocks-{sub.replace(':', '')}.jpg", save(Image.fromarray(blocks[..., :3].copy()), "JPEG", quality=100, subsampling=sub)
    stripes = np.kron(rng.integers(0, 256, (4, 1, 3)), np.ones((8, 16, 1))).astype(np.uint8)
    wide = save(Image.fromarray(stripes), "JPEG", quality=100, subsampling="4:2:2")
    yield "blocks-440.jpg", wide.replace(b"\x21\0\x02\x11", b"\x12\0\x02\x11")
    yield "blocks-cmyk.jpg", save(Image.fromarray(blocks, "CMYK"), "JPEG", quality=100)
    # PNG
    yield "png-rgb.png", save(rgb, "PNG")
    yield "png-alpha.png", save(alpha, "PNG")
    yield "png-grey.png", save(grey, "PNG")
    yield "png-grey-alpha.png", save(alpha.convert("LA"), "PNG")
    yield "png-bilevel.png", save(grey.convert("1"), "PNG")
    yield "png-palette.png", save(palette, "PNG")
    yield "png-palette-transparent.png", save(palette, "PNG", transparency=3)
    yield "png-palette-4bit.png", save(rgb.quantize(16), "PNG", bits=4)
    yield "png-rgb-transparent.png", save(rgb, "PNG", transparency=(255, 0, 0))
    deep = photo(w, h, 5, 3, 65535)
    yield "png-grey16.png", save(Image.fromarray(photo(w, h, 6, 1, 700)[..., 0]), "PNG")
    yield "png-rgb16.png", png(w, h, 16, 2, [r.astype(">u2").tobytes() for r in deep])
    yield "png-grey-alpha16.png", png(w, h, 16, 4, [r[:, :2].astype(">u2").tobytes() for r in deep])
    grey2 = np.packbits(np.unpackbits((np.asarray(grey) >> 6)[..., None], axis=2)[..., 6:].reshape(h, -1), axis=1)
    yield "png-grey2.png", png(w, h, 2, 0, [r.tobytes() for r in grey2])
    yield "png-turned.png", save(rgb, "PNG", exif=turned(8))
    # GIF
    yield "gif.gif", save(palette, "GIF")
    yield "gif-transparent.gif", save(palette, "GIF", transparency=5)
    frames = [Image.fromarray(photo(w, h, s)).quantize(32) for s in (7, 8)]
    yield "gif-animated.gif", save(frames[0], "GIF", save_all=True, append_images=frames[1:])
    part = save(palette, "GIF")
    yield "gif-part.gif", part[:6] + struct.pack("<HH", w + 5, h + 3) + part[10:]
    # WebP
    yield "webp.webp", save(rgb, "WEBP", quality=85)
    yield "webp-even.webp", save(rgb.resize((w // 2 * 2, h // 2 * 2)), "WEBP", quality=60)
    yield "webp-lossless.webp", save(rgb, "WEBP", lossless=True)
    yield "webp-alpha.webp", save(alpha, "WEBP", quality=85)
    yield "webp-turned.webp", save(rgb, "WEBP", quality=85, exif=turned(6))
    yield "webp-1x1.webp", save(Image.fromarray(photo(1, 1, 3)), "WEBP")
    part = save(palette, "GIF", transparency=5)
    yield "gif-part-transparent.gif", part[:6] + struct.pack("<HH", w + 5, h + 3) + part[10:]
    # BMP, TIFF
    yield "bmp-rgb.bmp", save(rgb, "BMP")
    yield "bmp-palette.bmp", save(palette, "BMP")
    yield "tiff.tif", save(rgb, "TIFF")
    yield "tiff-lzw.tif", save(rgb, "TIFF", compression="tiff_lzw")
    yield "tiff-deflate.tif", save(alpha, "TIFF", compression="tiff_adobe_deflate")
    yield "tiff-grey16.tif", save(Image.fromarray(photo(w, h, 6, 1, 700)[..., 0]), "TIFF")
    yield "tiff-turned.tif", save(rgb, "TIFF", exif=turned(6))
    if not SMALL:
        yield "jpeg-large.jpg", save(Image.fromarray(photo(6000, 4000, 11)), "JPEG", quality=88)
        yield "png-tall.png", save(Image.fromarray(photo(300, 5000, 12)), "PNG")


def processors():
    """Yields (name, settings). The small ones have a size of a few pixels."""
    n = 8 if SMALL else None

    def sized(kind, big, small=None, **more):
        settings = {"image_processor_type": kind + "ImageProcessor", **more}
        settings.update((small or {"size": n}) if SMALL else big)
        return settings

    crop = {"size": {"shortest_edge": 11}, "crop_size": n}
    edges = {"size": {"shortest_edge": 10, "longest_edge": 15}}
    yield "clip", sized("CLIP", {"size": 224, "crop_size": 224}, crop)
    yield "siglip", sized("Siglip", {"size": {"height": 384, "width": 384}, "resample": 3}, {"size": {"height": 9, "width": 8}})
    yield "vit", sized("ViT", {"size": 224})
    yield "deit", sized("DeiT", {}, {"size": 12, "crop_size": 9})
    yield "beit", sized("Beit", {"resample": 2})
    yield "convnext", sized("ConvNext", {"size": {"shortest_edge": 224}}, {"size": {"shortest_edge": 8}})
    yield "dinov2", sized("Bit", {"size": {"shortest_edge": 256}, "image_mean": [0.485, 0.456, 0.406]}, crop)
    yield "dinov3", sized("DINOv3ViT", {})
    yield "detr", sized("Detr", {}, edges)
    yield "rtdetr", sized("RTDetr", {}, {"size": {"height": 8, "width": 12}})
    yield "yolos", sized("Yolos", {"size": {"shortest_edge": 512, "longest_edge": 864}}, {"size": {"shortest_edge": 16, "longest_edge": 34}})
    yield "efficientnet", sized("EfficientNet", {"rescale_offset": True, "rescale_factor": 1 / 127.5, "resample": 0},
                                {"size": n, "resample": 0, "rescale_offset": True, "rescale_factor": 1 / 127.5})
    yield "mobilenet", sized("MobileNetV2", {}, crop)
    yield "mask2former", sized("Mask2Former", {"size": {"shortest_edge": 384, "longest_edge": 700}}, {**edges, "size_divisor": 4})
    yield "mobilevit", sized("MobileViT", {}, crop)
    yield "levit", sized("Levit", {}, {"size": {"shortest_edge": 8}, "crop_size": 8})
    yield "poolformer", sized("PoolFormer", {"resample": 1}, {"size": 8, "crop_size": 8, "resample": 1})
    yield "segformer", sized("Segformer", {"resample": 3, "do_normalize": False}, {"size": n, "resample": 3, "do_normalize": False})
    yield "padded", sized("CLIP", {"size": {"max_height": 300, "max_width": 300}, "do_center_crop": False, "do_pad": True,
                                   "pad_size": 301}, {"size": {"max_height": 9, "max_width": 9}, "do_center_crop": False,
                                                      "do_pad": True, "pad_size": 10})
    yield "crop", sized("ViT", {"do_resize": False, "do_center_crop": True, "crop_size": {"height": 401, "width": 300}},
                        {"do_resize": False, "do_center_crop": True, "crop_size": {"height": 8, "width": 26}})


def main():
    print(f"transformers {transformers.__version__}, Pillow {PIL.__version__}", file=sys.stderr)
    if SMALL:
        # The files of an archive are compressed together, because each is small and many are alike.
        packed = io.BytesIO()
        archive = zipfile.ZipFile(packed, "w")

        def write(name, data):
            archive.writestr(zipfile.ZipInfo(name), data)
    else:

        def write(name, data):
            path = os.path.join(OUT, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(data)

    files = list(images())
    for name, data in files:
        rgb = upright(data)
        write(f"images/{name}", data)
        write(f"pixels/{name}", struct.pack("<II", rgb.width, rgb.height) + np.asarray(rgb).tobytes())
    source = Image.fromarray(photo(*((15, 11) if SMALL else (640, 427)), 20))
    write("resize/source", struct.pack("<II", *source.size) + np.asarray(source).tobytes())
    for width, height in ((7, 8), (26, 5), (21, 15), (15, 5), (3, 11)) if SMALL else ((224, 224), (900, 224), (1000, 900), (640, 100), (224, 427)):
        for filter in range(6):
            write(f"resize/{filter}/{width}x{height}", struct.pack("<II", width, height) + np.asarray(source.resize((width, height), filter)).tobytes())
    # A processor sees every image of the large set, and of the small one those whose sizes differ.
    seen = [f for f in files if not SMALL or f[0].split(".")[0] in ("jpeg-17x31", "png-rgb", "jpeg-3x5", "jpeg-40x1")]
    for name, settings in processors():
        folder = f"processors/{name}"
        write(f"{folder}/preprocessor_config.json", json.dumps(settings).encode())
        scratch = os.path.join("/tmp", f"images-{os.getpid()}")
        os.makedirs(scratch, exist_ok=True)
        with open(f"{scratch}/preprocessor_config.json", "w") as f:
            json.dump(settings, f)
        # A crop that is larger than the image by an odd number puts the odd pixel elsewhere in the Pillow variants.
        for backend in ("torchvision",) if SMALL or name == "crop" else ("torchvision", "pil"):
            processor = AutoImageProcessor.from_pretrained(scratch, backend=backend)
            for file, data in seen:
                rgb = upright(data)
                try:
                    values = processor(rgb, return_tensors="pt")["pixel_values"][0].to(torch.float32)
                except Exception as e:
                    print(f"{name} {backend} {file}: {type(e).__name__}: {str(e)[:100]}", file=sys.stderr)
                    continue
                head = struct.pack("<II", values.shape[2], values.shape[1])
                write(f"{folder}/{backend}/{file}", head + values.numpy().astype("<f4").tobytes())
    if SMALL:
        archive.close()
        with open(OUT, "wb") as f:
            f.write(gzip.compress(packed.getvalue(), 9, mtime=0))


main()
