"""Trains small tokenizers in the form in which models are published, and records what Python makes of texts.

    python record_tokenizers.py OUT             # writes OUT/NAME.json.zst, OUT/NAME.model and what they answer
    python record_tokenizers.py OUT --show NAME TEXT

Needs `pip install tokenizers==0.23.3 transformers==5.23.0 sentencepiece==0.2.3 protobuf zstandard`. The text is Python's own library, the licences
that Debian ships, and the sentences below; so another machine trains other vocabularies, and all that is recorded belongs together.

An answer is a checksum (CRC-32) of the rows: for each row its number of tokens, then ids, type ids, attention, offsets (characters), words and
special mask as 32-bit numbers, then the decoded text with and without special tokens. The Go test sums the same.
"""

import os
import sys

os.environ["RUST_BACKTRACE"] = "0"  # some cases are errors, which tokenizers panics about

import glob
import json
import random
import struct
import sysconfig
import zlib
from importlib import import_module
from types import SimpleNamespace

import sentencepiece
import zstandard
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

convert = import_module("transformers.convert_slow_tokenizer")

SENTENCES = """All human beings are born free and equal in dignity and rights.
Alle Menschen sind frei und gleich an Würde und Rechten geboren. Ängstliche Füße, große Straße, Übergröße.
Tous les êtres humains naissent libres et égaux en dignité et en droits. Là-bas, l'œuvre naïve a été reçue.
Todos los seres humanos nacen libres e iguales en dignidad y derechos. ¿Qué mañana? ¡Sí, señor!
Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Coração, ação, pães.
Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Perché città più?
Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Zażółć gęślą jaźń.
Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Příliš žluťoučký kůň.
Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Árvíztűrő tükörfúrógép.
Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İstanbul'da ılık ışık.
Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.
Все люди рождаются свободными и равными в своём достоинстве и правах. Съешь ещё этих мягких булок.
Усі люди народжуються вільними і рівними у своїй гідності та правах. Їжак їсть ґудзики.
Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. ΣΊΣΥΦΟΣ
כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. שָׁלוֹם עֲלֵיכֶם
يولد جميع الناس أحراراً متساوين في الكرامة والحقوق. السَّلامُ عَلَيْكُم ۱۲۳ ١٢٣
تمام افراد بشر آزاد به دنیا می‌آیند و از لحاظ حیثیت و حقوق با هم برابرند.
सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। क़लम १२३
সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে।
மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.
మనుషులందరూ పుట్టుకతో స్వతంత్రులు మరియు సమానులు.
മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും ജനിച്ചവരാണ്.
มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ
ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ. လူတိုင်းသည် တူညီလွတ်လပ်သော ဂုဏ်သိက္ခာ
人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心。
人皆生而自由;在尊嚴及權利上均各平等。「東京」
すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。ガギグ ﾊﾝｶｸ
모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 한국어
ყველა ადამიანი იბადება თავისუფალი და თანასწორი. Բոլոր մարդիկ ծնվում են ազատ. ሁሉም ሰዎች ነፃ ሆነው ይወለዳሉ
😀 👍🏽 👨‍👩‍👧‍👦 🇩🇪🇫🇷 ❤️ 1️⃣ 🤷🏿‍♀️ ½ ² ™ № ﬁ Ａ １ Ω K Å … “quoted” ‘single’ — – «»"""

LICENCES = sorted(p for p in glob.glob("/usr/share/common-licenses/*") if not os.path.islink(p))
LIBRARY = sorted(glob.glob(os.path.join(sysconfig.get_path("stdlib"), "*.py")))


def corpus():
    lines = []
    for path in LICENCES + LIBRARY[:70]:
        with open(path, encoding="utf-8", errors="replace") as f:
            lines += [line.rstrip("\n") for line in f if line.strip()]
    random.Random(1).shuffle(lines)
    return lines[:24000] + SENTENCES.split("\n") * 60


LINES = corpus()
SPACES = " \t\n\r\v\f\x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def texts():
    """The texts of the recorded cases: fixed ones, and ones that a seeded generator puts together."""
    out = ["", " ", "  ", "   ", "a", " a", "a ", " a ", "  a  b  ", "\n", "\r\n", "a\r\nb", "\n\n a", "a \n", " \n a", "\t\ta", "a\x00b", "\x00"]
    out += SENTENCES.split("\n") + [s[::-1] for s in SENTENCES.split("\n")] + [s.upper() for s in SENTENCES.split("\n")]
    out += ["I'm you're he's THEY'LL I'D we've don't can't 'tis 'S 'ſ 'Ll 're're ''s' x's'", "Hello, y'all! How are you 😁 ?", "``quoted'' ''x``",
            "1 12 123 1234 12345 1234567890 3.14159 1,000,000 0x1F ١٢٣٤ १२३४ ½¾ ⅷ Ⅻ ²³", "https://example.org/a/b?c=d&e=%20f#g me@example.com C:\\x\\y",
            "def f(x: int) -> int:\n    return x ** 2  # comment\n\n\nif __name__ == '__main__':\n\tprint(f(3))\n", "{\"a\": [1, 2.5, null], \"b\": {}}",
            "e\u0301 e\u0301\u0316 \u0344 \u1b44\u302e \U0001d160\U0001d16d\U0001d165 a\u0315\u0300\u05ae\u0062 각 \u1112\u1161\u11ab \uac00\u11a8",
            "\u200b \u200c \u200d \ufeff \u2060 \u00ad a\u200bb a\u00adb a\ufeffb \u202eabc\u202c \u2066x\u2069 \u061c", "\ufffd \ue000 \U000f0000 \U0010ffff \ufffe",
            "a\u0300\u0301\u0302\u0303b \u0300 \u0300a A\u030a\u0327 ﬁﬂﬀ ㎏ ㍿ ﷺ ｶﾞ \u3099 か\u3099", "<s> </s> <unk> <pad> <mask> [CLS] [SEP] [MASK] [PAD] [UNK] <bos> <eos>",
            "a<mask>b a <mask> b  <mask>  [MASK]  [MASK]x x[MASK] <|endoftext|>a <|begin_of_text|> <|im_start|> |||IP_ADDRESS||| <extra_id_0> <0x0A> <0xE2>",
            "▁ ▁▁ ▁a a▁b Ġ Ġa aĠ ċ Ċ", "x" * 99, "x" * 100, "x" * 101, "x" * 300, "é" * 120, "ab" * 200, "中" * 150, "😀" * 60, "a b " * 100, " " * 200,
            "antidisestablishmentarianism supercalifragilisticexpialidocious", "aaaaaaaaaaaaaaaaaaaaaaaa" * 4, "!" * 50, "-" * 33 + "=" * 65, "a" + " " * 17 + "b"]
    for first in (0, 0x80, 0x100, 0x300, 0x370, 0x400, 0x590, 0x600, 0x900, 0xe00, 0x1100, 0x1e00, 0x2000, 0x2100, 0x3000, 0x4e00, 0xa640, 0xac00, 0xf900,
                  0xfb00, 0xfe00, 0xff00, 0x10400, 0x1d100, 0x1d400, 0x1f100, 0x1f300, 0x1f600, 0x20000, 0x2f800, 0xe0000):
        for step in range(0, 128, 32):
            cs = [chr(first + step + i) for i in range(32)]
            out += ["".join(cs), " ".join(cs), "x" + "x".join(cs) + "x"]
    r = random.Random(2)
    words = sorted({w for line in LINES for w in line.split()})
    marks = ["\u0301", "\u0316", "\u0327", "\u0308", "\u200d", "\ufe0f", "\u0903", "\u0e31", "\u3099", "\u1161", "\u11a8", "\u20e3"]
    special = ["<s>", "</s>", "<mask>", "[MASK]", "[SEP]", "[CLS]", "<unk>", "<|endoftext|>", "<|eot_id|>", "  ", "|||IP_ADDRESS|||"]
    while len(out) < 2200:
        kind = r.randrange(6)
        if kind == 0:
            out.append(r.choice(LINES))
        elif kind == 1:
            out.append(r.choice(["", " ", "\n"]).join(r.choice(words) + r.choice(SPACES) * r.choice([1, 1, 1, 2]) for _ in range(r.randrange(1, 30))))
        elif kind == 2:
            out.append("".join(r.choice(words)[:4] + r.choice(marks) * r.randrange(3) + r.choice(special + [" "] * 8) for _ in range(r.randrange(1, 12))))
        elif kind == 3:
            out.append("".join(chr(r.choice([r.randrange(0x20, 0x250), r.randrange(0x300, 0x3000), r.randrange(0x3000, 0xd800), r.randrange(0x10000, 0x20000)]))
                               for _ in range(r.randrange(1, 40))))
        elif kind == 4:
            out.append("".join(r.choice("aAbB1. '\n\té漢あ한") for _ in range(r.randrange(1, 40))))
        else:
            out.append(" ".join(r.choice(LINES) for _ in range(r.randrange(1, 6))))
    return out


def cases():
    """[text, second text or null, maximum length, strategy, side, stride or -1 for no windows]"""
    out, r = [], random.Random(3)
    list_ = texts()
    for i, text in enumerate(list_):
        out.append([text, None, 0, "longest_first", "right", -1])
        if i % 3 == 0:
            second = r.choice(list_)
            out.append([text, second, 0, "longest_first", "right", -1])
            strategy, side = r.choice(["longest_first", "only_first", "only_second"]), r.choice(["left", "right"])
            out.append([text, second, r.randrange(5, 40), strategy, side, -1])
            out.append([text, second, r.randrange(24, 60), "only_second", side, r.randrange(4)])
            out.append([text, None, r.randrange(8, 20), "longest_first", side, r.randrange(3)])
    return out


def numbers(rows):
    return struct.pack(f"<{len(rows)}i", *rows)


def answer(tokenizer, case):
    """The checksum of what a tokenizer makes of a case; 0 where it raises."""
    text, second, length, strategy, side, stride = case
    if length:
        tokenizer.enable_truncation(length, stride=max(stride, 0), strategy=strategy, direction=side)
    else:
        tokenizer.no_truncation()
    try:
        e = tokenizer.encode(text, second)
    except BaseException:
        return 0
    crc = 0
    for row in [e] + (e.overflowing if stride >= 0 else []):
        crc = zlib.crc32(row_bytes(tokenizer, row), crc)
    return crc


def row_bytes(tokenizer, row):
    fields = [len(row.ids), *row.ids, *row.type_ids, *row.attention_mask, *[x for o in row.offsets for x in o]]
    fields += [-1 if w is None else w for w in row.word_ids] + row.special_tokens_mask
    decoded = tokenizer.decode(row.ids, skip_special_tokens=False) + "\0" + tokenizer.decode(row.ids, skip_special_tokens=True)
    return numbers(fields) + decoded.encode("utf-8", "replace")


# The planes that have characters; the tags of plane 14.
BLOCKS = [*range(0, 0x33000, 0x400), 0xE0000]


def block(tokenizer, first):
    """The checksum of a block of 1024 code points: each alone, then 64 at a time between letters and between spaces."""
    tokenizer.no_truncation()
    cs = [chr(p) for p in range(first, first + 0x400) if not 0xD800 <= p < 0xE000]
    crc = 0
    for e in tokenizer.encode_batch(cs + ["a" + "b a".join(cs[i : i + 64]) + "b " + " ".join(cs[i : i + 64]) for i in range(0, len(cs), 64)]):
        crc = zlib.crc32(numbers([len(e.ids), *e.ids, *[x for o in e.offsets for x in o]]), crc)
    return crc


def template(single, pair, **ids):
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=list(ids.items()))


def wordpiece(lower, vocab=3000, specials=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), lines=LINES):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=None)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=vocab, special_tokens=list(specials), show_progress=False, limit_alphabet=700))
    t.decoder = decoders.WordPiece()
    return t


def bert(lower, **options):
    t = wordpiece(lower, **options)
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", t.token_to_id("[CLS]")), ("[SEP]", t.token_to_id("[SEP]"))])
    return t


def distilbert():
    t = wordpiece(False, vocab=2500)
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    t.decoder = decoders.WordPiece(cleanup=False)
    return t


def mpnet():
    t = wordpiece(True, vocab=2500, specials=("<s>", "<pad>", "</s>", "[UNK]"))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return t


GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def bytelevel(pattern=None, normalizer=None, prefix=False, trim=True, vocab=3000, specials=(), **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    if pattern:
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, trim, use_regex=False)])
    else:
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix, trim_offsets=trim)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=vocab, special_tokens=list(specials), initial_alphabet=alphabet, show_progress=False))
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(add_prefix_space=prefix, trim_offsets=trim)
    return t


def roberta(prefix=False):
    t = bytelevel(prefix=prefix, specials=("<s>", "<pad>", "</s>", "<unk>"))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=prefix)
    return t


def modernbert():
    t = bytelevel(normalizer=normalizers.NFC())
    t.add_tokens([AddedToken("|||IP_ADDRESS|||", normalized=True)] + [AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    t.add_special_tokens([AddedToken(s) for s in ("[UNK]", "[CLS]", "[SEP]", "[PAD]")] + [AddedToken("[MASK]", lstrip=True)])
    ids = {s: t.token_to_id(s) for s in ("[CLS]", "[SEP]")}
    t.post_processor = template("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", **ids)
    return t


def llama3():
    t = bytelevel(GPT4 % "{1,3}", ignore_merges=True)
    t.add_special_tokens([AddedToken(s) for s in ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>")])
    begin = {"<|begin_of_text|>": t.token_to_id("<|begin_of_text|>")}
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                            template("<|begin_of_text|> $A", "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", **begin)])
    return t


def qwen():
    t = bytelevel(GPT4 % "", normalizers.NFC(), trim=False)
    t.add_special_tokens([AddedToken(s) for s in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    return t


def gpt2():
    t = bytelevel()
    t.add_special_tokens([AddedToken("<|endoftext|>", normalized=True)])
    return t


def train_spm(out, name, **options):
    prefix = os.path.join(out, name)
    file = prefix + ".txt"
    with open(file, "w", encoding="utf-8") as f:
        f.write("\n".join(line for line in LINES if len(line.encode()) < 4000))
    sentencepiece.SentencePieceTrainer.train(input=file, model_prefix=prefix, minloglevel=2, num_threads=1, shuffle_input_sentence=False, **options)
    os.remove(file)
    os.remove(prefix + ".vocab")
    return prefix + ".model"


# What a converter reads of the tokenizer that it converts.
COMMON = dict(add_prefix_space=True, legacy=True, do_lower_case=False, keep_accents=False, split_by_punct=False, vocab_type="spm", _extra_ids=100,
              pad_token="<pad>", eos_token="<eos>", bos_token="<bos>")


class Extractor:
    """The merges of a BPE model in the order of its scores. transformers 5 keeps the rule and has lost the call."""

    def __init__(self, model):
        self.sp = sentencepiece.SentencePieceProcessor(model_file=model)

    def extract(self, scores):
        vocab = {self.sp.id_to_piece(i): i for i in range(self.sp.get_piece_size())}
        if "\t" not in vocab and "<0x09>" in vocab and "<start_of_turn>" in vocab:  # Gemma's
            vocab["\t"] = vocab["<0x09>"]
        return vocab, convert.generate_merges(vocab, scores)


def converted(converter, model, specials, post=None, **options):
    original = SimpleNamespace(vocab_file=model, **{**COMMON, **options})
    converter = type(converter.__name__, (converter,), {"SpmExtractor": Extractor})
    c = converter(original)
    original.convert_ids_to_tokens = lambda i: c.proto.pieces[i].piece
    vocab = {piece: i for i, (piece, _) in enumerate(c.vocab(c.proto))}
    original.convert_tokens_to_ids = lambda token: vocab[token]
    t = c.converted()
    t.add_special_tokens(specials)  # as the tokenizer's class does
    if post:
        begin = {post: t.token_to_id(post)}
        t.post_processor = template(f"{post}:0 $A:0", f"{post}:0 $A:0 {post}:1 $B:1", **begin)
    return t


def mask(token):
    return AddedToken(token, lstrip=True, normalized=False)


UNIGRAM = dict(model_type="unigram", vocab_size=3000, character_coverage=0.9995)
# The SentencePiece models, and the classes that have them. Converters that share a model show what differs.
SPM = {
    "xlm-roberta": dict(UNIGRAM, normalization_rule_name="nmt_nfkc"),
    "albert": dict(UNIGRAM, normalization_rule_name="nfkc", pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]"], user_defined_symbols=["[MASK]"]),
    "deberta-v3": dict(UNIGRAM, normalization_rule_name="nmt_nfkc", pad_id=0, unk_id=3, bos_id=1, eos_id=2, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]"),
    "t5": dict(UNIGRAM, normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
    "llama2": dict(model_type="bpe", vocab_size=3000, byte_fallback=True, normalization_rule_name="identity", split_digits=True, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True),
    "gemma": dict(model_type="bpe", vocab_size=3000, byte_fallback=True, normalization_rule_name="identity", split_digits=True, remove_extra_whitespaces=False,
                  allow_whitespace_only_pieces=True, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3, user_defined_symbols=["<mask>", "<start_of_turn>", "\n\n", "▁▁", "▁▁▁"]),
}
FAIRSEQ = ["<s>", "</s>", "<unk>", "<pad>", mask("<mask>")]
BERT = ["[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]"]
LANGUAGES = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
CONVERTED = {
    "xlm-roberta": ("xlm-roberta", convert.XLMRobertaConverter, FAIRSEQ, {}),
    "camembert": ("xlm-roberta", convert.CamembertConverter, [*FAIRSEQ, "<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"], {}),
    "mbart": ("xlm-roberta", convert.MBartConverter, FAIRSEQ + LANGUAGES.split(), {}),
    "albert": ("albert", convert.AlbertConverter, ["[CLS]", "[SEP]", "<unk>", "<pad>", mask("[MASK]")], {"do_lower_case": True}),
    "deberta-v3": ("deberta-v3", convert.DebertaV2Converter, BERT, {}),
    "t5": ("t5", convert.T5Converter, ["</s>", "<unk>", "<pad>"] + [f"<extra_id_{i}>" for i in range(100)], {}),
    "llama2": ("llama2", convert.LlamaConverter, ["<s>", "</s>", "<unk>"], {"post": "<s>"}),
    "llama2-new": ("llama2", convert.LlamaConverter, ["<s>", "</s>", "<unk>"], {"post": "<s>", "legacy": False}),
    "gemma": ("gemma", convert.GemmaConverter, ["<pad>", "<eos>", "<bos>", "<unk>"], {"post": "<bos>"}),
}
TRAINED = {
    "bert-uncased": lambda: bert(True),
    "bert-cased": lambda: bert(False),
    "bert-multilingual": lambda: bert(False, vocab=4000, lines=SENTENCES.split("\n") * 50 + LINES[:2000]),
    "distilbert": distilbert,
    "mpnet": mpnet,
    "roberta": roberta,
    "roberta-prefix": lambda: roberta(True),
    "modernbert": modernbert,
    "gpt2": gpt2,
    "llama3": llama3,
    "qwen": qwen,
    "gpt4o": lambda: bytelevel(GPT4O),
}


def make(out, name):
    if name in TRAINED:
        return TRAINED[name]()
    model, converter, specials, options = CONVERTED[name]
    file = os.path.join(out, model + ".model")
    if not os.path.exists(file):
        train_spm(out, model, **SPM[model])
    return converted(converter, file, specials, **options)


def pack(data):
    return zstandard.ZstdCompressor(level=19).compress(data)


def main():
    out = sys.argv[1]
    if len(sys.argv) > 2:
        tokenizer = Tokenizer.from_str(zstandard.ZstdDecompressor().decompress(open(os.path.join(out, sys.argv[3] + ".json.zst"), "rb").read()).decode())
        for text in sys.argv[4:]:
            e = tokenizer.encode(text)
            print(e.ids, e.tokens, e.offsets, e.word_ids, repr(tokenizer.decode(e.ids, skip_special_tokens=False)), sep="\n")
        return
    os.makedirs(out, exist_ok=True)
    recorded = cases()
    with open(os.path.join(out, "cases.json.zst"), "wb") as f:
        f.write(pack(json.dumps(recorded).encode()))
    for name in [*TRAINED, *CONVERTED]:
        tokenizer = make(out, name)
        tokenizer.no_padding()
        text = tokenizer.to_str()
        tokenizer = Tokenizer.from_str(text)
        with open(os.path.join(out, name + ".json.zst"), "wb") as f:
            f.write(pack(text.encode()))
        with open(os.path.join(out, name + ".crc"), "wb") as f:
            for case in recorded:
                f.write(struct.pack("<I", answer(tokenizer, case)))
            for first in BLOCKS:
                f.write(struct.pack("<I", block(tokenizer, first)))
        print(name, tokenizer.get_vocab_size(), flush=True)


if __name__ == "__main__":
    main()
