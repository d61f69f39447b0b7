"""Compares the speed of package tokenizer with Python's tokenizers, one thread each: python bench_tokenizers.py FOLDER [FAMILY...]

FOLDER is what record_tokenizers.py wrote. Run in the repository's root. The columns are words per text, microseconds per text in Python
(encode, which finds offsets; encode_batch_fast, which does not) and in Go (with Spans and without), and how many times as fast Go is. Times
are of the processor; the two take turns, and the least of each counts.
"""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import json
import random
import resource
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


TURNS = 7


def python_time(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def cpu(binary, work, mode, rounds):
    """The processor time of so many rounds of the benchmark, and of starting it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([binary, "-test.run", "^$", "-test.bench", f"^BenchmarkTexts$/^{mode}$", "-test.benchtime", f"{rounds}x"], cwd="tokenizer",
                   env=os.environ | {"RLXC_TOKENIZER_BENCH": work, "GOMAXPROCS": "1"}, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
                slow, fast = (lambda: [tokenizer.encode(t) for t in list_]), (lambda: [tokenizer.encode_batch_fast([t]) for t in list_])
                slow(), fast()
                repeats = max(1, int(0.03 / python_time(slow)))
                rounds = 8 * repeats + 1
                times = {"slow": [], "fast": [], "spans": [], "ids": [], "nothing": []}
                for _ in range(TURNS):
                    times["slow"].append(python_time(lambda: [slow() for _ in range(repeats)]) / repeats)
                    times["fast"].append(python_time(lambda: [fast() for _ in range(repeats)]) / repeats)
                    times["nothing"].append(cpu(binary, work, "ids", 1))
                    for mode in ("spans", "ids"):
                        times[mode].append(cpu(binary, work, mode, rounds))
                python, fast = (min(times[k]) / len(list_) * 1e6 for k in ("slow", "fast"))
                go = {mode: (min(times[mode]) - min(times["nothing"])) / (rounds - 1) / len(list_) * 1e6 for mode in ("spans", "ids")}
                print(f"{name:14}{n:6}{python:9.1f}{fast:9.1f}{go['spans']:9.1f}{go['ids']:9.1f}{python / go['spans']:7.1f}{fast / go['ids']:7.1f}", flush=True)


if __name__ == "__main__":
    main()
