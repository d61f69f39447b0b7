"""Writes components.json: components that models seldom have, each in the place of tokenizer.json's, and what Hugging Face tokenizers
makes of texts.

Run in this folder: python components.py (needs `pip install tokenizers==0.23.3`).
"""

import json

from tokenizers import Tokenizer

with open("tokenizer.json", encoding="utf-8") as f:
    BASE = json.load(f)
BASE["truncation"] = BASE["padding"] = None
BASE["post_processor"] = None

TEXTS = ["Hello World, hello  world! 12 34x", "  a-b  --c  d.e ", "é e\u0301 \u0344 Å ﬁ ½ 각 \u1112\u1161\u11ab İI", "漢字かな カナ Привет мир αβγ a漢", "x\ty\u200bz\u3000w\n",
         "the quick brown fox", "", " ", "ab12cd34", "foxfoxfox un-able", "a\u0301b\u0316\u0301c", "'s it's 'S"]

REGEX = {"type": "Split", "pattern": {"Regex": r"\w+|[^\w\s]"}}
STRING = {"type": "Split", "pattern": {"String": "o"}}
PRE = [
    *[{**p, "behavior": b, "invert": i} for p in (REGEX, STRING) for b in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous") for i in (False, True)],
    {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Punctuation", "behavior": "MergedWithNext"},
    {"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False}, {"type": "UnicodeScripts"}, {"type": "CharDelimiterSplit", "delimiter": "-"},
    {"type": "FixedLength", "length": 3}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": True}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": False},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": True}]},
    {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]},
    None,
]
NORMALIZERS = [
    *[{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")],
    {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "fox"},
    {"type": "Replace", "pattern": {"String": "o"}, "content": "un"}, {"type": "Replace", "pattern": {"Regex": "[aeiou]+"}, "content": "é"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True}]},
    None,
]
DECODERS = [
    {"type": "BPEDecoder", "suffix": "o"}, {"type": "CTC", "pad_token": "x", "word_delimiter_token": "o", "cleanup": True}, {"type": "Fuse"}, {"type": "ByteFallback"},
    {"type": "Strip", "content": "h", "start": 1, "stop": 1}, {"type": "Replace", "pattern": {"String": "h"}, "content": "HH"}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True},
    {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": "##"}, "content": "_"}, {"type": "Fuse"}]}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, None,
]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789HW,.!-_é"
CHARS = {c: i for i, c in enumerate(["<unk>", *LETTERS, *"ĠÃ©", "an", "ab", "the", "he", "ox", "fox", "th", "f", "o</w>", "##x", "##o", "##ox", "_a", "<0x0A>"])}
CHARS = {c: i for i, c in enumerate(dict.fromkeys(CHARS))}
BPE = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
       "vocab": CHARS, "merges": [["a", "b"], ["t", "h"], ["h", "e"], ["th", "e"], ["o", "x"], ["f", "ox"]]}
MODELS = [
    BPE, {**BPE, "fuse_unk": True}, {**BPE, "unk_token": None}, {**BPE, "ignore_merges": True}, {**BPE, "end_of_word_suffix": "</w>", "merges": []}, {**BPE, "continuing_subword_prefix": "##", "merges": [["##o", "##x"]]},
    {"type": "WordLevel", "vocab": {"<unk>": 0, "hello": 1, "world": 2, "fox": 3}, "unk_token": "<unk>"},
    {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [["<unk>", 0.0], ["a", -1.5], ["b", -1.5], ["ab", -3.0], ["he", -2.0], ["l", -2.25], ["ll", -4.5], ["o", -1.0], ["fox", -2.0]]},
    {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [["<unk>", 0.0], ["a", -1.5], ["o", -1.0], *[[f"<0x{b:02X}>", -9.0] for b in range(256)]]},
]


def main():
    changes = [{"pre_tokenizer": p} for p in PRE] + [{"normalizer": n} for n in NORMALIZERS] + [{"decoder": d} for d in DECODERS]
    changes += [{"model": m, "added_tokens": []} for m in MODELS]
    changes += [{"model": BPE, "added_tokens": [], "pre_tokenizer": p} for p in (None, PRE[29])] + [{"model": BPE, "added_tokens": [], "pre_tokenizer": p, "normalizer": n} for p, n in zip(PRE, NORMALIZERS)]
    cases = []
    for change in changes:
        tokenizer = Tokenizer.from_str(json.dumps(BASE | change))
        rows = []
        for text in TEXTS:
            e = tokenizer.encode(text)
            rows.append({"text": text, "ids": e.ids, "offsets": e.offsets, "decoded": tokenizer.decode(e.ids)})
        cases.append({"change": change | {"post_processor": None}, "rows": rows})
    with open("components.json", "w", encoding="utf-8") as f:
        json.dump({"cases": cases}, f, separators=(",", ":"))


main()
