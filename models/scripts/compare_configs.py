"""Compares rlxc with two versions of transformers: python compare_configs.py RLXC PYTHON4 PYTHON5 [--folders 100] [--seed 1] [--keep FOLDER]

It makes folders of a tokenizer.json and a tokenizer_config.json with random keys. The two interpreters have transformers 4 and 5. Where both
return the same ids, rlxc must return them; otherwise it must return those of one version and print a note. The tokenizers are those that
record_tokenizers.py wrote. Prints each difference, and ends with 1 if there is one.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

RECORDED = os.path.join(os.path.dirname(__file__), "../../tokenizer/testdata/recorded")
FAMILIES = {
    "bert-uncased": ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "PreTrainedTokenizerFast"],
    "bert-cased": ["BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast"],
    "roberta": ["RobertaTokenizer", "RobertaTokenizerFast", "PreTrainedTokenizerFast"],
    "roberta-prefix": ["RobertaTokenizer", "PreTrainedTokenizerFast"],
    "gpt2": ["GPT2Tokenizer", "GPT2TokenizerFast", "PreTrainedTokenizerFast"],
    "qwen": ["Qwen2Tokenizer", "Qwen2TokenizerFast", "PreTrainedTokenizerFast"],
    "llama3": ["PreTrainedTokenizerFast"],
    "modernbert": ["PreTrainedTokenizerFast"],
}
KEYS = {
    "add_prefix_space": [True, False], "add_bos_token": [True, False], "add_eos_token": [True, False], "do_lower_case": [True, False],
    "strip_accents": [True, False, None], "tokenize_chinese_chars": [True, False], "split_special_tokens": [True, False],
    "trim_offsets": [True, False], "clean_up_tokenization_spaces": [True, False], "model_max_length": [16, 512, 1e30],
    "padding_side": ["left", "right"], "truncation_side": ["left", "right"],
}
TEXTS = ["Hello World, don't PANIC!", " leading and trailing ", "Éclair ÜBER naïve 漢字 x²", "<s> </s> [CLS] [MASK] <mask> <|endoftext|> x", "",
         "a\n\nb\t 12345", "<|im_start|>user<|im_end|>"]


def answer(folder):
    """Prints the ids of the texts, in an interpreter with transformers."""
    from transformers import AutoTokenizer

    out = {}
    for name in sorted(os.listdir(folder)):
        try:
            tokenizer = AutoTokenizer.from_pretrained(os.path.join(folder, name))
            out[name] = [tokenizer.backend_tokenizer.encode(t).ids for t in TEXTS]
        except Exception as e:
            out[name] = repr(e)[:200]
    print("ANSWER" + json.dumps(out))


def ask(python, folder):
    run = subprocess.run([python, __file__, "--answer", folder], capture_output=True, text=True, check=True)
    return json.loads(run.stdout.split("ANSWER", 1)[1])


def random_config(r, name, tokenizer):
    config = {"tokenizer_class": r.choice(FAMILIES[name])}
    for key in r.sample(list(KEYS), r.randint(0, 6)):
        config[key] = r.choice(KEYS[key])
    added = [a for a in tokenizer["added_tokens"]]
    if added and r.random() < 0.5:
        decoder = {}
        for a in added:
            a = dict(a)
            index = str(a.pop("id"))
            if r.random() < 0.3:
                key = r.choice(["lstrip", "rstrip", "normalized", "single_word"])
                a[key] = not a[key]
            decoder[index] = a
        config["added_tokens_decoder"] = decoder
    contents = [a["content"] for a in added]
    for role, names in {"bos_token": ["<s>", "<|endoftext|>", "<|begin_of_text|>", "[CLS]"], "eos_token": ["</s>", "<|endoftext|>", "<|end_of_text|>", "[SEP]"]}.items():
        known = [n for n in names if n in contents]
        if known and r.random() < 0.6:
            config[role] = known[0]
    return config


def main():
    if sys.argv[1] == "--answer":
        return answer(sys.argv[2])
    import zstandard

    p = argparse.ArgumentParser()
    p.add_argument("rlxc")
    p.add_argument("python4")
    p.add_argument("python5")
    p.add_argument("--folders", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--keep")
    o = p.parse_args()
    files = {}
    for name in FAMILIES:
        with open(os.path.join(RECORDED, name + ".json.zst"), "rb") as f:
            files[name] = zstandard.ZstdDecompressor().decompress(f.read()).decode()
    with tempfile.TemporaryDirectory() as temporary:
        top = o.keep or temporary
        for i in range(o.folders):
            r = random.Random(o.seed + i)
            name = r.choice(list(FAMILIES))
            folder = os.path.join(top, f"{i:04}")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
                f.write(files[name])
            with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
                json.dump(random_config(r, name, json.loads(files[name])), f)
        four, five = ask(o.python4, top), ask(o.python5, top)
        wrong = agree = noted = failed = 0
        for name in sorted(four):
            config = open(os.path.join(top, name, "tokenizer_config.json"), encoding="utf-8").read()
            if isinstance(four[name], str) or isinstance(five[name], str):
                failed += 1
                print(f"{name}: transformers fails: {four[name] if isinstance(four[name], str) else five[name]} {config[:200]}")
                continue
            got, notes = [], ""
            for text in TEXTS:
                run = subprocess.run([o.rlxc, "tokenize", os.path.join(top, name), "--json", "--", text], capture_output=True, text=True)
                got.append(json.loads(run.stdout).get("ids", []) if run.returncode == 0 else run.stderr)
                notes = run.stderr
            same = four[name] == five[name]
            agree += same
            right = got == four[name] if same else got in (four[name], five[name]) and "note:" in notes
            noted += not same and right
            if not right:
                wrong += 1
                at = next((i for i in range(len(TEXTS)) if got[i] not in (four[name][i], five[name][i])), 0)
                print(f"{name}: {config}\n  {TEXTS[at]!r}: rlxc {got[at]}, 4 {four[name][at]}, 5 {five[name][at]}; notes: {notes.strip()}")
    print(f"{agree} folders on which both agree, {noted} on which rlxc follows one with a note, {failed} that transformers refuses, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
