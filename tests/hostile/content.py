"""Attacks by content under an id that is not its own: chunk lists, chunks, deltas. Above it stand the honest operations
and the honest tree, so that only who compares bytes with their id sees through it. run.py loads it for the table alone.
"""
from dataclasses import replace

import formats
from attacks import ALL, FORGED, LARGE, SMALL, attack, each
from formats import CHUNK, LIST, plain, sha
from remotes import Remote


def listed(parts):
    return [(sha(p), len(p)) for p in parts], [plain(CHUNK, p) for p in parts]


PARTS = [FORGED[at:at + 65536] for at in range(0, len(FORGED), 65536)]
HONEST = [LARGE[at:at + 65536] for at in range(0, len(LARGE), 65536)]


def forged_list(items, objects=(), **lies):
    return [plain(LIST, formats.chunk_list(items, **lies), sha(LARGE))] + list(objects)


@attack(victim="lazy", everywhere=True)
def list_of_other_chunks(w):
    items, chunks = listed(PARTS)
    return w.replaced(*forged_list(items, chunks))


@attack(victim="lazy")
def list_with_chunks_in_another_order(w):
    items, _ = listed(HONEST)
    return w.replaced(*forged_list(items[1:2] + items[:1] + items[2:]))


@attack(victim="lazy")
def list_that_is_too_short(w):
    return w.replaced(*forged_list(listed(HONEST)[0][:-1]))


@attack(victim="lazy")
def list_with_false_sizes(w):
    items, _ = listed(HONEST)
    return w.replaced(*forged_list([(items[0][0], items[0][1] + 1), (items[1][0], items[1][1] - 1)] + items[2:]))


@attack(victim="lazy")
def list_of_pages_of_other_chunks(w):
    items, chunks = listed(PARTS)
    page = formats.chunk_list(items)
    return w.replaced(*forged_list([(sha(page), len(FORGED))], chunks + [plain(CHUNK, page)], level=1))


@attack(victim="lazy")
def list_of_pages_that_are_pages_again(w):
    page = formats.chunk_list([(sha(b"x"), len(LARGE))], level=1)
    return w.replaced(*forged_list([(sha(page), len(LARGE))], [plain(CHUNK, page)], level=1))


@attack(victim="lazy")
def list_of_pages_one_a_thousand_times(w):
    page = formats.chunk_list([(sha(b"a" * 65536), 65536)] * 60000)
    return w.replaced(*forged_list([(sha(page), 60000 * 65536)] * 60000, [plain(CHUNK, page), plain(CHUNK, b"a" * 65536)], level=1))


@attack(victim="lazy")
def list_of_2_60_bytes(w):
    return w.replaced(*forged_list([(sha(PARTS[0]), 1 << 60)], listed(PARTS)[1]))


@attack(victim="lazy")
def list_whose_sizes_overflow(w):
    items = [(sha(PARTS[0]), 1 << 63), (sha(PARTS[0]), (1 << 63) + len(LARGE))]
    return w.replaced(*forged_list(items, listed(PARTS)[1], size=len(LARGE)))


@attack(victim="lazy")
def list_that_counts_2_32_items(w):
    return w.replaced(*forged_list(listed(HONEST)[0], count=0xFFFFFFFF))


@attack(victim="lazy")
def list_without_items(w):
    return w.replaced(*forged_list([], size=len(LARGE)))


@attack(victim="lazy")
def list_that_is_empty_bytes(w):
    return w.replaced(plain(LIST, b"", sha(LARGE)))


@attack(victim="lazy", everywhere=True)
def other_bytes_under_the_id_of_a_chunk(w):
    return w.replaced(plain(CHUNK, FORGED[:len(SMALL)], sha(SMALL)))


@attack(victim="lazy")
def whole_file_of_other_bytes_as_one_chunk(w):
    return w.replaced(plain(CHUNK, FORGED, sha(LARGE)), without=[plain(LIST, b"", sha(LARGE))])


@attack(victim="lazy")
def chunk_that_is_missing(w):
    return w.replaced(without=w.content[:1])


@attack(victim="lazy")
def everything_is_missing(w):
    return w.replaced(without=w.content)


def chunk_of(w, stored, encoding, size=len(SMALL), **lies):
    return w.replaced(formats.Object(CHUNK, sha(SMALL), stored, size, encoding, **lies))


@each("chunk", {
    "that unfolds to 1 GiB": (formats.zstd([(0, 1 << 30)]), formats.ZSTD),
    "that unfolds to 1 GiB and says so in its frame": (formats.zstd([(0, 1 << 30)], 1 << 30), formats.ZSTD),
    "that unfolds to less": (formats.zstd([b"s"]), formats.ZSTD),
    "of many frames": (formats.zstd([b""]) * 10000, formats.ZSTD),
    "of no zstd": (b"no frame", formats.ZSTD),
    "of byte planes of width 0": (b"\0", formats.PLANES),
    "of byte planes of width 3": (b"\3" + formats.zstd([b"a"]) * 3, formats.PLANES),
    "of byte planes without planes": (b"\2", formats.PLANES),
    "of an unknown encoding": (SMALL, 9),
    "of 4 GiB": (SMALL, formats.RAW, 0xFFFFFFFF),
    "of 64 MiB": (SMALL, formats.RAW, 64 << 20),
}, victim="lazy")
def chunks(w, case):
    return chunk_of(w, *case)


@attack(victim="lazy")
def delta_of_itself(w):
    stored = sha(SMALL) + b"\1" + formats.zstd([(0, len(SMALL))])
    return chunk_of(w, stored, formats.DELTA, extra=sha(SMALL))


@attack(victim="lazy")
def delta_of_nothing(w):
    return chunk_of(w, sha(b"x") + b"\1" + formats.zstd([(0, len(SMALL))]), formats.DELTA, extra=sha(b"x"))


@attack(victim="lazy")
def delta_of_another_than_it_names(w):
    return chunk_of(w, sha(b"x") + b"\1" + formats.zstd([(0, len(SMALL))]), formats.DELTA, extra=w.content[0].id)


@attack(victim="lazy")
def ring_of_deltas(w):
    one, two = sha(SMALL), sha(b"two")
    deltas = [formats.Object(CHUNK, a, b + b"\1" + formats.zstd([(0, len(SMALL))]), len(SMALL), formats.DELTA, extra=b)
              for a, b in ((one, two), (two, one))]
    return w.replaced(*deltas)


@attack(victim="lazy")
def chunk_of_a_key_that_nobody_has(w):
    return chunk_of(w, b"\0" * 64, formats.RAW, key_id=5)


@attack(victim="lazy")
def chunk_with_extra_bytes(w):
    return chunk_of(w, SMALL, formats.RAW, extra=b"x" * 65535)


@attack(victim="lazy", overcome=ALL)  # nobody asks for it
def object_of_an_unknown_kind(w):
    return Remote(w.objects + [replace(w.content[0], kind=9)], w.honest.heads)


@attack(victim="lazy", everywhere=True)
def checksum_of_an_entry_is_false(w):
    return Remote([replace(o, checksum=b"\0" * 8) if o.kind == CHUNK else o for o in w.objects], w.honest.heads)
