"""The texts that tokenizers are compared on: what the machine has in many languages, and made-up strings. Used by the
checks beside it.
"""
import glob
import gzip
import os
import random
import sys
import unicodedata

FOLDERS = ["/usr/share/man/*/man*/*", "/usr/share/doc/**/*.gz", "/usr/share/doc/**/*.txt", "/usr/share/perl/**/*.pod"]


def machine_text(folders):
    """Lines of pages and documents, a part of each file, so that many languages count."""
    paths = [path for folder in folders for path in sorted(glob.glob(folder, recursive=True)) if os.path.isfile(path)]
    random.shuffle(paths)
    for path in paths:
        try:
            data = gzip.open(path).read(200_000) if path.endswith(".gz") else open(path, "rb").read(200_000)
        except OSError:
            continue
        for line in data.decode("utf-8", "ignore").split("\n"):
            line = line.replace("\0", "")
            if line.strip():
                yield line


def known_characters():
    """Characters of Unicode 8.0 by script, roughly: by the first word of their names."""
    ages = {}
    for path in ("/usr/share/unicode/DerivedAge.txt",):
        if not os.path.exists(path):
            sys.exit(f"{path} is missing: apt install unicode-data")
        for line in open(path, encoding="utf-8"):
            fields = [field.strip() for field in line.split("#")[0].split(";")]
            if len(fields) == 2 and float(fields[1]) <= 8.0:
                first, _, last = fields[0].partition("..")
                for code in range(int(first, 16), int(last or first, 16) + 1):
                    if not 0xD800 <= code < 0xE000 and not 0xE000 <= code < 0xF900 and code < 0xF0000 and code not in CHANGED:
                        ages[code] = True
    scripts = {}
    for code in ages:
        name = unicodedata.name(chr(code), "control")
        scripts.setdefault(name.split()[0], []).append(chr(code))
    return list(scripts.values())


# Code points whose category is another one in one of the packages' tables, and the zero byte, which ends a text here.
CHANGED = {0, 0x1734, 0x1CF2, 0x1CF3}

SPICE = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "'s", "'S", "'LL", "don't", "1234567", "ſ", "K", "é", "e\u0301", "\u0301", "한국어",
         "각", "ﬁ", "①", "İ", "ß", "<|endoftext|>", "<s>", "[MASK]", "\u200d", "👩\u200d👩\u200d👧", "🇩🇪🇫🇷", "▁", "▁▁", "##", "<0x41>", "�", "。", "…",
         "\u00ad", "\u2581", "x" * 130, " " * 40, "…" * 70, "ab" * 90]


def random_text(scripts):
    parts = []
    for _ in range(random.randrange(1, 12)):
        choice = random.random()
        if choice < 0.3:
            parts.append(random.choice(SPICE))
        elif choice < 0.5:
            parts.append("".join(chr(random.randrange(1, 128)) for _ in range(random.randrange(1, 10))))
        else:
            script = random.choice(scripts)
            parts.append("".join(random.choice(script) for _ in range(random.randrange(1, 8))))
    return "".join(parts)


def random_bytes(known):
    text = bytes(random.randrange(1, 256) for _ in range(random.randrange(1, 60))).decode("utf-8", "replace")
    return "".join(c for c in text if c in known)


def some_lines(count, folders=None):
    lines = []
    for line in machine_text(folders or FOLDERS):
        lines.append(line)
        if len(lines) >= count:
            break
    return lines


def byte_offsets(text):
    at, out = 0, [0]
    for c in text:
        at += len(c.encode("utf-8"))
        out.append(at)
    return out
