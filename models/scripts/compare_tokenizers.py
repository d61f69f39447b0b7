"""Compares rlxc with Hugging Face's tokenizers: python compare_tokenizers.py RLXC [--files 2000] [--texts 50] [--seed 1] [--keep FOLDER]

It makes random tokenizer.json files of every model and component, and random texts. RLXC (the binary) and tokenizers 0.23.3 encode each
text; ids, offsets in characters and words must be the same. A file that tokenizers refuses, or a text for which it has an error, is not
compared. A file that rlxc alone refuses is counted by its message. The script prints each difference and ends with 1 if there is one.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

LETTERS = ["a", "b", "c", "o", "é", "漢", "字", "न", "ि", "²", "1", "2", "3", ".", ",", "'", "-", "_", "A", "B", "É", "ß", "İ", "ſ", "🤗"]
SPACES = [" ", " ", " ", "  ", "\n", "\t", "\u00a0", "\u3000"]
WORDS = ["ab", "abc", "don't", "I'LL", "x²", "a.b", "é", "e\u0301", "हिन्दी", "漢字", "ﬁ", "Ⅷ", "a\u200db", "<s>", "[MASK]", "<x>", "ab12"]
PATTERNS = [
    r"\w+", r"\w+|[^\w\s]+", r"\s+", r"\b", r"^a", r"b$", r"\d{,2}", r"\p{L}+", r"\pL\pM*", r"[\p{L}&&[^a-c]]+", r"[[:alpha:]]+|[[:punct:]]",
    r"[a-b[é漢]]+", r"(?i)ſ|i", r"(?i:'s|'t|'ll)|\p{N}", r"a++b?", r"[^\s\p{L}]++", r"\h+", r"\R", r"\X", r"\N+", r"\O", r"a\Kb", r"\p{^L}+",
    r"\p{Uppercase_Letter}", r"(?<=a)b", r"(?<!a)b", r"a(?=b)", r"a(?!b)", r"(?>a|ab)c", r"(a)\1", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\s+(?!\S)|\s+",
    r"\p{Han}+", r"[\p{Lu}\p{Lt}\p{M}&&[^\p{Han}]]+", r" ?[^(\s|[.,!?])]+", r"a|b|", r"\B.", r"(?m:.)+", r"(?x: a b # c" + "\n)", r"[\w&&\p{ASCII}]+",
]
FIXED = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
FLAG = [True, False]


def chance(r, p):
    return r.random() < p


def token(r):
    return "".join(r.choice(LETTERS) for _ in range(r.randint(1, 3)))


def text(r):
    out = []
    for _ in range(r.randint(0, 12)):
        out.append(r.choice([r.choice(LETTERS), r.choice(LETTERS), r.choice(SPACES), r.choice(WORDS), token(r)]))
    return "".join(out)


def pattern(r):
    if chance(r, 0.3):
        return {"String": r.choice([" ", "a", "ab", "é", "▁"])}
    return {"Regex": r.choice(PATTERNS + FIXED)}


def pre_tokenizer(r, deep=0):
    kind = r.choice(["Split"] * 5 + ["ByteLevel", "Metaspace", "Whitespace", "WhitespaceSplit", "BertPreTokenizer", "Punctuation", "Digits",
                     "UnicodeScripts", "CharDelimiterSplit", "FixedLength"] + ["Sequence"] * (2 if deep < 2 else 0))
    out = {"type": kind}
    if kind == "Sequence":
        out["pretokenizers"] = [pre_tokenizer(r, deep + 1) for _ in range(r.randint(0, 3))]
    elif kind == "Split":
        out |= {"pattern": pattern(r), "behavior": r.choice(BEHAVIORS), "invert": r.choice(FLAG)}
    elif kind == "ByteLevel":
        out |= {"add_prefix_space": r.choice(FLAG), "trim_offsets": r.choice(FLAG), "use_regex": r.choice(FLAG)}
    elif kind == "Metaspace":
        out |= {"replacement": "▁", "prepend_scheme": r.choice(["always", "first", "never"]), "split": r.choice(FLAG)}
    elif kind == "Punctuation":
        out["behavior"] = r.choice(BEHAVIORS)
    elif kind == "Digits":
        out["individual_digits"] = r.choice(FLAG)
    elif kind == "CharDelimiterSplit":
        out["delimiter"] = r.choice(["a", " ", "é"])
    elif kind == "FixedLength":
        out["length"] = r.randint(1, 4)
    return out


def normalizer(r, deep=0):
    kind = r.choice(["BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Nmt", "ByteLevel", "Prepend"]
                    + ["Replace"] * 3 + ["Sequence"] * (3 if deep < 2 else 0))
    out = {"type": kind}
    if kind == "Sequence":
        out["normalizers"] = [normalizer(r, deep + 1) for _ in range(r.randint(0, 3))]
    elif kind == "BertNormalizer":
        out |= {"clean_text": r.choice(FLAG), "handle_chinese_chars": r.choice(FLAG), "strip_accents": r.choice([None, True, False]),
                "lowercase": r.choice(FLAG)}
    elif kind == "Strip":
        out |= {"strip_left": r.choice(FLAG), "strip_right": r.choice(FLAG)}
    elif kind == "Prepend":
        out["prepend"] = r.choice(["▁", "é", "ab"])
    elif kind == "Replace":
        out |= {"pattern": pattern(r), "content": r.choice(["", "a", "▁", "é ", "xyz"])}
    return out


def affixed(r, words, prefix, suffix):
    out = set()
    for word in sorted(words):
        for p in ["", prefix]:
            for s in ["", suffix]:
                if chance(r, 0.7):
                    out.add(p + word + s)
    return out


def model(r):
    kind = r.choice(["BPE", "BPE", "BPE", "Unigram", "WordPiece", "WordLevel"])
    alphabet = r.sample(LETTERS, r.randint(4, len(LETTERS)))
    if kind == "BPE" and chance(r, 0.3):  # bytes, as ByteLevel writes them
        alphabet = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256)]] + [chr(c) for c in range(256, 324)]
        alphabet = r.sample(alphabet, r.randint(150, len(alphabet)))
    words = set(alphabet) | {"".join(r.choice(alphabet) for _ in range(r.randint(2, 3))) for _ in range(20)}
    if chance(r, 0.5):
        words |= {"▁", "▁a"}
    bytes_ = [f"<0x{b:02X}>" for b in range(256) if not chance(r, 0.02)] if chance(r, 0.4) else []
    if kind == "Unigram":
        pieces = ["<unk>", *sorted(words), *bytes_]
        out = {"type": kind, "unk_id": 0 if chance(r, 0.9) else None, "byte_fallback": r.choice(FLAG),
               "vocab": [[p, -round(r.uniform(0.5, 12), 3)] for p in pieces]}
        return out, pieces
    prefix = r.choice(["", "", "##", "é"]) if kind == "BPE" else "##"
    suffix = r.choice(["", "", "</w>", "é"]) if kind == "BPE" else ""
    vocab = sorted(affixed(r, words, prefix, suffix) | words) + bytes_
    if chance(r, 0.9) or kind != "BPE":
        vocab.append("[UNK]")
    vocab = list(dict.fromkeys(vocab))
    out = {"type": kind, "vocab": {t: i for i, t in enumerate(vocab)}}
    if kind == "BPE":
        merges, known = [], set(vocab)
        for _ in range(200):
            a, b = r.choice(vocab), r.choice(vocab)
            joined = a + (b[len(prefix):] if prefix and b.startswith(prefix) else b)
            if prefix and not b.startswith(prefix) or suffix and a.endswith(suffix) or "[" in joined:
                continue
            if joined not in known and len(known) < 900:
                known.add(joined)
                out["vocab"][joined] = len(out["vocab"])
                vocab.append(joined)
            if joined in known and [a, b] not in merges:
                merges.append([a, b])
        out |= {"merges": merges, "dropout": None, "unk_token": "[UNK]" if "[UNK]" in known and chance(r, 0.7) else None,
                "continuing_subword_prefix": prefix or None, "end_of_word_suffix": suffix or None, "fuse_unk": r.choice(FLAG),
                "byte_fallback": r.choice(FLAG), "ignore_merges": chance(r, 0.2)}
    elif kind == "WordPiece":
        out |= {"unk_token": "[UNK]", "continuing_subword_prefix": prefix, "max_input_chars_per_word": r.choice([100, 3])}
    else:
        out["unk_token"] = "[UNK]"
    return out, vocab


def tokenizer(r):
    m, vocab = model(r)
    added, size = [], len(vocab)
    for content in r.sample(["<s>", "[MASK]", "<x>", "ab", "é"], r.randint(0, 3)):
        known = vocab.index(content) if content in vocab else None
        added.append({"id": size if known is None else known, "content": content, "single_word": r.choice(FLAG), "lstrip": r.choice(FLAG),
                      "rstrip": r.choice(FLAG), "normalized": r.choice(FLAG), "special": r.choice(FLAG)})
        size += known is None
    added.sort(key=lambda a: a["id"])
    out = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": None,
           "post_processor": None, "decoder": None, "model": m}
    if chance(r, 0.5):
        out["normalizer"] = normalizer(r)
    if chance(r, 0.7):
        out["pre_tokenizer"] = pre_tokenizer(r)
    if chance(r, 0.3):
        out["post_processor"] = {"type": "ByteLevel", "add_prefix_space": r.choice(FLAG), "trim_offsets": r.choice(FLAG), "use_regex": True}
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("rlxc")
    p.add_argument("--files", type=int, default=2000)
    p.add_argument("--texts", type=int, default=50)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep", help="folder for the files that differ")
    o = p.parse_args()
    differing, refused, compared, errors = 0, collections.Counter(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path, lines = os.path.join(folder, "tokenizer.json"), os.path.join(folder, "texts.jsonl")
        for seed in range(o.seed, o.seed + o.files):
            r = random.Random(seed)
            file, texts = json.dumps(tokenizer(r)), [text(r) for _ in range(o.texts)]
            try:
                reference = Tokenizer.from_str(file)
            except BaseException as e:  # a panic of Rust is no Exception
                refused["by tokenizers: " + str(e)[:60]] += 1
                continue
            normalizer = reference.normalizer
            forms = [normalizer.normalize_str(a["content"]) if normalizer and a["normalized"] else a["content"]
                     for a in json.loads(file)["added_tokens"]]
            if len(set(forms)) < len(forms) or "" in forms:
                refused["by this script: tokenizers leaves to chance which of two added tokens it finds that are the same text"] += 1
                continue
            want = []
            for t in texts:
                try:
                    e = reference.encode(t)
                    want.append((t, e.ids, [list(x) for x in e.offsets], [-1 if w is None else w for w in e.word_ids]))
                except BaseException:
                    errors += 1
            with open(path, "w", encoding="utf-8") as f:
                f.write(file)
            with open(lines, "w", encoding="utf-8") as f:
                f.writelines(json.dumps({"text": t}) + "\n" for t, *_ in want)
            if not want:
                continue
            run = subprocess.run([o.rlxc, "tokenize", path, "--json", "--input", lines], capture_output=True, text=True)
            rows = [json.loads(line) for line in run.stdout.split("\n") if line]
            problem = None
            if run.returncode and not rows and "panic" not in run.stderr:
                refused["by rlxc: " + run.stderr.strip().replace(path, "")[:160]] += 1
                continue
            if run.returncode:
                problem = run.stderr[:600]
            for row, (t, ids, offsets, words) in zip(rows, want):
                compared += 1
                got = row.get("ids", []), row.get("char_offsets", [])
                if got != (ids, offsets):
                    problem = f"{t!r}: {got} want {(ids, offsets)}"
                    break
            if problem:
                differing += 1
                print(f"seed {seed}: {problem}", flush=True)
                if o.keep:
                    with open(os.path.join(o.keep, f"{seed}.json"), "w", encoding="utf-8") as f:
                        f.write(file)
    for why, n in refused.most_common():
        print(f"{n} files refused {why}")
    print(f"{compared} texts compared, {errors} errors of tokenizers, {differing} of {o.files} files differ")
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
