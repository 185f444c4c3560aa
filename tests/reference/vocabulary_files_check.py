"""Compares the tokenizers of folders without a tokenizer.json with those that `transformers` makes of them.

usage: vocabulary_files_check.py MLX [--lines N] [--seed N]

Tiny models with random weights get vocab.json and merges.txt, or vocab.txt, of a tokenizer that is trained here on the text
of the machine, with special and added tokens said in every way that folders have. `mlx import model` reads them, and ids,
offsets and decoded text are compared on lines, random characters and random bytes. Exits with 1 where something differs.
It needs: pip install torch transformers. No test of ctest runs it: the packages are no dependencies.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import tokenizers
import transformers
from texts import known_characters, random_bytes, random_text, some_lines
from tokenizers import models, normalizers, pre_tokenizers, trainers
from tokenizers_check import compare

SIZE = 1200
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": SIZE}
BERT = {"[PAD]": "pad_token", "[UNK]": "unk_token", "[CLS]": "cls_token", "[SEP]": "sep_token", "[MASK]": "mask_token"}
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
END = "<|endoftext|>"


def token(content, **more):
    return {"content": content, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False, **more}


# name: architecture, special tokens of the vocabulary, files beside it
CASES = {
    "gpt2": ("GPT2", [END], {}),
    "gpt2 class": ("GPT2", [END], {"tokenizer_config": {"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": True}}),
    "gpt2 bos": ("GPT2", [END], {"tokenizer_config": {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True}}),
    "gpt2 added": ("GPT2", [END], {"added_tokens": {"<extra>": 1000, "the end": 1001}, "special_tokens_map": {"pad_token": "<extra>"}}),
    "gpt2 absent": ("GPT2", [], {"special_tokens_map": {"bos_token": token("<go>", lstrip=True), "pad_token": "<pad>"}}),
    "gpt2 decoder": ("GPT2", [END], {"tokenizer_config": {"added_tokens_decoder": {
        "0": token(END, special=True), "1000": token("<a>", rstrip=True, special=False), "1001": token("of the", single_word=True, special=False, normalized=True)},
        "pad_token": "<a>", "additional_special_tokens": ["<more>"]}}),
    "gpt2 null": ("GPT2", [END], {"tokenizer_config": {"bos_token": None, "image_token": "<image>", "extra_special_tokens": ["<x>", "<y>"]}}),
    "roberta": ("Roberta", ROBERTA, {}),
    "roberta map": ("Roberta", ROBERTA, {"special_tokens_map": {"mask_token": token("<mask>", lstrip=True), "cls_token": "<s>"},
                                         "tokenizer_config": {"add_prefix_space": True, "trim_offsets": False}}),
    "qwen2": ("Qwen2", [END], {"tokenizer_config": {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {
        "0": token(END, special=True), "1000": token("<|im_start|>", special=True)}, "additional_special_tokens": ["<|im_start|>"]}}),
    "bert": ("Bert", list(BERT), {}),
    "bert cased": ("Bert", list(BERT), {"tokenizer_config": {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}}),
    "bert options": ("Bert", list(BERT), {"tokenizer_config": {"strip_accents": False, "tokenize_chinese_chars": False},
                                          "added_tokens": {"New York": 1000}}),
    "bert names": ("Bert", ["<p>", "<u>", "<c>", "<s>", "<m>"], {"special_tokens_map": dict(zip(BERT.values(), ["<p>", "<u>", "<c>", "<s>", "<m>"]))}),
    "distilbert": ("DistilBert", list(BERT), {"tokenizer_config": {"tokenizer_class": "DistilBertTokenizer", "model_max_length": 512}}),
}


def write_weights(kind, folder):
    if kind == "GPT2":
        config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, n_positions=64, vocab_size=SIZE)
        made = transformers.GPT2LMHeadModel(config)
    elif kind == "Qwen2":
        made = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**TINY, num_key_value_heads=2, max_position_embeddings=64))
    elif kind == "DistilBert":
        made = transformers.DistilBertModel(transformers.DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=16, vocab_size=SIZE))
    else:
        made = getattr(transformers, kind + "Model")(getattr(transformers, kind + "Config")(**TINY))
    made.save_pretrained(folder)


def write_vocabulary(kind, special, lines, folder):
    if "Bert" in kind:
        made = tokenizers.Tokenizer(models.WordPiece(unk_token=special[1]))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=1000, special_tokens=special, show_progress=False, limit_alphabet=300)
    else:
        made = tokenizers.Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=special, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(lines, trainer)
    assert made.get_vocab_size() == 1000, made.get_vocab_size()
    made.model.save(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx")
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    mlx = os.path.abspath(options.mlx)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    lines = some_lines(options.lines)
    scripts = known_characters()
    known = {c for characters in scripts for c in characters}
    extra = ["<extra>", "the end", "<go>", "<a>", "of the", "<more>", "<image>", "<x>", "<mask>", "<s>", END, "<|im_start|>", "[MASK]", "New York", "<m>", " "]
    texts = lines + [random_text(scripts) for _ in range(options.lines)] + [random_bytes(known) for _ in range(options.lines)]
    texts += [" ".join(random.choices(extra + lines[:40], k=6)) for _ in range(500)] + ["".join(random.choices(extra, k=5)) for _ in range(500)]
    failed = 0
    print(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        subprocess.run([mlx, "init"], check=True, capture_output=True)
        for name, (kind, special, beside) in CASES.items():
            folder = os.path.join(scratch, "theirs", name.replace(" ", "-"))
            write_weights(kind, folder)
            write_vocabulary(kind, special, lines, folder)
            for file, content in beside.items():
                json.dump(content, open(os.path.join(folder, file + ".json"), "w"))
            imported = subprocess.run([mlx, "import", "model", folder], capture_output=True, text=True, check=False)
            if imported.returncode:
                failed += 1
                print(f"{name}: {imported.stderr}")
                continue
            made = transformers.AutoTokenizer.from_pretrained(folder)._tokenizer
            wrong = [compare(mlx, name, made, os.path.basename(folder), texts, special) for special in (False, True)]
            failed += any(wrong)
            print(f"{name:16} {len(texts)} texts, {wrong[0]} differ, {wrong[1]} with special tokens", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
