"""Writes ../tables.txt and codepoints.txt by asking Hugging Face tokenizers about every code point.

Run in this folder: python unicode.py (needs `pip install tokenizers==0.23.3 regex`).
"""

import base64
import json
import struct
import textwrap
import zlib

import regex
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers


def bert(clean=False, chinese=False, strip=False, lower=False):
    return normalizers.BertNormalizer(
        clean_text=clean, handle_chinese_chars=chinese, strip_accents=strip, lowercase=lower
    ).normalize_str


clean, chinese, strip, lower = bert(clean=True), bert(chinese=True), bert(strip=True), bert(lower=True)
uncased = bert(clean=True, chinese=True, strip=True, lower=True)
nfd = normalizers.NFD().normalize_str
pre_tokenizer = pre_tokenizers.BertPreTokenizer()
single_word = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
single_word.add_tokens([AddedToken("<t>", single_word=True, normalized=False)])

# U+0334 and U+0345 have the lowest and the highest combining class that matters: every other nonstarter
# changes places with at least one of them.
LOWEST, HIGHEST = "\u0334", "\u0345"
# Two nonstarters that stripping keeps and that change places, unless a starter stands between them.
STEM, DOT = "\U0001d165", "\U0001d16d"


def words(c):
    return [word for word, _ in pre_tokenizer.pre_tokenize_str("a" + c + "b")]


def nonstarter(c):
    return c in (LOWEST, HIGHEST) or nfd(c + LOWEST) != c + LOWEST or nfd(HIGHEST + c) != HIGHEST + c


def word(c):
    return len(single_word.encode(c + "<t>").ids) == 1


def composed(c):
    return nfd(c) != c


nfkd = normalizers.NFKD().normalize_str
strip_accents = normalizers.StripAccents().normalize_str
digits = pre_tokenizers.Digits(individual_digits=True)


def pattern(text):
    """Tells whether a character matches a regular expression of the kind that Split takes."""
    split = pre_tokenizers.Split(Regex(text), "removed")
    return lambda c: split.pre_tokenize_str(c) == []


def charsmap_of_a():
    """A charsmap of one rule, "A" to "a": a double array of the shape that SentencePiece writes."""
    units = [0] * 512
    units[0] = 256 << 10  # the root's children are at 256 ^ byte
    units[256 ^ 0x41] = 2 << 10 | 1 << 8 | 0x41
    units[256 ^ 0x41 ^ 2] = 1 << 31
    blob = struct.pack("<I", 4 * len(units)) + struct.pack("<512I", *units) + b"a\0"
    file = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"u": 0}, "unk_token": "u"}}
    file["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode()}
    return Tokenizer.from_str(json.dumps(file)).normalizer.normalize_str


# A character that belongs to the grapheme cluster of the one before it goes with it.
grapheme = charsmap_of_a()


TABLES = {
    "dropped": ("what clean_text drops: NUL, U+FFFD, control, format and private-use characters", lambda c: clean(c) == ""),
    "punct": ("what BertPreTokenizer makes a word of its own", lambda c: words(c) == ["a", c, "b"]),
    "chinese": ("what handle_chinese_chars puts between spaces", lambda c: chinese(c) != c),
    "mark": ("what strip_accents drops after decomposition: nonspacing marks", lambda c: not composed(c) and strip(c) == ""),
    "nonstarter": ("characters that canonical ordering may move", lambda c: not composed(c) and nonstarter(c)),
    "composed": ("characters that have a canonical decomposition", composed),
    "compat": ("characters that have a compatibility decomposition", lambda c: nfkd(c) != nfd(c)),
    "combining": ("what StripAccents drops", lambda c: strip_accents(c) == ""),
    "numeric": ("what Digits splits at", lambda c: len(digits.pre_tokenize_str("a" + c + "a")) == 3),
    "letter": (r"\p{L} of patterns", pattern(r"\p{L}")),
    "number": (r"\p{N} of patterns", pattern(r"\p{N}")),
    "capital": (r"\p{Lu} and \p{Lt} of patterns", pattern(r"[\p{Lu}\p{Lt}]")),
    "small": (r"\p{Ll} of patterns", pattern(r"\p{Ll}")),
    "anyMark": (r"\p{M} of patterns", pattern(r"\p{M}")),
    "blank": (r"\s of patterns", pattern(r"\s")),
    "extend": ("characters that belong to the grapheme cluster of the one before them", lambda c: grapheme("A" + c) == "a"),
    "prefixing": ("characters that begin a grapheme cluster with the next one", lambda c: regex.fullmatch(r"\p{GCB=Prepend}", c)),
    "control": ("characters that are a grapheme cluster whatever follows", lambda c: regex.fullmatch(r"[\p{GCB=Control}\p{GCB=CR}\p{GCB=LF}]", c)),
    "word": ("the characters that no added token may touch that is a single word", word),
}


def ranges(points):
    """Splits sorted code points into few (low, high, stride)."""
    rows = []
    for p in points:
        if rows:
            low, high, stride = rows[-1]
            if low == high and p - low <= 2 or low != high and p - high == stride:
                rows[-1] = (low, p, p - high)
                continue
        rows.append((p, p, 1))
    return rows


def shown(low, high, stride):
    if low == high:
        return f"{low:x}"
    return f"{low:x}-{high:x}" + (f"/{stride}" if stride > 1 else "")


def table(name, about, points):
    fields = " ".join(shown(*row) for row in ranges(points))
    return "\n".join(["", f"{name}: {about}", *textwrap.wrap(fields, 124, break_on_hyphens=False)])


def main():
    characters = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
    tables = [table(name, about, [ord(c) for c in characters if test(c)]) for name, (about, test) in TABLES.items()]
    with open("../tables.txt", "w", encoding="utf-8") as f:
        f.write(f"# Made by testdata/unicode.py from Hugging Face tokenizers {tokenizers.__version__}: sets of code points, as first-last or first-last/step.\n")
        f.write("\n".join(tables) + "\n")

    # A checksum for each 4096 code points of everything that a code point can show.
    with open("codepoints.txt", "w", encoding="utf-8") as f:
        f.write("# first code point, CRC-32 (IEEE); what is summed: TestEveryCodePoint\n")
        for first in range(0, 0x110000, 0x1000):
            sum32 = 0
            for c in map(chr, range(first, first + 0x1000)):
                if 0xD800 <= ord(c) < 0xE000:
                    continue
                shown = [clean(c), chinese(c), strip(c), lower(c), uncased(c), strip(DOT + c + STEM), str(word(c)), *words(c)]
                sum32 = zlib.crc32(("\x00".join(shown) + "\n").encode(), sum32)
            f.write(f"{first:06x} {sum32:08x}\n")


main()
