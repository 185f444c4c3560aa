"""Compares mlx's reading of tokenizer.model with the PyPI package `sentencepiece`: ids, offsets and decoded text.

usage: sentencepiece_check.py MLX [--lines N] [--seed N]

Models of every kind are trained here on the text that the machine has, and compared on lines of it, on random characters
of every script and on strings of the models' own pieces. It needs: pip install sentencepiece protobuf.
"""
import argparse
import io
import json
import os
import random
import subprocess
import sys
import tempfile

import sentencepiece
import texts as texts_of

KINDS = {
    "unigram": {"model_type": "unigram"},
    "unigram-bytes": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 2000},
    "unigram-plain": {"model_type": "unigram", "normalization_rule_name": "identity", "add_dummy_prefix": False, "remove_extra_whitespaces": False},
    "unigram-symbols": {"model_type": "unigram", "user_defined_symbols": ["<sep>", "ab c", "é"], "control_symbols": ["<ctl>"]},
    "unigram-casefold": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf"},
    "unigram-suffix": {"model_type": "unigram", "treat_whitespace_as_suffix": True},
    "unigram-across": {"model_type": "unigram", "split_by_whitespace": False},
    "bpe": {"model_type": "bpe"},
    "bpe-llama": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
                  "split_digits": True, "allow_whitespace_only_pieces": True},
    "bpe-symbols": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "abc", "é"]},
    "bpe-across": {"model_type": "bpe", "split_by_whitespace": False},
}


def mlx_encode(mlx, path, texts):
    ask = subprocess.run([mlx, "tokenizer", "encode", path, "-", "--null", "--jsonl"], input="\0".join(texts).encode("utf-8"),
                         capture_output=True, check=False)
    if ask.returncode != 0:
        sys.exit(f"{path}: {ask.stderr.decode()}")
    return [json.loads(line) for line in ask.stdout.decode("utf-8").split("\n") if line]


def difference(made, text, got):
    proto = made.encode(text, return_type="proto")
    ids = [piece.id for piece in proto.pieces]
    if got["ids"] != ids:
        return f"ids {got['ids'][:24]} not {ids[:24]}"
    offsets = [[piece.begin, piece.end] for piece in proto.pieces]
    # A character's bytes are tokens of their own: the package gives the place to the last one.
    if got["offsets"] != offsets and not any(made.is_byte(i) for i in ids):
        at = next(i for i, (a, b) in enumerate(zip(got["offsets"], offsets)) if a != b)
        return f"offsets: token {at} ({made.id_to_piece(ids[at])!r}) {got['offsets'][at]} not {offsets[at]}"
    decoded = made.decode(ids)
    if got["text"] != decoded:
        return f"text {got['text'][:80]!r} not {decoded[:80]!r}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mlx")
    parser.add_argument("--lines", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    options = parser.parse_args()
    random.seed(options.seed)
    lines = texts_of.some_lines(options.lines)
    scripts = texts_of.known_characters()
    known = {c for script in scripts for c in script}
    made_up = [texts_of.random_text(scripts) for _ in range(len(lines) // 4)] + [texts_of.random_bytes(known) for _ in range(len(lines) // 8)]
    blocks = [" ".join(lines[at:at + 8]) for at in range(0, len(lines) // 4, 8)]
    bad = count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, how in KINDS.items():
            if options.only and options.only not in name:
                continue
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(line for line in lines + made_up[:300]), model_writer=model, minloglevel=2, num_threads=1,
                                                     hard_vocab_limit=False, character_coverage=0.98, **{"vocab_size": 3000, **how})
            path = os.path.join(folder, f"{name}.model")
            open(path, "wb").write(model.getvalue())
            made = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
            own = ["".join(made.id_to_piece(random.randrange(made.get_piece_size())) for _ in range(random.randrange(1, 10))).replace("▁", " ")
                   for _ in range(len(lines) // 8)]
            some = [text for text in lines + made_up + blocks + own if text]
            wrong = 0
            for text, got in zip(some, mlx_encode(options.mlx, path, some), strict=True):
                why = difference(made, text, got)
                if why:
                    wrong += 1
                    if wrong <= 3:
                        print(f"  {name}: {text[:80]!r}: {why}")
            print(f"{name}: {len(some)} texts, {wrong} differ", flush=True)
            bad, count = bad + wrong, count + len(some)
    print(f"{count} texts, {bad} differ")
    sys.exit(1 if bad else 0)


main()
