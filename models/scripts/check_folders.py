"""Holds transformers to the recorded answers for folders without tokenizer.json: python check_folders.py FOLDER

FOLDER is what record_tokenizers.py wrote. The folders are those of TestFolders in tokenizer/folder_test.go: a vocabulary, merges, and the
files beside them. Prints a line for each, and ends with 1 if an answer differs.
"""

import json
import os
import struct
import sys
import tempfile

import zstandard
from transformers import AutoTokenizer

from record_tokenizers import answer

MASK = {"mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}}
TOKENS = {"3000": "<|endoftext|>", "3001": "<|im_start|>", "3002": "<|im_end|>"}
FOLDERS = [
    ("bert-uncased", {"tokenizer_config.json": {"tokenizer_class": "BertTokenizer"}}),
    ("bert-cased", {"tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "do_lower_case": False}}),
    ("bert-multilingual", {"tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "do_lower_case": False}}),
    ("roberta", {"tokenizer_config.json": {"tokenizer_class": "RobertaTokenizer"}, "special_tokens_map.json": MASK}),
    ("roberta", {"tokenizer_config.json": {"tokenizer_class": "RobertaTokenizer", **MASK}}),
    ("roberta-prefix", {"tokenizer_config.json": {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True, **MASK}}),
    ("qwen", {"tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer",
                                        "added_tokens_decoder": {i: {"content": s, "special": True} for i, s in TOKENS.items()}}}),
]
STEP = 7  # one case in so many


def unpack(path):
    with open(path, "rb") as f:
        return zstandard.ZstdDecompressor().decompress(f.read())


def write(path, value):
    with open(path, "w", encoding="utf-8") as f:
        f.write(value if isinstance(value, str) else json.dumps(value))


def main():
    recorded, failed = sys.argv[1], False
    cases = json.loads(unpack(os.path.join(recorded, "cases.json.zst")))
    for name, files in FOLDERS:
        model = json.loads(unpack(os.path.join(recorded, name + ".json.zst")))["model"]
        with tempfile.TemporaryDirectory() as folder:
            if model["type"] == "BPE":
                write(os.path.join(folder, "vocab.json"), model["vocab"])
                write(os.path.join(folder, "merges.txt"), "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in model["merges"]))
            else:
                write(os.path.join(folder, "vocab.txt"), "\n".join(sorted(model["vocab"], key=model["vocab"].get)) + "\n")
            for file, value in files.items():
                write(os.path.join(folder, file), value)
            tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
        with open(os.path.join(recorded, name + ".crc"), "rb") as f:
            sums = f.read()
        looked = range(0, len(cases), STEP)
        differing = [i for i in looked if answer(tokenizer, cases[i]) != struct.unpack_from("<I", sums, 4 * i)[0]]
        print(f"{name}: {len(differing)} of {len(looked)} differ", *[repr(cases[i]) for i in differing[:3]])
        failed = failed or bool(differing)
    sys.exit(failed)


if __name__ == "__main__":
    main()
