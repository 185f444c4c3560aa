"""Attacks that belong to one shape of a remote: packs whose tables lie (folder and S3), what stands in a folder, answers
of an S3 server, frames on the wire.
"""
import os
from dataclasses import replace

import formats
import wire
from attacks import ALL, each
from formats import sha
from remotes import Remote

PACKS = ("folder", "s3")


# --- packs

def every(change):
    return lambda records: [change(r) for r in records]


@each("pack", {
    "whose records point behind it": {"change": every(lambda r: replace(r, offset=1 << 40))},
    "whose records point to 2^64-1": {"change": every(lambda r: replace(r, offset=2**64 - 1))},
    "whose records point into its header": {"change": every(lambda r: replace(r, offset=3))},
    "whose records all point to one entry": {"change": lambda rs: [replace(r, offset=rs[0].offset) for r in rs]},
    "whose records point into its index": {
        "change": lambda rs: [replace(r, offset=max(x.offset + x.stored for x in rs)) for r in rs]},
    "with objects of 4 GiB": {"change": every(lambda r: replace(r, stored=0xFFFFFFFF))},
    "with plain sizes of 4 GiB": {"change": every(lambda r: replace(r, plain=0xFFFFFFFF))},
    "with other plain sizes": {"change": every(lambda r: replace(r, plain=r.plain + 1))},
    "with other kinds": {"change": every(lambda r: replace(r, kind=formats.OPERATION))},
    "with kinds that are none": {"change": every(lambda r: replace(r, kind=0))},
    "with encodings that are none": {"change": every(lambda r: replace(r, encoding=77))},
    "with extra bytes of 65535": {"change": every(lambda r: replace(r, extra=65535))},
    "with false checksums": {"change": every(lambda r: replace(r, checksum=b"\0" * 8))},
    "with records not sorted": {"change": lambda rs: rs[::-1]},
    "with one record twice": {"change": lambda rs: rs[:1] + rs[:1] + rs[2:]},
    "with a fanout of zeros": {"fanout": lambda c: [0] * 256},
    "with a fanout of 2^32-1": {"fanout": lambda c: [0xFFFFFFFF] * 256},
    "with a fanout that falls": {"fanout": lambda c: c[::-1]},
    "that counts 2^63 records": {"footer": lambda o, n, v, m: (o, 1 << 63, v, m)},
    "that counts 2^58 records": {"footer": lambda o, n, v, m: (o, 1 << 58, v, m)},  # 64 times that is 2^64
    "that counts no records": {"footer": lambda o, n, v, m: (o, 0, v, m)},
    "whose index stands behind it": {"footer": lambda o, n, v, m: (1 << 62, n, v, m)},
    "whose index stands in its objects": {"footer": lambda o, n, v, m: (16, n, v, m)},
    "of version 2": {"footer": lambda o, n, v, m: (o, n, 2, m)},
    "of another magic": {"footer": lambda o, n, v, m: (o, n, v, b"MLXOTHER")},
}, shapes=PACKS, victim="lazy", overcome=ALL)
def tables(w, lies):
    return Remote(w.objects, w.honest.heads, pack=lies)


@each("pack cut", {
    "to nothing": lambda p: b"",
    "to its header": lambda p: p[:16],
    "to 3 bytes": lambda p: p[:3],
    "to a half": lambda p: p[:len(p) // 2],
    "before its footer": lambda p: p[:-64],
    "by one byte": lambda p: p[:-1],
    "by 32 bytes": lambda p: p[:-32],
    "by an index": lambda p: p[:-64 - 1024],
    "at its front": lambda p: p[16:],
    "and filled with zeros": lambda p: p[:100] + bytes(len(p) - 100),
}, shapes=PACKS, victim="lazy")
def cuts(w, cut):
    return Remote(w.objects, w.honest.heads, spoil=cut)


@each("pack with a flipped bit", {f"at {part} of 16": part for part in range(0, 16, 3)}, shapes=PACKS, victim="lazy")
def flips(w, part):
    def flip(whole):
        at = len(whole) * part // 16
        return whole[:at] + bytes(b ^ 1 for b in whole[at:at + 1]) + whole[at + 1:]
    # In every sixteenth of it, so that what is asked for is hit.
    return Remote(w.objects, w.honest.heads, spoil=lambda p: flip(p) if part else bytes(b ^ 1 for b in p[:80]) + p[80:])


# --- folders

def rename_packs(folder):
    packs = os.path.join(folder, "packs")
    for name in os.listdir(packs):
        if name.endswith(".pack"):
            os.rename(os.path.join(packs, name), os.path.join(packs, sha(b"another").hex() + ".pack"))


def instead(name, make):
    """Another thing in place of both copies of a small file, or of a folder."""
    def change(folder):
        import shutil
        for path in (os.path.join(folder, name), os.path.join(folder, name + ".copy")):
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.remove(path)
            elif path.endswith(".copy") and name == "packs":
                continue
            make(path)
    return change


def written(text):
    def make(path):
        with open(path, "wb") as f:
            f.write(formats.checked(text))
    return make


def sparse(path):
    with open(path, "wb") as f:
        f.truncate(8 << 30)


def fifo_pack(folder):
    for name in os.listdir(os.path.join(folder, "packs")):
        if name.endswith(".pack"):
            instead("packs/" + name, os.mkfifo)(folder)


for title, change in {
    "packs under other names": rename_packs,
    "packs that are pipes": fifo_pack,
    "heads that are a pipe": instead("heads", os.mkfifo),
    "heads that are a folder": instead("heads", os.mkdir),
    "heads that are a ring of links": instead("heads", lambda p: os.symlink(p, p)),
    "heads of 8 GiB": instead("heads", sparse),
    "heads that never end": instead("heads", lambda p: os.symlink("/dev/zero", p)),
    "format that is a pipe": instead("packs/FORMAT", os.mkfifo),
    "format of version 2": instead("packs/FORMAT", written(b"mlx store 2\n")),
    "format with escape codes": instead("packs/FORMAT", written(wire.ESCAPE)),
    "no packs at all": instead("packs", lambda p: None),
}.items():
    # A checkout does not ask for heads.
    each("folder with", {title: change}, shapes=("folder",), victim="lazy", overcome=("checkout",) * title.startswith("heads"))(
        lambda w, change: Remote(w.objects, w.honest.heads, folder=change))


# --- S3

def sizes(text, size, records):
    lines = text.splitlines(True)
    words = lines[-1].split()
    words[2] = words[2] if size is None else b"%d" % size
    words[3] = words[3] if records is None else b"%d" % records
    return b"".join(lines[:-1]) + b" ".join(words) + b"\n"


def identity(text):
    lines = text.splitlines(True)
    return b"".join(lines[:-1]) + lines[-1].replace(lines[-1].split()[1], sha(b"x").hex().encode())


for title, change in {
    "sizes of 2^63": lambda t: sizes(t, 1 << 63, None),
    "sizes of 1 GiB": lambda t: sizes(t, 1 << 30, None),
    "records of 2^63": lambda t: sizes(t, None, 1 << 63),
    "records of 8 million": lambda t: sizes(t, 1 << 30, (1 << 23) - 10),
    "no records": lambda t: sizes(t, None, 0),
    "a pack that is not there": lambda t: t.replace(b"pack ", b"pack " + b"0" * 64 + b" 2000 1\npack ", 1),
    "a pack of another id": lambda t: identity(t),
    "one pack twice": lambda t: t + t.splitlines(True)[-1],
    "another version": lambda t: b"mlx catalogue 9\n",
    "nothing": lambda t: b"",
    "escape codes": lambda t: t + wire.ESCAPE + b"\n",
    "a path for a pack": lambda t: t + b"pack ../../" + b"a" * 58 + b" 2000 1\n",
}.items():
    each("catalogue with", {title: change}, shapes=("s3",), victim="lazy", overcome=ALL * (title == "a pack that is not there"))(
        lambda w, change: Remote(w.objects, w.honest.heads, catalogue=change))


def zeros():
    while True:
        yield bytes(1 << 20)


def on(part, change):
    """Answers about keys with this in their name are other ones."""
    def answer(method, key, asked, honest):
        return change(method, asked, honest) if part in key else honest
    return answer


XML = b"<Error><Code>" + wire.ESCAPE + b"</Code><Message>" + wire.ESCAPE * 1000 + b"</Message></Error>"
for title, answer in {
    "no packs": on("packs/", lambda m, r, a: (404, {}, b"<Error><Code>NoSuchKey</Code></Error>")),
    "half of packs": on("packs/", lambda m, r, a: (a[0], a[1] | {"Content-Length": str(len(a[2]))}, a[2][:len(a[2]) // 2])),
    "half and says so": on("packs/", lambda m, r, a: (a[0], a[1], a[2][:len(a[2]) // 2])),
    "whole packs for ranges": on("packs/", lambda m, r, a: (200, a[1], a[2] * 2)),
    "more than was asked for": on("packs/", lambda m, r, a: (a[0], a[1], a[2] + bytes(1 << 20))),
    "packs without end": on("packs/", lambda m, r, a: (206, {}, zeros())),
    "a catalogue without end": on("catalogue", lambda m, r, a: (200, {}, zeros())),
    "a catalogue of 2^63 bytes": on("catalogue", lambda m, r, a: (200, {"Content-Length": str((1 << 63) - 1)}, a[2])),
    "other bytes of packs": on("packs/", lambda m, r, a: (a[0], a[1], bytes(len(a[2])))),
    "bits that are flipped": on("packs/", lambda m, r, a: (a[0], a[1], bytes(b ^ 1 for b in a[2]))),
    "304 to the first question": on("catalogue", lambda m, r, a: (304, a[1], b"")),
    "204": on("", lambda m, r, a: (204, {}, b"")),
    "another place": on("", lambda m, r, a: (301, {"Location": "http://127.0.0.1:1/"}, b"")),
    "files of this machine": on("", lambda m, r, a: (302, {"Location": "file:///etc/passwd"}, b"")),
    "errors with escape codes": on("", lambda m, r, a: (403, {}, XML)),
    "errors without end": on("", lambda m, r, a: (403, {}, zeros())),
    "headers with escape codes": on("catalogue", lambda m, r, a: (503, {"x-amz-error": "\x1b[31m"}, b"\x1b[31m")),
    "no page of XML": on("", lambda m, r, a: (500, {}, b"<" * 100000)),
}.items():
    each("server that answers with", {title: answer}, shapes=("s3",), victim="lazy")(
        lambda w, answer: Remote(w.objects, w.honest.heads, s3=answer))


# --- the wire

for lie in wire.LIES:
    words = "".join(" " + c.lower() if c.isupper() else c for c in lie).strip()
    # Somebody who clones asks for all that there is; others may not come to the lie.
    each("wire:", {words: lie}, shapes=("ssh",), victim="lazy", overcome=("fetch", "checkout"))(
        lambda w, lie: Remote(w.objects, w.honest.heads, wire=lie))
