"""Compares mlx's tokenizers with the PyPI packages `tokenizers` and `sentencepiece`: ids, offsets and decoded text.

usage: tokenizers_check.py MLX [--lines N] [--seed N] [--only KIND] [--text FOLDER]... [--file TOKENIZER_JSON]...

Tokenizers of every kind are trained here on the text that the machine has (manual pages and documents in many
languages), and compared on lines of that text, on random characters of every script, on random bytes and on strings
made of the tokenizers' own pieces. `--file` adds tokenizers that a package ships. Characters that came into Unicode
after 8.0 are left out of the random ones: the packages have tables of several versions. Exits with 1 where something
differs. It needs: pip install tokenizers sentencepiece. No test of ctest runs it: the packages are no dependencies.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import tokenizers
from texts import byte_offsets, known_characters, random_bytes, random_text, some_lines
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI_HAN = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{L}&&[^\p{Han}]]+|\p{N}{1,3}|\s+"


# --- tokenizers ---

def byte_level(pattern=None, normalizer=None, prefix=False, **model):
    made = Tokenizer(models.BPE(**model))
    if normalizer:
        made.normalizer = normalizer
    if pattern is None:
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    else:
        patterns = pattern if isinstance(pattern, list) else [pattern]
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(one), "isolated") for one in patterns] + [pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    return made, trainers.BpeTrainer(vocab_size=4000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"],
                                     show_progress=False)


def gpt2(**options):
    return byte_level(**options)


def roberta():
    made, trainer = byte_level(prefix=True)
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    return made, trainer


def clip():
    made = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>", continuing_subword_prefix=""))
    made.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    return made, trainers.BpeTrainer(vocab_size=3000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), end_of_word_suffix="</w>",
                                     special_tokens=["<|endoftext|>"], show_progress=False)


def llama2(metaspace=False, **model):
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True, **model))
    if metaspace:
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        made.decoder = decoders.Metaspace()
    else:
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=special, show_progress=False, limit_alphabet=400, max_token_length=12)
    return made, trainer


def bpe_suffix(fuse):
    made = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>", fuse_unk=fuse))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.BPEDecoder()
    return made, trainers.BpeTrainer(vocab_size=3000, special_tokens=["[UNK]"], end_of_word_suffix="</w>", limit_alphabet=200, show_progress=False)


def bpe_prefix():
    made = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made, trainers.BpeTrainer(vocab_size=3000, special_tokens=["[UNK]"], continuing_subword_prefix="##", limit_alphabet=200, show_progress=False)


def bert(**options):
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(**options)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    return made, trainers.WordPieceTrainer(vocab_size=3000, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=500, show_progress=False)


def unigram(normalizer=None, pre_tokenizer=None):
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizer or normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizer or pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    return made, trainers.UnigramTrainer(vocab_size=3000, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)


def word_level(pre_tokenizer, normalizer=None):
    made = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizer
    if normalizer:
        made.normalizer = normalizer
    return made, trainers.WordLevelTrainer(vocab_size=3000, special_tokens=["[UNK]"], show_progress=False)


KINDS = {
    "gpt2": gpt2,
    "gpt2-prefix-trimmed": roberta,
    "gpt2-nfc": lambda: byte_level(normalizer=normalizers.NFC()),
    "gpt2-nfkc": lambda: byte_level(normalizer=normalizers.NFKC()),
    "llama3": lambda: byte_level(LLAMA3, ignore_merges=True),
    "qwen2": lambda: byte_level(QWEN2, normalizers.NFC()),
    "o200k": lambda: byte_level(O200K),
    "deepseek": lambda: byte_level([r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK]),
    "bloom": lambda: byte_level(BLOOM),
    "kimi": lambda: byte_level(KIMI_HAN),
    "starcoder": lambda: (lambda made, trainer: (made, trainer))(*digits_first()),
    "clip": clip,
    "llama2": llama2,
    "llama2-metaspace": lambda: llama2(metaspace=True),
    "bpe-suffix": lambda: bpe_suffix(False),
    "bpe-suffix-fused": lambda: bpe_suffix(True),
    "bpe-prefix": bpe_prefix,
    "bert-uncased": bert,
    "bert-cased": lambda: bert(lowercase=False),
    "bert-accents": lambda: bert(strip_accents=False),
    "unigram": unigram,
    "unigram-t5": lambda: unigram(pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])),
    "unigram-nfd": lambda: unigram(normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])),
    "words-digits": lambda: word_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.WhitespaceSplit()])),
    "words-punctuation": lambda: word_level(pre_tokenizers.Sequence([pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.Digits()]),
                                            normalizers.Sequence([normalizers.Strip(), normalizers.NFKD()])),
    "words-contiguous": lambda: word_level(pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"),
                                                                    pre_tokenizers.CharDelimiterSplit(" ")]), normalizers.Strip(True, False)),
    "words-merged-next": lambda: word_level(pre_tokenizers.Split(Regex(r"[\s\p{P}]"), "merged_with_next"), normalizers.Lowercase()),
}


def digits_first():
    made, trainer = byte_level()
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return made, trainer


def add_tokens(made):
    """Markers and words of every sort."""
    made.add_special_tokens([tokenizers.AddedToken("<|im_start|>", special=True, normalized=False)])
    made.add_tokens([
        tokenizers.AddedToken("<|im_start|>x", normalized=False),
        tokenizers.AddedToken("ßé", normalized=True),
        tokenizers.AddedToken("Word", single_word=True, normalized=False),
        tokenizers.AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False),
        tokenizers.AddedToken("  ", normalized=True),
    ])
    return made


# --- comparison ---

def mlx_encode(mlx, path, texts, *options):
    ask = subprocess.run([mlx, "tokenizer", "encode", path, "-", "--null", "--jsonl", *options], input="\0".join(texts).encode("utf-8"),
                         capture_output=True, check=False)
    if ask.returncode != 0:
        sys.exit(f"{path}: {ask.stderr.decode()}")
    return [json.loads(line) for line in ask.stdout.decode("utf-8").split("\n") if line]


def difference(made, text, got, special):
    try:
        wanted = made.encode(text, add_special_tokens=special)
    except BaseException as error:  # the package's own failures are no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return None
    if got["ids"] != wanted.ids:
        return f"ids {got['ids'][:20]} not {wanted.ids[:20]} ({wanted.tokens[:20]})"
    places = byte_offsets(text)
    offsets = [[places[a], places[b]] for a, b in wanted.offsets]
    if got["offsets"] != offsets:
        at = next(i for i, (a, b) in enumerate(zip(got["offsets"], offsets)) if a != b)
        return f"offsets: token {at} ({wanted.tokens[at]!r}) {got['offsets'][at]} not {offsets[at]}"
    decoded = made.decode(wanted.ids, skip_special_tokens=True) if wanted.ids else ""
    if got["text"] != decoded:
        return f"text {got['text'][:80]!r} not {decoded[:80]!r}"
    return None


def compare(mlx, name, made, path, texts, special=False):
    texts = [text for text in texts if text]
    answers = mlx_encode(mlx, path, texts, *(["--special"] if special else []))
    assert len(answers) == len(texts), f"{name}: {len(answers)} answers to {len(texts)} texts"
    wrong = 0
    for text, got in zip(texts, answers):
        why = difference(made, text, got, special)
        if why:
            wrong += 1
            if wrong <= 3:
                print(f"  {name}: {text[:80]!r}: {why}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mlx")
    parser.add_argument("--lines", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--text", action="append")
    parser.add_argument("--file", action="append", default=[])
    options = parser.parse_args()
    random.seed(options.seed)
    lines = some_lines(options.lines, options.text)
    scripts = known_characters()
    known = {c for script in scripts for c in script}
    made_up = [random_text(scripts) for _ in range(len(lines) // 4)] + [random_bytes(known) for _ in range(len(lines) // 8)]
    blocks = ["\n".join(lines[at:at + 8]) for at in range(0, len(lines) // 4, 8)]
    texts = lines + made_up + blocks
    bad = count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, make in KINDS.items():
            if options.only and options.only not in name:
                continue
            made, trainer = make()
            made.train_from_iterator(random.sample(lines, min(len(lines), 20000)) + made_up[:500], trainer)
            # With Strip the package fails, or cuts at wrong places, where there are added tokens too.
            strips = "Strip(" in str(made.normalizer)
            for suffix, change in (("", lambda one: one), ("+added", add_tokens))[:1 if strips else 2]:
                change(made)
                path = os.path.join(folder, f"{name}{suffix}.json")
                made.save(path)
                own = [made.decode([random.randrange(made.get_vocab_size()) for _ in range(random.randrange(1, 12))], skip_special_tokens=False)
                       for _ in range(len(lines) // 8)]
                own = [text.replace("\0", "") for text in own]
                marked = [text[:len(text) // 2] + random.choice(["<|im_start|>", "<|im_start|>x", " Word ", "Word", "  <mask>  ", "ßé", "    "]) +
                          text[len(text) // 2:] for text in made_up[:len(lines) // 8]]
                some = texts + own if not suffix else marked + own + lines[:len(lines) // 8]
                wrong = compare(options.mlx, name + suffix, made, path, some)
                print(f"{name + suffix}: {len(some)} texts, {wrong} differ", flush=True)
                bad, count = bad + wrong, count + len(some)
        for path in options.file:
            made = Tokenizer.from_file(path)
            made.no_truncation()
            made.no_padding()
            for special in (False, True):
                wrong = compare(options.mlx, path, made, path, texts, special)
                print(f"{path}{' with special tokens' if special else ''}: {len(texts)} texts, {wrong} differ", flush=True)
                bad, count = bad + wrong, count + len(texts)
    print(f"{count} texts, {bad} differ")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
