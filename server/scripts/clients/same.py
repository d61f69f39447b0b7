"""Compares an answer of /v1/embeddings on the standard input with the first vector of a file."""
import json
import math
import sys


def read(file):
    return [json.loads(line)["embedding"] for line in open(file)]


def same(want, got, what):
    assert len(want) == len(got), f"{what}: {len(got)} vectors instead of {len(want)}"
    for w, g in zip(want, got):
        assert len(w) == len(g), f"{what}: {len(g)} numbers instead of {len(w)}"
        worst = max(abs(a - b) for a, b in zip(w, g))
        assert worst < 1e-5 and not math.isnan(worst), f"{what}: a difference of {worst}"
    print("ok", what)


if __name__ == "__main__":
    answer = json.load(sys.stdin)
    same(read(sys.argv[1])[:1], [answer["data"][0]["embedding"]], sys.argv[2])
