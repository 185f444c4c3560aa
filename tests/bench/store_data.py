# The data that store.sh measures with, the same bytes on every machine: small files, a checkpoint and its successor, a
# large file, a million tiny files. Used as `store_data.py KIND ARGUMENTS`.
import hashlib
import json
import math
import os
import random
import struct
import sys

MIB = 1 << 20


def noise(count, *key):
    """Bytes that nothing compresses, from a key: fast at any size."""
    return hashlib.shake_128(repr(key).encode()).digest(count)


def small(folder, count):
    """Files of log-normal sizes around 4 KiB, a thousand to a folder; every second one is text that compresses."""
    rng = random.Random(1)
    words = [bytes(rng.choice(b"abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 9))) for _ in range(2000)]
    text = b" ".join(rng.choice(words) for _ in range(200_000))
    for i in range(count):
        inside = os.path.join(folder, f"class{i // 1000:03}")
        if i % 1000 == 0:
            os.makedirs(inside)
        size = max(1, min(200_000, int(rng.lognormvariate(math.log(4096), 1.0))))
        at = rng.randrange(len(text) - 200_000)
        content = rng.randbytes(size) if i % 2 else (b"%d " % i + text[at : at + size])[:size]
        with open(os.path.join(inside, f"{i:06}.{'bin' if i % 2 else 'txt'}"), "wb") as out:
            out.write(content)


def checkpoint(path, size, kind, changed):
    """32 tensors of bf16 noise; as `raw` bytes, or a safetensors file. With `changed`, 5 % of the bytes are others, a
    run in every fourth tensor, and there are 64 bytes more: in the middle of raw bytes, in the header of safetensors.
    Prints how many bytes differ."""
    tensors = 32
    each = size // tensors
    different = 0
    with open(path, "wb") as out:
        if kind == "safetensors":
            header = {"__metadata__": {"format": "pt", "step": "1000"}}
            for i in range(tensors):
                offsets = [i * each, (i + 1) * each]
                header[f"layers.{i}.weight"] = {"dtype": "BF16", "shape": [each // 2], "data_offsets": offsets}
            if changed:
                header["__metadata__"]["note"] = "n" * 53
            text = json.dumps(header).encode()
            text += b" " * (-len(text) % 8)
            out.write(struct.pack("<Q", len(text)) + text)
        for i in range(tensors):
            tensor = noise(each, "tensor", i)
            if changed and i % 4 == 0:
                run = each // 5
                at = (i * 7919 * 4096) % (each - run)
                tensor = tensor[:at] + noise(run, "changed", i) + tensor[at + run :]
                different += run
            if changed and kind == "raw" and i == tensors // 2:
                tensor = tensor[: each // 2] + noise(64, "inserted") + tensor[each // 2 :]
            out.write(tensor)
    print(different + 64 if changed else 0)


def large(path, size):
    with open(path, "wb") as out:
        for i in range(size // (16 * MIB)):
            out.write(noise(16 * MIB, "large", i))


def tiny(folder, count):
    """All in one folder."""
    os.makedirs(folder)
    handle = os.open(folder, os.O_RDONLY)
    for i in range(count):
        out = os.open(f"image_{i:07}.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=handle)
        os.write(out, b"label %d\n" % i)
        os.close(out)


if __name__ == "__main__":
    kind, arguments = sys.argv[1], sys.argv[2:]
    if kind == "small":
        small(arguments[0], int(arguments[1]))
    elif kind == "checkpoint":
        checkpoint(arguments[0], int(arguments[1]) * MIB, arguments[2], arguments[3:] == ["changed"])
    elif kind == "large":
        large(arguments[0], int(arguments[1]) * MIB)
    elif kind == "tiny":
        tiny(arguments[0], int(arguments[1]))
    else:
        sys.exit(f"unknown kind {kind}")
