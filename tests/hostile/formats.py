"""Packs, manifests, chunk lists, small files and catalogues, written byte by byte from mlx-format-pack(5),
mlx-format-manifest(5) and mlx-format-remote(5) and from nothing else, so that it also shows that the pages are right.
Used by attacks.py. What is written is honest unless the caller says otherwise: every lie is an argument.
"""
import hashlib
import struct
from dataclasses import dataclass

CHUNK, LIST, MANIFEST, SHARD, OPERATION = 1, 2, 3, 4, 5
RAW, ZSTD, DELTA, PLANES = 0, 1, 2, 3
FILE, EXECUTABLE, LINK = 0o100644, 0o100755, 0o120000


def sha(data):
    return hashlib.sha256(data).digest()


def text_id(digest):
    return "sha256:" + digest.hex()


# --- packs

@dataclass(frozen=True)
class Object:
    """An entry of a pack. `checksum` is that of the stored bytes unless it lies."""
    kind: int
    id: bytes
    stored: bytes
    plain_size: int
    encoding: int = RAW
    extra: bytes = b""
    key_id: int = 0
    checksum: bytes = b""

    def sum(self):
        return self.checksum or sha(self.stored)[:8]

    def header(self):
        return struct.pack("<4sBBHIIII8s32s", b"MLXE", self.kind, self.encoding, len(self.extra), self.key_id,
                           len(self.stored), self.plain_size, 0, self.sum(), self.id)

    def entry(self):
        return self.header() + self.extra + self.stored


def plain(kind, data, identity=None):
    return Object(kind, identity or sha(data), data, len(data))


@dataclass
class Record:
    """A row of a pack's trailing index."""
    id: bytes
    offset: int
    checksum: bytes
    stored: int
    plain: int
    kind: int
    encoding: int
    extra: int
    key_id: int

    def bytes(self):
        return struct.pack("<32sQ8sIIBBHI", self.id, self.offset, self.checksum, self.stored, self.plain, self.kind,
                           self.encoding, self.extra, self.key_id)


def pack(objects, change=None, fanout=None, footer=None, header=b"MLXPACK\n" + struct.pack("<IB3x", 1, 1)):
    """A pack and its ID. `change` alters the sorted records, `fanout` the 256 counts, `footer` (offset of the index,
    number of records, version, magic)."""
    body, records = header, []
    for o in objects:
        offset = len(body) + 64 + len(o.extra)
        body += o.entry()
        records.append(Record(o.id, offset, o.sum(), len(o.stored), o.plain_size, o.kind, o.encoding, len(o.extra), o.key_id))
    records.sort(key=lambda r: (r.id, r.kind))
    counts = [sum(r.id[0] <= first for r in records) for first in range(256)]
    if change:
        records = change(records)
    index = struct.pack("<256I", *(fanout(counts) if fanout else counts)) + b"".join(r.bytes() for r in records)
    end = (len(body), len(records), 1, b"MLXINDEX")
    offset, number, version, magic = footer(*end) if footer else end
    return body + index + struct.pack("<QQ32sII8s", offset, number, sha(index), version, 0, magic), sha(index)


# --- zstd frames by hand: raw blocks and runs of one byte

def zstd(parts, claimed=None):
    """One frame that makes `parts`: bytes as they are, or (byte, count) as runs, 4 bytes for every 128 KiB. `claimed`:
    the content size that its header says, None for none at all."""
    if claimed is None:
        frame = b"\x28\xb5\x2f\xfd" + bytes([0x00, (27 - 10) << 3])  # window of 128 MiB
    else:
        frame = b"\x28\xb5\x2f\xfd" + bytes([0xA0]) + struct.pack("<I", claimed)  # one segment, size of 4 bytes
    blocks = []
    for part in parts:
        if isinstance(part, bytes):
            blocks += [(0, len(part[at:at + 131072]), part[at:at + 131072]) for at in range(0, len(part), 131072)]
        else:
            byte, count = part
            blocks += [(1, min(131072, count - at), bytes([byte])) for at in range(0, count, 131072)]
    for number, (kind, size, data) in enumerate(blocks):
        head = (number == len(blocks) - 1) | kind << 1 | size << 3
        frame += struct.pack("<I", head)[:3] + data
    return frame


# --- files: chunks and their lists

def chunk_list(items, level=0, size=None, count=None):
    """`items`: (id, bytes of the file) each."""
    head = struct.pack("<4sHBBQII", b"MLXL", 1, 1, level, sum(n for _, n in items) if size is None else size,
                       len(items) if count is None else count, 0)
    return head + b"".join(i + struct.pack("<Q", n) for i, n in items)


def cut(data, size=65536):
    """The chunks of a file; any cutting reads back."""
    return [plain(CHUNK, data[at:at + size]) for at in range(0, len(data), size)] or [plain(CHUNK, b"")]


def file_objects(data):
    chunks = cut(data)
    if len(chunks) == 1:
        return chunks
    return chunks + [plain(LIST, chunk_list([(c.id, c.plain_size) for c in chunks]), sha(data))]


# --- manifests

def varint(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def entry(path, content, mode=FILE, size=None):
    """`content`: the file's bytes."""
    return path, mode, len(content) if size is None else size, sha(content)


def shard(entries, count=None, number=varint):
    body = b"MLXS" + struct.pack("<HBB", 1, 1, 0) + number(len(entries) if count is None else count)
    for path, mode, size, digest in entries:
        body += number(len(path)) + path + number(mode) + number(size) + digest
    return plain(SHARD, body)


def ends_shard(path):
    return int.from_bytes(sha(path)[:8], "big") % 1024 == 0


def cut_shards(entries):
    """The one way in which a manifest is cut."""
    shards = [[]]
    for e in entries:
        shards[-1].append(e)
        if ends_shard(e[0]):
            shards.append([])
    return [s for s in shards if s]


def manifest(entries, shards=None, rows=None, count=None, sort=True):
    """Root first, then its shards. `shards`: a cutting that is not the right one; `rows` alters what the root says of
    them: (first path, id, entries, bytes)."""
    parts = shards or cut_shards(sorted(entries) if sort else entries)
    objects = [shard(p) for p in parts]
    said = [(p[0][0], o.id, len(p), sum(e[2] for e in p)) for p, o in zip(parts, objects)]
    said = rows(said) if rows else said
    body = b"MLXM" + struct.pack("<HBB", 1, 1, 0) + varint(len(said) if count is None else count)
    for first, digest, number, size in said:
        body += varint(len(first)) + first + digest + varint(number) + varint(size)
    return [plain(MANIFEST, body)] + objects


# --- small files, heads and the catalogue of S3

def checked(content):
    return b"mlx checked 1 sha256:" + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def small(files, name, content):
    files[name] = files[name + ".copy"] = checked(content)


def heads_text(heads):
    return b"mlx heads 1\n" + b"".join(text_id(h).encode() + b"\n" for h in sorted(heads))


def catalogue_text(heads, packs):
    """`packs`: (ID, size, number of records)."""
    lines = [b"mlx catalogue 1"] + [b"head " + text_id(h).encode() for h in sorted(heads)]
    lines += [b"pack %s %d %d" % (i.hex().encode(), size, count) for i, size, count in sorted(packs)]
    return b"\n".join(lines) + b"\n"
