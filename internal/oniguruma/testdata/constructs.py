"""Writes constructs.txt: what Hugging Face tokenizers makes of each construct of Oniguruma's syntax. Run in this folder: python constructs.py

tokenizers 0.23.3 must be installed. A line is a checksum, or "error" if tokenizers refuses the construct, and the pattern in JSON. The
patterns of UNICODE run over all characters, the others over TEXTS. What is summed: TestOniguruma.
"""

import json
import zlib

from tokenizers import Regex, pre_tokenizers

BLOCKS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and (c < 0x33480 or 0xE0000 <= c < 0xE0200 or c & 0xFFFF >= 0xFFFC)]
EVERY = ["".join(BLOCKS), "".join("a" + c for c in BLOCKS[:0x3400])]
TEXTS = [
    "", "a", "ab", "aab", "abc", "aaaa", "abab", "abcabc", "a\nb", "a\nb\n", "\n", "\n\n", "ab cd", " ab  cd ", "a1b22c333", "don't I'LL", "x² ½ ①",
    "हिन्दी", "e\u0301\u0316 क्षि", "漢字かなabc", "👨\u200d👩\u200d👧 🇩🇪🇫🇷🇩 👍🏽", "각ᄒ\u1161\u11ab가", "\r\n\r\n\n\r", "\u2028\u2029\x85\x0b\x0c", "sßßsssssßßẞſs",
    "İi̇iIıKk\u212aſ", "ﬃffiﬀiFﬁﬅstſt", "ΐΐΣσς", "AbaB abAB", "ab_ab-ab", "a.b,c!", "[a]{1}(b)", "aa{,}a{1", "C++ x", "  \t\u00a0\u3000x", "-a-c-e-",
    "\x00\x01\x1b\x7f", "été ÀÉ", "a\u200db\u00ad", "\u0600a\u0903\u0e33", "Hello, world!\n\n  How's 12345 it?  ", "'s 'S 'ſ're'VE", "\ue000\ufffd\U0010ffff",
]
UNICODE = [
    r"\w+", r"\W+", r"\d+", r"\s+", r"\S+", r"\h+", r"\H", r".+", r"\N+", r"\O", r"\R", r"\X", r"\b", r"\B", r"(?W:\w+)", r"(?P:[[:alpha:]]+)", r"\p{L}+", r"\pL\pM*",
    r"\p{^L}+", r"\P{L}+", r"\P{^L}+", r"\PL+", r"[^\p{L}\p{N}]+", r"\p{Lu}+", r"\p{uppercase letter}", r"\p{Uppercase_Letter}", r"\p{M}+", r"\p{N}", r"\p{P}+", r"\p{S}+",
    r"\p{Z}", r"\p{Cn}+", r"\p{Han}+", r"\p{Devanagari}+", r"\p{In_Greek_and_Coptic}+", r"\p{Alphabetic}+", r"\p{White_Space}", r"\p{Emoji}+", r"\p{XPosixPunct}+",
    r"[[:alnum:]]+", r"[[:alpha:]]+", r"[[:blank:]]+", r"[[:cntrl:]]+", r"[[:digit:]]+", r"[[:graph:]]+", r"[[:lower:]]+", r"[[:print:]]+", r"[[:punct:]]+",
    r"[[:space:]]+", r"[[:upper:]]+", r"[[:xdigit:]]+", r"[[:word:]]+", r"[[:ascii:]]+", r"[[:^alpha:]]+", r"[\p{L}&&[^\p{Han}]]+", r"[\p{L}&&\p{Lu}&&[^A-M]]",
    r"[a-z[é漢[0-9]]]+", r"[^a-z&&[^x]]+", r"(?i)[a-zß]+", r"(?i:[^a-zß])+", r"(?i)\p{Lu}+", r"(?i)[\p{Lu}]+", r"(?i)[[:upper:]]+", r"(?i)i", r"(?i)ſ", r"(?i)k+", r"(?i)σ", r"[\w]+", r"[\W]+", r"[^\w]+", r"[\p{Punct}]+", r"[\p{^Punct}]+", r"\p{Punct}+", r"\p{Alnum}+", r"[\p{Word}]+",
    r"[\w-]+", r"(?W:[\w]+)", r"(?i)[\w]+", r"(?P:[[:word:]]+)", r"[[:word:]\p{L}]+", r"[^[:punct:]]+",
]
OTHERS = [
    r"a|b|", r"a||b", r"", r"()", r"(?:)", r"a*", r"a+?", r"a??", r"a*+a", r"a++", r"a?+a", r"a{2}", r"a{,2}", r"a{2,}", r"a{1,2}", r"a{1,2}?", r"a{1,2}+", r"a{2}?", r"a{2}+",
    r"a{3,1}", r"a{3,1}?", r"a{,}", r"a{", r"a{1", r"a{x}", r"{", r"}", r"]", r"a**", r"(a|)*b", r"(a*)*", r"(?:a?)+b", r"(a|b)*?c", r"(?>a|ab)c", r"(?=a)b?", r"a(?!b)", r"(?<=a)b", r"(?<!a)b",
    r"(?<=a|bc)[a-d]", r"(?<=a+)b", r"(?<!ab*)c", r"^", r"$", r"^a", r"b$", r"\A.", r".\z", r"\Z", r"^$", r"(?m:.)+", r"(?m)a.b", r"(?x: a b # c" + "\n)", r"(?x)a b[ c]", r"(?x)a +b",
    r"(?#c)a", r"(?i)b", r"(?i:A)b", r"(?i)(?-i:a)b", r"ab(?i)c|B", r"(?i-m:a.)", r"(?i)ss", r"(?i)ß", r"(?i)[ß]", r"(?i)[^ß]", r"(?i)st", r"(?i)İ", r"(?i)i̇", r"(?i)ΐ",
    r"(?i:s)s", r"(?i:s+)", r"(?i:s)(?i:s)", r"(?i)fi", r"(?i)'(?:s|ll|ve|re)", r"(?i)k\w", r"(?i)[k-s]+", r"(?i)[a-c&&b-d]", r"(?i)\x{df}", r"(?i)a|ss", r"(?i)a{2}", r"(?i)ﬅ",
    r"a\Kb", r"(?:a\K|b)c?", r"\Ka", r"(a)\1", r"(a|b)(c)?\1", r"(?<n>a)\k<n>", r"(?'n'a)\k'n'", r"(?<n>a)(b)", r"(.)\1+", r"\x41", r"\x{e9}", r"\x4", r"\u00e9", r"\o{141}", r"\0",
    r"\e|\a|\t|\f|\v", r"\cA", r"\C-a", r"\_", r"\é", r"\q", r"\Q", r"[\b]", r"[\x00-\x1f]", r"[]a]", r"[^]a]", r"[a-]", r"[-a]", r"[a-c-e]", r"[\w-]", r"[!--]", r"[--a]", r"[a&&]", r"[&&a]", r"[a&&&&b]",
    r"[^a&&b]", r"[a-c[d-f]-h]", r"[\]]", r"[a\-c]", r"[\d&&1]", r"[a-d&&c-z&&[^d]]", r"[[:alpha:]1]+", r"[:alpha:]+", r"[[=a=]]", r"[(\s|[.,!?])]+", r"[\141]", r"\`a", r"b\'", r"(?W:\b)", r"(?S:\s)+", r"(?D:\d)",
    # refused by tokenizers
    r"[a-\d]", r"[\d-a]", r"[\d-[a]]", r"(?s:.)", r"[a", r"(", r")", r"*a", r"|*", r"^*", r"(?=a)*", r"[b-a]", r"[[:foo:]]", r"\p{Foo}", r"\p{L", r"\p{}", r"\p{^^L}", r"\8", r"\1", r"a{1000000}", r"[[]", r"(?P<n>a)",
    r"(?|a)", r"(?i", r"\p{Script=Han}", r"(?<n>a)(b)\1", "\\",
]
# What tokenizers accepts, and rlxc refuses by name.
REFUSED = [
    r"\G.", r"\y", r"(?y{w})\X", r"(?~ab)", r"\g<1>(a)", r"(?(1)a|b)(c)", r"(?{x})", r"(*FAIL)", r"\x{41 42}", r"\M-a", r"\xc3\xa9", r"[\xff]", r"(?I:a)", r"(?L:a)", r"(?C)(a)", r"(?i)ffi", r"(?i)sß", r"(?i)s{2}", r"\141", r"(?i)(a)\1",
    r"(?=\Ka)", r"(?<n>a)(?<n>b)\k<n>", r"(?<=(a)\1)b",
]
UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
END = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
HAN = r"&&[^\p{Han}]]"
PUBLISHED = {
    "GPT-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "CLIP": r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "Llama 3": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + END,
    "Qwen 2": CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + END,
    "o200k": UPPER + "*" + LOWER + "+" + CONTRACTIONS + "?|" + UPPER + "+" + LOWER + "*" + CONTRACTIONS + r"?|\p{N}{1,3}" + END.replace(r"+[\r\n]*", r"+[\r\n/]*"),
    "DeepSeek numbers": r"\p{N}{1,3}",
    "DeepSeek CJK": "[一-龥぀-ゟ゠-ヿ]+",
    "DeepSeek": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "BLOOM": " ?[^(\\s|[.,!?…。，、।۔،])]+",
    "Kimi": r"[\p{Han}]+|" + UPPER[:-1] + HAN + "*" + LOWER[:-1] + HAN + "+" + CONTRACTIONS + "?|" + UPPER[:-1] + HAN + "+" + LOWER[:-1] + HAN + "*" + CONTRACTIONS + r"?|\p{N}{1,3}" + END,
    "Ling": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "StarCoder digits": r"\p{N}",
    "Falcon": r"[0-9][0-9][0-9]",
    "Tekken": UPPER + "*" + LOWER + "+|" + UPPER + "+" + LOWER + r"*|\p{N}" + END.replace(r"+[\r\n]*", r"+[\r\n/]*"),
}


def answer(pattern, texts):
    try:
        regex = Regex(pattern)
    except Exception:
        return "error"
    total = 0
    for text in texts:
        for behavior in ("isolated", "removed"):
            pieces = pre_tokenizers.Split(regex, behavior).pre_tokenize_str(text)
            total = zlib.crc32((" ".join(f"{a}-{b}" for _, (a, b) in pieces) + "\n").encode(), total)
    return f"{total:08x}"


def main():
    with open("constructs.txt", "w", encoding="utf-8") as f:
        f.write("# Made by constructs.py from Hugging Face tokenizers 0.23.3. A section, and lines of a checksum and a pattern.\n")
        for section, patterns, texts in [
            ("unicode", UNICODE, EVERY), ("texts", [*UNICODE, *OTHERS], TEXTS), ("refused", REFUSED, TEXTS), ("published", PUBLISHED, EVERY + TEXTS),
        ]:
            f.write(f"\n{section}\n")
            for name in patterns:
                pattern = PUBLISHED.get(name, name)
                f.write(f"{answer(pattern, texts)} {json.dumps(pattern)}" + (f" {name}" if pattern != name else "") + "\n")
    with open("texts.json", "w", encoding="utf-8") as f:
        json.dump(TEXTS, f, indent=0)
        f.write("\n")


main()
