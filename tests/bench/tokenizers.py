"""Measures encoding against the package `tokenizers`, on one core, in processor time.

usage: tokenizers.py BUILD [--only NAME] [--file NAME=TOKENIZER_JSON]...

Texts are the machine's manual pages: English ones, and those of all other languages together. Tokenizers are trained on
them here; `--file` adds one that a package ships. Both programs get pieces of 64 KiB that end with lines, and give ids
alone (encode_batch_fast); of three rounds the best counts. It needs: pip install tokenizers. Prints a table.
"""
import argparse
import glob
import gzip
import os
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import sys  # noqa: E402

sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]  # this file has the package's name
import tokenizers  # noqa: E402
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PIECE, ROUNDS, BYTES = 1 << 16, 3, 4_000_000


def pages(pattern):
    text = bytearray()
    for path in sorted(glob.glob(pattern)):
        text += gzip.open(path).read() if path.endswith(".gz") else open(path, "rb").read()
        if len(text) >= BYTES:
            break
    return text.decode("utf-8", "ignore").replace("\0", "")


def pieces(text):
    data, out = text.encode("utf-8"), []
    while data:
        end = data.find(b"\n", min(PIECE, len(data)))
        out.append(data[:end + 1 if end >= 0 else None].decode("utf-8"))
        data = data[end + 1:] if end >= 0 else b""
    return out


def byte_level(pattern, normalizer=None):
    made = Tokenizer(models.BPE())
    split = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    made.pre_tokenizer = pre_tokenizers.Sequence(split + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not pattern)])
    if normalizer:
        made.normalizer = normalizer
    made.decoder = decoders.ByteLevel()
    return made, trainers.BpeTrainer(vocab_size=16000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)


def bert():
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    return made, trainers.WordPieceTrainer(vocab_size=16000, special_tokens=["[UNK]"], show_progress=False)


def llama2():
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # for the training, so that no token spans words
    return made, trainers.BpeTrainer(vocab_size=4000, special_tokens=["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)], max_token_length=12,
                                     limit_alphabet=500, show_progress=False)


def unigram():
    made = Tokenizer(models.Unigram())
    made.normalizer, made.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    return made, trainers.UnigramTrainer(vocab_size=8000, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--only")
    options = parser.parse_args()
    texts = {"English": pages("/usr/share/man/man[1-8]/*"), "other languages": pages("/usr/share/man/[a-z][a-z]*/man[1-8]/*")}
    kinds = {"GPT-2": lambda: byte_level(None), "Llama 3": lambda: byte_level(LLAMA3), "Qwen 2": lambda: byte_level(LLAMA3.replace("{1,3}", ""), normalizers.NFC()),
             "Llama 2": llama2, "BERT": bert, "unigram": unigram}
    print(f"tokenizers {tokenizers.__version__}, one core, MB/s of processor time\n")
    print(f"{'tokenizer':<14} {'text':<16} {'mlx':>8} {'tokenizers':>11} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, make in kinds.items():
            if options.only and options.only != name:
                continue
            made, trainer = make()
            made.train_from_iterator([piece for text in texts.values() for piece in text[:400_000].split("\n")], trainer)
            files[name] = os.path.join(folder, name + ".json")
            if name == "Llama 2":
                made.pre_tokenizer = pre_tokenizers.Sequence([])
            made.save(files[name])
        files.update(dict(one.split("=", 1) for one in options.file))
        for name, path in files.items():
            made = Tokenizer.from_file(path)
            made.no_truncation()
            for language, text in texts.items():
                place, parts = os.path.join(folder, "text"), pieces(text)
                open(place, "w", encoding="utf-8", newline="").write(text)
                count, seconds, _ = subprocess.run([os.path.join(options.build, "bench_tokenizers"), path, place, str(PIECE), str(ROUNDS)],
                                                   capture_output=True, text=True, check=True).stdout.split()
                best = float("inf")
                for _ in range(ROUNDS):
                    started = time.process_time()
                    tokens = sum(len(one.ids) for one in made.encode_batch_fast(parts, add_special_tokens=False))
                    best = min(best, time.process_time() - started)
                assert tokens == int(count), f"{name}: {tokens} tokens, mlx has {count}"
                megabytes = len(text.encode("utf-8")) / 1e6
                own, other = megabytes / float(seconds), megabytes / best
                print(f"{name:<14} {language:<16} {own:>8.1f} {other:>11.1f} {own / other:>6.1f}x", flush=True)


main()
