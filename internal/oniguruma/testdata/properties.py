"""Writes ../properties.txt.gz by asking Hugging Face tokenizers: python properties.py NAMES

NAMES is doc/UNICODE_PROPERTIES of Oniguruma, a list of names. tokenizers 0.23.3 must be installed. Names in brackets are sets inside of a class. The characters that are looked at are all
of planes 0 to 3, the tags of plane 14, and the ends of stretches without assigned characters, which no property divides.
"""

import gzip
import sys

from tokenizers import Regex, pre_tokenizers

CODES = [c for c in range(0x33480) if not 0xD800 <= c < 0xE000] + [0x33480, 0x33481]
for plane in range(3, 17):
    low = plane * 0x10000
    CODES += [low, low + 1] if plane > 3 else []
    CODES += range(low + 2, low + 0x1000) if plane == 14 else []
    CODES += [low + 0xFFF0, low + 0xFFFC, low + 0xFFFD, low + 0xFFFE, low + 0xFFFF]
CODES = sorted(set(CODES))
TEXT = "".join(map(chr, CODES))
POSIX = "alnum alpha blank cntrl digit graph lower print punct space upper xdigit ascii word".split()


def ranges(codes, kept):
    """The characters between the stretches that a pattern left."""
    at, out = 0, []
    for start, end in [*kept, (len(codes), len(codes))]:
        if start > at:
            first, last = codes[at], codes[start - 1]
            if out and out[-1][1] == 0xD7FF and first == 0xE000:
                first = out.pop()[0]
            out.append((first, last))
        at = end
    return out


def matched(pattern):
    kept = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(TEXT)
    found = ranges(CODES, [offsets for _, offsets in kept])
    # Over the surrogates, which no text has, a set goes on if both sides are in it.
    out = []
    for first, last in found:
        if out and out[-1][1] == 0xD7FF and first == 0xE000:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return tuple(out)


def shown(r):
    return f"{r[0]:x}" if r[0] == r[1] else f"{r[0]:x}-{r[1]:x}"


def joined(before, after):
    """The characters that \\X leaves together with what is before and after them."""
    item = len(before) + 1 + len(after)
    codes = [c for c in CODES if c not in (10, 13)]
    text = "".join(before + chr(c) + after + "\n" for c in codes)
    ends = {end for _, (_, end) in pre_tokenizers.Split(Regex(r"\X"), "isolated").pre_tokenize_str(text)}
    return {c for i, c in enumerate(codes) if not any(i * (item + 1) + k in ends for k in range(1, item))}


def clusters():
    extend, prepend = joined("a", ""), joined("", "a")
    after_lv, after_lvt = joined("\uac00", "") - extend, joined("\uac01", "") - extend
    takes_v, takes_t, takes_lv = (joined("", c) - prepend for c in "\u1161\u11a8\uac00")
    v, t = after_lv - after_lvt, after_lvt
    return {
        "gcb=extend": extend, "gcb=prepend": prepend, "gcb=control": set(CODES) - {10, 13} - joined("", "\u0301"),
        "gcb=l": takes_lv, "gcb=v": v, "gcb=t": t, "gcb=lv": (takes_v & takes_t) - v - takes_lv, "gcb=lvt": takes_t - takes_v - t,
        "gcb=extendonly": joined("\U0001f469", "\u200d\U0001f469") & extend, "pictographic": joined("\U0001f469\u200d", "") - extend,
        "gcb=regional": set(range(0x1F1E6, 0x1F200)),
    }


def runs(codes):
    out = []
    for c in sorted(codes):
        if out and (out[-1][1] == c - 1 or (out[-1][1], c) in GAPS):
            out[-1] = (out[-1][0], c)
        else:
            out.append((c, c))
    return tuple(out)


GAPS = {(a, b) for a, b in zip(CODES, CODES[1:]) if b > a + 1}


def cases():
    """Characters that (?i) does not distinguish, and the sequences that it does not distinguish from one."""
    cased = sorted({c for name in ("Changes_When_Casemapped", "Changes_When_Casefolded", "Cased") for a, b in matched(rf"\p{{{name}}}+") for c in range(a, b + 1)})
    text = "\n".join(map(chr, cased)) + "\n"
    codes = [ord(c) for c in text]
    orbits, folds = set(), []
    for c in cased:
        kept = pre_tokenizers.Split(Regex(rf"(?i:\x{{{c:x}}})"), "removed").pre_tokenize_str(text)
        found, at = [], 0
        for _, (start, end) in [*kept, (None, (len(text), len(text)))]:
            found += codes[at:start]
            at = end
        orbits.add(tuple(sorted(found)))
        fold = chr(c).casefold()
        if len(fold) > 1:
            if pre_tokenizers.Split(Regex(rf"(?i:\x{{{c:x}}})"), "removed").pre_tokenize_str(fold):
                print(f"U+{c:04X} is not its fold {fold!r}")
            else:
                folds.append((c, *map(ord, fold)))
    return sorted(o for o in orbits if len(o) > 1), folds


def main():
    names = [line.strip() for line in open(sys.argv[1], encoding="utf-8")][1:]
    patterns = {n.lower().replace("_", "").replace("-", "").replace(" ", ""): rf"\p{{{n}}}+" for n in names if n and n[0] not in "*-" and ":" not in n}
    patterns |= {n: rf"\p{{{n}}}+" for n in [*POSIX, "any", "assigned"]}
    patterns |= {f"[:{n}:]": f"[[:{n}:]]+" for n in POSIX} | {rf"\{c}": rf"\{c}+" for c in "wdsh"}
    # In a class, some of U+0080 to U+00FF belong to other sets than alone.
    patterns |= {rf"[\{c}]": rf"[\{c}]+" for c in "wdsh"} | {f"[{n}]": rf"[\p{{{n}}}]+" for n in POSIX}
    sets = {}
    for name, pattern in patterns.items():
        sets.setdefault(matched(pattern), []).append(name)
    for name, codes in clusters().items():
        sets.setdefault(runs(codes), []).append(name)
    orbits, folds = cases()
    lines = [f"set {' '.join(names)}: {' '.join(map(shown, found))}" for found, names in sets.items()]
    lines += ["fold " + " ".join(f"{c:x}" for c in o) for o in orbits]
    lines += ["folds " + " ".join(f"{c:x}" for c in f) for f in folds]
    with gzip.GzipFile("../properties.txt.gz", "wb", mtime=0) as f:
        f.write(("\n".join(lines) + "\n").encode())


main()
