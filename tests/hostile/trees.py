"""Attacks by trees that no version can have: somebody who counts has signed the operation that names them, so what is
wrong must be seen in the tree itself. run.py loads it for the table alone.
"""
import formats
from attacks import FORGED, SMALL, attack, each
from formats import EXECUTABLE, FILE, LINK, entry, manifest, plain, sha


def version_of(w, entries, **lies):
    objects = manifest(entries, **lies)
    return w.next_version(objects + formats.file_objects(SMALL), entries)


@each("tree with", {repr(path.decode("latin-1")): path for path in (
    b"../owned", b"/tmp/owned", b".git/hooks/post-checkout", b".mlx/actor", b".GIT/config", b"sub/.Mlx/packs/x", b"git~1/config",
    b".git./config", b".mlx /actor", b"a/../b", b"a/./b", b"a//b", b"a/", b"", b"a\0b", b"..")}, insider=True)
def paths(w, path):
    return version_of(w, [entry(path, SMALL), entry(b"zzz", SMALL)])


@each("tree of modes", {"setuid": 0o104755, "device": 0o060644, "folder": 0o040755, "0": 0, "2^63": 1 << 63}, insider=True)
def modes(w, mode):
    return version_of(w, [entry(b"a", SMALL, mode)])


@each("path of", {"4096 bytes": b"a/" * 2047 + b"ff", "a part of 256 bytes": b"a" * 256, "16000 folders": b"a/" * 16000 + b"f"},
      insider=True)
def lengths(w, path):
    return version_of(w, [entry(path, SMALL), entry(b"zzz", SMALL)])


@attack(insider=True)
def file_below_a_link(w):
    objects = [entry(b"a", b"/tmp", LINK), entry(b"a/owned", SMALL)]
    return version_of(w, objects)


@attack(insider=True)
def link_and_file_of_one_path(w):
    return version_of(w, [entry(b"a", b"/tmp", LINK), entry(b"a", SMALL)], sort=False)


@attack(insider=True)
def one_path_twice(w):
    return version_of(w, [entry(b"a", SMALL), entry(b"a", FORGED)], sort=False)


@attack(insider=True)
def paths_not_sorted(w):
    return version_of(w, [entry(b"b", SMALL), entry(b"a", SMALL)], sort=False)


def ending():
    """A path behind which a shard ends."""
    return next(path for path in (b"p%d" % i for i in range(100000)) if formats.ends_shard(path))


@attack(insider=True)
def shard_that_does_not_end_where_it_must(w):
    entries = sorted([entry(ending(), SMALL), entry(b"zzz", SMALL)])
    return version_of(w, entries, shards=[entries])


@attack(insider=True)
def shard_that_ends_where_it_must_not(w):
    entries = [entry(b"a", SMALL), entry(b"b", SMALL)]
    return version_of(w, entries, shards=[entries[:1], entries[1:]])


@each("root that says", {
    "another first path": lambda rows: [(b"b",) + rows[0][1:]],
    "a shard that is not there": lambda rows: [(rows[0][0], sha(b"x")) + rows[0][2:]],
    "fewer files": lambda rows: [rows[0][:2] + (0,) + rows[0][3:]],
    "one shard twice": lambda rows: rows + rows,
    "itself as shard": lambda rows: [(rows[0][0], sha(b"root")) + rows[0][2:]],
}, insider=True)
def roots(w, rows):
    return version_of(w, [entry(b"a", SMALL)], rows=rows)


# No operation can say so many: that of these roots says what is not so, and is refused.
@each("root that says", {"2^64-1 files": lambda rows: [rows[0][:2] + (2**64 - 1,) + rows[0][3:]],
                         "2^63 bytes": lambda rows: [rows[0][:3] + (2**63,)]})
def roots_of_too_much(w, rows):
    return version_of(w, [entry(b"a", SMALL)], rows=rows)


@attack(insider=True)
def root_that_counts_2_63_shards(w):
    return version_of(w, [entry(b"a", SMALL)], count=2**63)


@attack(insider=True)
def shard_that_counts_2_63_files(w):
    bad = formats.shard([entry(b"a", SMALL)], count=2**63)
    return tree_with(w, bad)


@attack(insider=True)
def shard_with_long_numbers(w):
    long = lambda n: bytes([n | 0x80, 0]) if n < 0x80 else formats.varint(n)
    return tree_with(w, formats.shard([entry(b"a", SMALL)], number=long))


@attack(insider=True)
def shard_with_a_number_of_80_bits(w):
    return tree_with(w, plain(formats.SHARD, b"MLXS\1\0\1\0" + b"\xff" * 11 + b"\1"))


@attack(insider=True)
def shard_that_is_cut(w):
    whole = formats.shard([entry(b"a", SMALL)])
    return tree_with(w, plain(formats.SHARD, whole.stored[:-5]))


@attack(insider=True)
def shard_under_the_id_of_another(w):
    objects = manifest([entry(b"a", SMALL)])
    forged = formats.shard([entry(b"b", SMALL)])
    return w.next_version([objects[0], plain(formats.SHARD, forged.stored, objects[1].id)] + formats.file_objects(SMALL),
                          [entry(b"a", SMALL)])


@attack(insider=True)
def root_under_the_id_of_another(w):
    objects = manifest([entry(b"a", SMALL)])
    forged = plain(formats.MANIFEST, objects[0].stored, sha(b"another"))
    return w.next_version([forged] + objects[1:] + formats.file_objects(SMALL))


@attack(insider=True)
def root_that_unfolds_to_1_GiB(w):
    stored = formats.zstd([b"MLXM\1\0\1\0", (0, 1 << 30)])
    bomb = formats.Object(formats.MANIFEST, sha(b"bomb"), stored, 64 << 20, formats.ZSTD)
    return w.next_version([bomb])


@attack(insider=True)
def file_of_another_size_than_the_tree_says(w):
    entries = [entry(b"a", SMALL, size=len(SMALL) + 1)]
    return version_of(w, entries)


@attack(insider=True)
def file_of_2_62_bytes(w):
    return version_of(w, [entry(b"a", SMALL, size=1 << 62)])


@attack(insider=True)
def link_to_more_than_a_path(w):
    target = b"/" + b"x" * 70000
    objects = manifest([entry(b"a", target, LINK)])
    return w.next_version(objects + formats.file_objects(target), [entry(b"a", target, LINK)])


@attack(harmless=True)
def escape_codes_in_a_path(w):
    return version_of(w, [entry(b"\x1b[31mred\x07\n\r\xff", SMALL, EXECUTABLE), entry(b"b", SMALL, FILE)])


def tree_with(w, shard):
    root = manifest([entry(b"a", SMALL)], rows=lambda rows: [(rows[0][0], shard.id, 1, len(SMALL))])[0]
    return w.next_version([root, shard] + formats.file_objects(SMALL), [entry(b"a", SMALL)])
