"""Writes tokenizer.json, vocab.txt, variants.json and cases.jsonl: small tokenizers and what Hugging Face tokenizers makes of texts.

Run in this folder: python cases.py (needs `pip install tokenizers==0.23.3`).
"""

import json

from tokenizers import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the quick brown fox un want able runn in hello world i ma . , ! ? ' - [ ] ( ) < > $ ^ ` ~ ² … — ” 。 、 ！ 「 」".split()
LETTERS = list("abcdefghijklmnopqrstuvwxyz0123456789") + list("éüñßøæœıσςжйиѕ漢字東京カナガ한국어ᄒ하कखनतमदी़आعربيةשלוםกาไท๛")
JAMO = ["\u1112", "\u1161", "\u11ab", "\u1100", "\u116e", "\u11a8", "\u110b", "\u1165"]
CAPITALS = ["A", "B", "H", "T", "Hello", "É", "Ж", "Σ", "İ"]
PIECES = ["##ing", "##ed", "##able", "##s", "##é", "##A", "##\u0301", "##\u0307", "##ς", "##σ", "##ж", "##²", "##\u0903", "##\u1b44", "##\u302e"]
MARKS = ["\u0301", "\u0307", "\u1b44", "\U0001d158", "##\U0001d165", "##\U0001d16d", "##\U0001d16e", "\ufffd", "##\ufffd"]


def vocabulary():
    tokens = SPECIAL + WORDS + LETTERS + JAMO + CAPITALS + PIECES + MARKS
    tokens += ["##" + t for t in LETTERS + JAMO]
    return list(dict.fromkeys(tokens))


VOCAB = vocabulary()
CLS, SEP = VOCAB.index("[CLS]"), VOCAB.index("[SEP]")


def added(content, id, special=False, **flags):
    token = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return token | flags | {"special": special}


def piece(name, type_id):
    return {("Sequence" if len(name) == 1 else "SpecialToken"): {"id": name, "type_id": type_id}}


BASE = {
    "version": "1.0",
    # Neither is followed by this package; cases are made without them.
    "truncation": {"direction": "Right", "max_length": 6, "strategy": "LongestFirst", "stride": 0},
    "padding": {"strategy": {"Fixed": 12}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
    "added_tokens": [added(token, id, special=True) for id, token in enumerate(SPECIAL)],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [piece("[CLS]", 0), piece("A", 0), piece("[SEP]", 0)],
        "pair": [piece("[CLS]", 0), piece("A", 0), piece("[SEP]", 0), piece("B", 1), piece("[SEP]", 1)],
        "special_tokens": {t: {"id": t, "ids": [VOCAB.index(t)], "tokens": [t]} for t in ("[CLS]", "[SEP]")},
    },
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 20,
        "vocab": {token: id for id, token in enumerate(VOCAB)},
    },
}


def normalizer(**changes):
    return {"normalizer": BASE["normalizer"] | changes}


# What a variant changes in BASE.
N = len(VOCAB)
VARIANTS = {
    "uncased": {},
    "cased": normalizer(lowercase=False),
    "cased, accents stripped": normalizer(lowercase=False, strip_accents=True),
    "uncased, accents kept": normalizer(strip_accents=False),
    "not cleaned": normalizer(clean_text=False),
    "not cleaned, cased": normalizer(clean_text=False, lowercase=False),
    "chinese in words": normalizer(handle_chinese_chars=False),
    "added": {
        "added_tokens": BASE["added_tokens"]
        + [
            added("<l>", N, lstrip=True),
            added("<r>", N + 1, rstrip=True, special=True),
            added("<lr>", N + 2, lstrip=True, rstrip=True),
            added("word", N + 3, single_word=True),
            added("wordy", N + 4),
            added("new york", N + 5, normalized=True),
            added("Zürich", N + 6, normalized=True, single_word=True),
            added("NEW", N + 7, normalized=True, lstrip=True, rstrip=True),
            added("fox", VOCAB.index("fox"), normalized=True),
            added(" sp", N + 8),
            added(" lsp", N + 9, lstrip=True),
        ]
    },
    "bert processing": {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", SEP], "cls": ["[CLS]", CLS]}},
    "roberta processing": {
        "post_processor": {"type": "RobertaProcessing", "sep": ["[SEP]", SEP], "cls": ["[CLS]", CLS], "trim_offsets": True, "add_prefix_space": False}
    },
    "no processing": {"post_processor": None},
    "odd template": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [piece("A", 2), piece("two", 1)],
            "pair": [piece("B", 1), piece("two", 3), piece("A", 0)],
            "special_tokens": {"two": {"id": "two", "ids": [CLS, SEP], "tokens": ["[CLS]", "[SEP]"]}},
        }
    },
    "no prefix": {"model": BASE["model"] | {"continuing_subword_prefix": ""}},
    "another prefix": {"model": BASE["model"] | {"continuing_subword_prefix": "##a"}},
    "prefix that leads nowhere": {"model": BASE["model"] | {"continuing_subword_prefix": "@@"}},
    "another unknown token": {"model": BASE["model"] | {"unk_token": "fox"}},
    "no type of the model": {"model": {k: v for k, v in BASE["model"].items() if k != "type"}},
}

PLAIN = [
    "",
    " ",
    "Hello, WORLD!",
    "unwanted running, un-wanted [MASK] [mask] [MASK][SEP]x",
    "Café CAFE\u0301 naïve ÜBER İstanbul IıİI ΣΊΣΥΦΟΣ Σ ß ẞ",
    "a\u200bb\u00adc\ufeffd\u0000e\ufffdf \u2060 g",
    "tab\tnew\nline\rfeed\u000bvt\u000cff\u0085nel\u2028ls\u3000wide\u00a0nbsp\u1680ogham",
    "漢字かな東京カナガ豈a漢b 𠀀𪜀",
    "한국어 텍스트 각 하늘 \u1112\u1161\u11ab",
    "हिन्दी क़ में आ़ ক\u09cb",
    "العربية שָׁלוֹם ภาษาไทย",
    "don’t “quote” — dash… x²$^`~ a_b 。、！「」·;\u037e",
    "a\u0301\u0316b \u0344 \u1b44\u302e\u1b44 \U0001d160\U0001d16d\U0001d165 \U0001d15f\U0001d16d\u0334\U0001d165",
    "🤗 a🤗b 👍🏽 e\u20e3 \ue000 \U000f0000 \U000e0041",
    "\u166d\u1734\u061d\u2e52 \u08e2 \u0890 a\u1715\u1734 \U00011938 Ა Ꭰ ꭰ \U00010400 \U0001e900 \ua7cb\u1c89",
    "aaaaaaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaaaaaaa ééééééééééééééééééééé",
    "ＡＢＣ ﬁ № ™ ½ Å K Ω",
    "thefox foxthe the-fox the.quick?brown",
    "##ing ing## #",
]
ADDED = [
    "a <l> b <r> c <lr> d",
    "a   <l>   b   <r>   c   <lr>   d",
    "<l><l> <r> <l> <lr><lr>",
    "word aword worda word. .word word_ é word\u0301 wordy wordyword wordword",
    "New York NEW YORK new  york NEWYORK newt  NEW  x",
    "Zürich zurich ZÜRICH Zürichs xzürich",
    "the fox foxes FOX",
    "a sp b  spc<r> sp<r>  lsp lsp",
    "[MASK]a[MASK] <r>",
    "\u00a0<l>\u3000<r>\u3000x",
]
LONG = "the quick brown fox unwanted hello world running fox"
PAIRS = [("hello world", "the fox"), ("", ""), ("hello", ""), ("", "hello"), ("[SEP]", "é 漢")]
CUT = [(LONG, LONG), (LONG, "hello"), ("hello", LONG), (LONG + " i", LONG), (LONG, LONG + " i"), ("hello the", "the fox i")]


def main():
    with open("tokenizer.json", "w", encoding="utf-8") as f:
        json.dump(BASE, f, ensure_ascii=False, separators=(",", ":"))
    with open("vocab.txt", "w", encoding="utf-8") as f:
        f.write("".join(token + "\n" for token in VOCAB))
    with open("variants.json", "w", encoding="utf-8") as f:
        json.dump(VARIANTS, f, ensure_ascii=True, separators=(",", ":"))

    with open("cases.jsonl", "w", encoding="utf-8") as f:
        for name, changes in VARIANTS.items():
            tokenizer = Tokenizer.from_str(json.dumps(BASE | changes))
            tokenizer.no_padding()

            def case(text, pair=None, max_length=0):
                tokenizer.no_truncation()
                if max_length:
                    tokenizer.enable_truncation(max_length)
                encoding = tokenizer.encode(text, pair)
                row = {"variant": name, "text": text}
                if pair is not None:
                    row["pair"] = pair
                if max_length:
                    row["max_length"] = max_length
                f.write(json.dumps(row | {"ids": encoding.ids, "types": encoding.type_ids}) + "\n")

            specials = tokenizer.num_special_tokens_to_add(True)
            if name in ("uncased", "cased", "uncased, accents kept", "not cleaned, cased"):
                texts = PLAIN
            elif "normalizer" in changes:
                texts = PLAIN[3:15]
            elif name == "added":
                texts = ADDED
            else:
                texts = PLAIN[2:6]
            for text in texts:
                case(text)
            if name == "uncased" or "post_processor" in changes:
                for text, pair in PAIRS:
                    case(text, pair)
                for text, pair in CUT:
                    for room in (0, 1, 4, 7):
                        if specials + room:
                            case(text, pair, specials + room)
                for room in (1, 3, 8, 50):
                    case(LONG, None, tokenizer.num_special_tokens_to_add(False) + room)


main()
