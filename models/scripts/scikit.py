"""Exports text classifiers of scikit-learn by skl2onnx and records what onnxruntime answers.

    pip install -r requirements.txt scikit-learn==1.9.1 skl2onnx==1.20.0
    python scikit.py ../../testdata/exports

writes OUT/NAME-skl2onnx-15.zip: counts of words weighted by TF-IDF, and of n-grams of characters, before a logistic regression. The texts
that they learn from are made here.
"""

import pathlib
import sys
import tempfile

import numpy as np
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import StringTensorType
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from beyond import pack
from record import record_inputs

SUBJECTS = {"weather": "rain snow wind cloud storm sun warm cold wet dry", "kitchen": "bread salt oven pan soup flour sugar bake stir taste",
            "music": "song drum choir tune string loud piano rhythm band voice"}
rng = np.random.default_rng(0)


def text(words, count):
    return " ".join(rng.choice(words.split(), count))


MODELS = {
    "tfidf": TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=False),
    "char-ngrams": CountVectorizer(analyzer="char", ngram_range=(2, 3), max_features=300),
}


def main():
    out = pathlib.Path(sys.argv[1])
    texts = [(text(words, 6), name) for name, words in SUBJECTS.items() for _ in range(20)]
    runs = [["Rain, snow and wind: a cold storm!"], ["bread salt oven", "", "A LOUD song, a drum.", "nothing known here"], [text(w, 9) for w in SUBJECTS.values()]]
    for name, counts in MODELS.items():
        pipeline = make_pipeline(counts, LogisticRegression())
        pipeline.fit(*zip(*texts))
        model = convert_sklearn(pipeline, name, [("texts", StringTensorType([None]))], target_opset={"": 15, "ai.onnx.ml": 2},
                                options={id(pipeline): {"zipmap": False}, id(counts): {"locale": "C"}})
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "model.onnx").write_bytes(model.SerializeToString())
            record_inputs(folder, [{"texts": np.array(run, object)} for run in runs])
            pack(folder, out / f"{name}-skl2onnx-15.zip")


if __name__ == "__main__":
    main()
