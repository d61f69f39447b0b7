"""Compares the speed of package tokenizer with Python's tokenizers, one thread each: python bench_tokenizers.py FOLDER [FAMILY...]

FOLDER is what record_tokenizers.py wrote. Run in the repository's root. The columns are words per text, microseconds per text in Python
(encode, which finds offsets; encode_batch_fast, which does not) and in Go (with Spans and without), and how many times as fast Go is. Times
are of the processor; the two take turns, and the least of each counts.
"""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import json
import random
import subprocess
import sys
import tempfile
import time

import zstandard
from tokenizers import Tokenizer

FAMILIES = ["bert-uncased", "roberta", "modernbert", "llama3", "xlm-roberta", "deberta-v3", "t5", "llama2", "gemma"]
SIZES = [10, 100, 1000, 10000]


def unpack(path):
    return zstandard.ZstdDecompressor().decompress(open(path, "rb").read())


def texts(folder):
    words = [w for case in json.loads(unpack(os.path.join(folder, "cases.json.zst"))) for w in case[0].split() if w.isascii() and len(w) < 20]
    r = random.Random(4)
    return {n: [" ".join(r.choices(words, k=n)) for _ in range(max(1, 200 // n))] for n in SIZES}


TURNS = 9
SECONDS = 0.06  # of a turn


def python_time(run, rounds):
    start = time.process_time()
    for _ in range(rounds):
        run()
    return (time.process_time() - start) / rounds


class Go:
    """The Go side of the benchmark, which waits for its turns."""

    def __init__(self, binary, work):
        self.process = subprocess.Popen([binary, "-test.run", "^$", "-test.bench", "^BenchmarkTexts$", "-test.benchtime", "1x"], cwd="tokenizer", text=True,
                                        env=os.environ | {"RLXC_TOKENIZER_BENCH": work, "GOMAXPROCS": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def time(self, mode, rounds):
        self.process.stdin.write(f"{mode} {rounds}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if "seconds " in line:
                return float(line.split("seconds ")[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    folder = sys.argv[1]
    lists = texts(folder)
    with tempfile.TemporaryDirectory() as work:
        binary = os.path.join(work, "bench")
        subprocess.run(["go", "test", "-c", "-o", binary, "./tokenizer"], check=True)
        print(f"{'':14}{'words':>6}{'Python':>9}{'fast':>9}{'Go':>9}{'ids':>9}{'ratio':>7}{'ids':>7}")
        for name in sys.argv[2:] or FAMILIES:
            file = os.path.join(work, "tokenizer.json")
            with open(file, "wb") as f:
                f.write(unpack(os.path.join(folder, name + ".json.zst")))
            tokenizer = Tokenizer.from_file(file)
            for n, list_ in lists.items():
                with open(os.path.join(work, "texts.json"), "w") as f:
                    json.dump(list_, f)
                go = Go(binary, work)
                sides = {
                    "python": lambda rounds: python_time(lambda: [tokenizer.encode(t) for t in list_], rounds),
                    "fast": lambda rounds: python_time(lambda: [tokenizer.encode_batch_fast([t]) for t in list_], rounds),
                    "spans": lambda rounds: go.time("spans", rounds),
                    "ids": lambda rounds: go.time("ids", rounds),
                }
                rounds = {side: 1 + int(SECONDS / max(1e-5, run(2))) for side, run in sides.items()}
                turns = [{side: run(rounds[side]) for side, run in sides.items()} for _ in range(TURNS)]
                go.close()
                python, fast, spans, ids = (min(turn[side] for turn in turns) / len(list_) * 1e6 for side in sides)
                print(f"{name:14}{n:6}{python:9.1f}{fast:9.1f}{spans:9.1f}{ids:9.1f}{python / spans:7.1f}{fast / ids:7.1f}", flush=True)


if __name__ == "__main__":
    main()
