"""The attacks, each a function from an honest world to a remote that lies in one way. run.py carries them out.

Three victims are attacked, each of which has fetched the honest remote of the same URL before:
  plain    a clone that counts the keys it knows, ada's and bob's
  people   one whose mlx.toml says: ada may all, bob may commit
  until    one whose mlx.toml says that of bob only what stands in the honest remote counts
  lazy     one that has the operations and the tree and no content (--filter blobs:none)
and besides, unless an attack says that a stranger has no way to see through it, somebody who clones the remote.
"""
import json
from dataclasses import dataclass, replace
from typing import Callable

import formats
import people
from formats import OPERATION, entry, manifest, sha, text_id
from remotes import Remote

SHAPES = ("folder", "ssh", "s3")
ALL = ("fetch", "checkout", "clone")
SMALL, LARGE = b"small and honest\n", b"".join(b"%d honest\n" % i for i in range(20000))
FORGED = b"F" * len(LARGE)  # what must never be read


class World:
    """An honest remote: data/x@v1, made by ada, and a tag by bob; mallory is a stranger."""

    def __init__(self, folder):
        self.ada, self.bob, self.mallory = (people.Person(folder, name) for name in ("ada", "bob", "mallory"))
        self.entries = [entry(b"large.txt", LARGE), entry(b"small.txt", SMALL)]
        self.tree = manifest(self.entries)
        self.content = formats.file_objects(LARGE) + formats.file_objects(SMALL)
        self.root = self.tree[0].id
        self.first = people.version(self.ada, self.root, self.entries, 1, message="first")
        body = {"tag": "begun", "artifact": "data/x", "digest": text_id(self.root)}
        self.second = people.operation(self.bob, "tag.create", body, [self.first.id])
        self.objects = self.content + self.tree + [self.first, self.second]
        self.honest = Remote(self.objects, [self.second.id])

    def after(self, *operations, objects=(), **lies):
        """The honest remote and these operations, of which none but the last is named by another."""
        return Remote(self.objects + list(objects) + list(operations), [operations[-1].id], **lies)

    def made(self, who, kind, body, **lies):
        """An operation behind the honest ones."""
        return people.operation(who, kind, body, lies.pop("parents", [self.second.id]), **lies)

    def tag(self, who, name="next", **lies):
        return self.made(who, "tag.create", {"tag": name, "artifact": "data/x", "digest": text_id(self.root)}, **lies)

    def move(self, who, **lies):
        body = {"alias": "production", "artifact": "data/x", "digest": text_id(self.root), "replaces": []}
        return self.made(who, "alias.move", body, **lies)

    def next_version(self, objects, entries=(), **lies):
        """A second version by ada, whose root is the first of `objects`."""
        return self.after(people.version(self.ada, objects[0].id, list(entries), 2, [self.second.id], **lies), objects=objects)

    def replaced(self, *objects, without=()):
        """The honest operations above content that is not the honest one."""
        gone = {(o.kind, o.id) for o in objects} | {(o.kind, o.id) for o in without}
        return Remote([o for o in self.objects if (o.kind, o.id) not in gone] + list(objects), self.honest.heads)


@dataclass
class Attack:
    name: str
    make: Callable
    victim: str = "plain"
    clone: bool = True           # somebody who clones is not taken in either
    shapes: tuple = SHAPES
    harmless: bool = False       # no attack after all: what comes of it is right
    overcome: tuple = ()         # commands that may also go on: all that is read is honest
    told: str = ""               # nothing is wrong in itself with what comes: it is taken, and this is said
    insider: bool = False        # the operations are right, and are recorded; the version that they make is not
    everywhere: bool = False     # tried in all shapes also where time is short; others take turns

    def turn(self, number):
        return self.shapes if self.everywhere else (self.shapes[number % len(self.shapes)],)


ATTACKS = []


def attack(**how):
    def register(make):
        ATTACKS.append(Attack(make.__name__.replace("_", " "), make, **how))
        return make
    return register


def each(prefix, cases, **how):
    """A family: one attack for each of `cases`, name → argument."""
    def register(make):
        for name, case in cases.items():
            ATTACKS.append(Attack(f"{prefix} {name}", lambda world, case=case: make(world, case), **how))
        return make
    return register


# --- operations: who signed them

@attack()
def unsigned_in_format_2(w):
    return w.after(w.tag(w.ada, signature=None, signer=None))


@attack(clone=False)  # a first contact takes what it meets, a history from before there were signatures too
def unsigned_in_format_1(w):
    return w.after(w.tag(w.ada, signature=None, signer=None, format=1))


@attack(everywhere=True)
def signature_of_zeros(w):
    return w.after(w.tag(w.ada, signature="0" * 128))


@attack()
def signature_of_another_operation(w):
    return w.after(w.tag(w.ada, signature=json.loads(w.first.stored)["signature"]))


@attack()
def signed_by_one_and_claimed_of_another(w):
    return w.after(w.tag(w.mallory, signer=w.ada.signer, actor=w.ada.actor))


@attack()
def signer_that_is_no_key(w):
    return w.after(w.tag(w.ada, signer="f" * 64))


@attack(clone=False)  # to a first contact it is a key as any other
def signer_of_small_order(w):
    # The neutral element: with R the same and s = 0 the equation holds for every message.
    return w.after(w.tag(w.ada, signer="01" + "00" * 31, actor=w.mallory.actor, signature="01" + "00" * 63))


@attack(clone=False, everywhere=True)
def signed_by_a_stranger(w):
    return w.after(w.tag(w.mallory))


@attack()
def actor_of_somebody_else(w):
    return w.after(w.tag(w.bob, actor=w.ada.actor))


@attack(victim="people")
def actor_of_an_unsigned_history(w):
    return w.after(w.tag(w.bob, actor="00112233aabbccdd"))


@attack()
def clone_that_is_no_id(w):
    return w.after(w.tag(w.ada, clone="0123456789ABCDEF"))


@attack()
def operation_without_its_clone(w):
    return w.after(w.tag(w.ada, clone=None))


@attack(victim="people")
def stranger_where_people_are_declared(w):
    return w.after(w.tag(w.mallory))


@attack(victim="people", everywhere=True)
def promotion_without_the_right(w):
    return w.after(w.move(w.bob))


@attack(victim="people")
def erasure_without_the_right(w):
    return w.after(w.made(w.bob, "key.erase", {"domain": "main", "keys": [], "versions": [text_id(w.root)]}))


@attack(victim="people")
def domain_without_the_right(w):
    return w.after(w.made(w.bob, "domain.assign", {"artifact": "data/y", "domain": "d"}))


@attack(victim="people")
def name_of_somebody_else_forgotten(w):
    return w.after(w.made(w.bob, "actor.forget", {"actor": w.ada.actor}))


@attack(victim="people")
def right_one_behind_a_wrong_one(w):
    wrong = w.tag(w.mallory)
    return w.after(wrong, w.tag(w.ada, "after", parents=[wrong.id]))


@attack(victim="until", everywhere=True)
def backdated_after_until(w):
    return w.after(w.tag(w.bob, time=1))


@attack(victim="until")
def beside_what_until_names(w):
    late = w.tag(w.bob, parents=[w.first.id], time=people.TIME - 1)
    return Remote(w.objects + [late], [w.second.id, late.id])


@attack(clone=False)
def erasure_of_everything_by_a_stranger(w):
    return w.after(w.made(w.mallory, "key.erase", {"domain": "main", "keys": [1, 2, 3], "versions": [text_id(w.root)]}))


@attack(harmless=True)
def erasure_of_main_by_somebody_who_counts(w):
    return w.after(w.made(w.bob, "key.erase", {"domain": "main", "keys": [1], "versions": [text_id(w.root)]}))


# --- operations: the graph

@attack()
def parent_that_is_not_there(w):
    return w.after(w.tag(w.ada, parents=[sha(b"nothing")]))


@attack()
def parent_that_is_no_operation(w):
    return w.after(w.tag(w.ada, parents=[w.tree[0].id]))


@attack(everywhere=True)
def head_that_is_not_there(w):
    return Remote(w.objects, [sha(b"nothing")])


@attack()
def head_that_is_no_operation(w):
    return Remote(w.objects, [w.content[0].id])


@attack(everywhere=True)
def operation_under_the_id_of_another(w):
    forged = w.tag(w.ada)
    return Remote(w.objects + [replace(forged, id=sha(b"x"))], [sha(b"x")])


@attack()
def ring_of_operations(w):
    one, two = sha(b"one"), sha(b"two")
    ring = [replace(w.tag(w.ada, "a", parents=[two]), id=one), replace(w.tag(w.ada, "b", parents=[one]), id=two)]
    return Remote(w.objects + ring, [one])


@attack()
def parents_not_sorted(w):
    ids = sorted([text_id(w.first.id), text_id(w.second.id)], reverse=True)
    return w.after(w.tag(w.ada, parents=ids))


@attack()
def parent_named_twice(w):
    return w.after(w.tag(w.ada, parents=[text_id(w.second.id)] * 2))


@attack()
def parents_without_end(w):
    return w.after(w.tag(w.ada, parents=[sha(b"%d" % i) for i in range(5000)]))


@attack(clone=False, told="went back to an earlier state", everywhere=True)
def old_heads_replayed(w):
    return Remote(w.objects, [w.first.id])


@attack(clone=False, told="went back to an earlier state")
def old_remote_replayed(w):
    return Remote(w.content + w.tree + [w.first], [w.first.id])


@attack(clone=False, told="went back to an earlier state")
def emptied(w):
    return Remote([], [], heads_text=b"mlx heads 1\n")


@attack(clone=False)  # to a first contact it is a history as any other
def another_history(w):
    return Remote(w.content + w.tree + [other := people.version(w.ada, w.root, w.entries, 1, message="other")], [other.id])


@attack(victim="people", clone=False, everywhere=True)
def history_of_another_project_beside_it(w):
    other = people.version(w.ada, w.root, w.entries, 1, message="other")
    move = w.move(w.ada, parents=[other.id])
    return Remote(w.objects + [other, move], [w.second.id, move.id])


@attack(victim="people", clone=False)
def history_of_another_project_joined_by_a_stranger(w):
    other = people.version(w.ada, w.root, w.entries, 1, message="other")
    return w.after(other, w.made(w.mallory, "history.join", {"roots": [text_id(other.id)]}, parents=[w.second.id, other.id]))


# --- operations: numbers, times, types

@each("version of number", {"2^63-1": 2**63 - 1, "2^64": 2**64, "0": 0, "-1": -1, "1.5": 1.5, "true": True, "in words": "2"})
def version_number(w, number):
    return w.next_version(w.tree, w.entries, body={"number": number})


@each("files of", {"-1": {"files": -1}, "-2^63 bytes": {"bytes": -2**63}, "2^64 bytes": {"bytes": 2**64},
                   "one more than there are": {"files": 3}, "5 GB where there are less": {"bytes": 5 << 30}})
def sizes_of_a_version(w, sizes):
    return w.next_version(w.tree, w.entries, body=sizes)


@each("time of", {"-1": -1, "-2^63": -2**63, "2^62": 2**62, "2^63": 2**63, "1.5": 1.5, "a text": "now"})
def times(w, time):
    return w.after(w.tag(w.ada, time=time))


@each("format", {"3": 3, "0": 0, "-1": -1, "2.0": 2.0})
def operation_formats(w, number):
    return w.after(w.tag(w.ada, format=number))


DIGEST = text_id(sha(b"x"))


@each("body", {
    "without keys": ("tag.create", {}),
    "with a digest that is none": ("tag.create", {"tag": "t", "artifact": "data/x", "digest": "sha256:zz"}),
    "with null for a text": ("tag.create", {"tag": None, "artifact": "data/x", "digest": "ROOT"}),
    "with a list for a text": ("tag.create", {"tag": ["t"], "artifact": "data/x", "digest": "ROOT"}),
    "with an object for a list": ("alias.move", {"alias": "a", "artifact": "data/x", "digest": "ROOT", "replaces": {"a": 1}}),
    "with numbers for digests": ("alias.move", {"alias": "a", "artifact": "data/x", "digest": "ROOT", "replaces": [1]}),
    "of a version that is not there": ("alias.move", {"alias": "a", "artifact": "data/x", "digest": DIGEST, "replaces": []}),
    "of an unknown kind of artifact": ("version.create", {"artifact": "data/z", "kind": "demon", "digest": "ROOT", "number": 1,
                                                           "files": 0, "bytes": 0, "message": "", "run": "", "parent": None}),
    "of a run with a text for inputs": ("run.start", {"run": "0" * 16, "command": "train", "title": "", "key": DIGEST,
                                                      "inputs": "all", "params": {}, "environment": {}, "code": None}),
    "of a run that never began": ("run.end", {"run": "f" * 16, "status": "done", "outputs": [], "summary": {}, "error": "",
                                               "metrics": None, "points": 0}),
    "of an unknown kind": ("demon.summon", {}),
    "of an undo of nothing": ("operation.undo", {"operation": DIGEST}),
    "of an undo of what others did": ("operation.undo", {"operation": "FIRST"}),
    "of an erasure with texts for keys": ("key.erase", {"domain": "main", "keys": ["a"], "versions": []}),
    "of a loss with numbers for versions": ("version.lost", {"versions": [1]}),
    "of an erasure of a domain of escape codes": ("key.erase", {"domain": "\x1b[31m", "keys": [1], "versions": []}),
})
def bodies(w, case):
    kind, body = case
    named = {"ROOT": text_id(w.root), "FIRST": text_id(w.first.id)}
    body = {key: named.get(value, value) if isinstance(value, str) else value for key, value in body.items()}
    return w.after(w.made(w.bob, kind, body))


@attack()
def body_ten_thousand_deep(w):
    deep = lambda said: people.canonical(said).replace(b'"DEEP"', b"[" * 10000 + b"]" * 10000)
    body = {"tag": "t", "artifact": "data/x", "digest": text_id(w.root), "more": "DEEP"}
    return w.after(w.made(w.ada, "tag.create", body, encode=deep))


@each("bytes", {
    "with white space": lambda b: b.replace(b'":', b'": ', 1),
    "with a key twice": lambda b: b.replace(b'{"actor"', b'{"actor":"0000000000000000","actor"', 1),
    "with keys not sorted": lambda b: b"{" + b[b.index(b'"time"'):-1] + b"," + b[1:b.index(b',"time"')] + b"}",
    "with a longer escape": lambda b: b.replace(b'"next"', b'"\\u006eext"', 1),
    "that are no UTF-8": lambda b: b.replace(b'"next"', b'"n\xff\xc0t"', 1),
    "with NUL": lambda b: b + b"\0",
    "that are no JSON": lambda b: b"\x89PNG\r\n\x1a\n" + b,
    "that are none": lambda b: b"",
    "of a list": lambda b: b"[" + b + b"]",
})
def bytes_of_operations(w, spoil):
    return w.after(w.tag(w.ada, encode=lambda said: spoil(people.canonical(said))))


@each("artifact called", {name: name for name in ("../x", "/tmp/owned", "data/../../x", ".git/hooks", ".mlx/packs", "data/.MLX/x",
                                                  "data/\x1b[31mred", "data/x\n", "", "a" * 70000, "data//x", ".", "models/../x")})
def artifact_names(w, name):
    return w.next_version(w.tree, w.entries, artifact=name)


@each("label", {repr(name): name for name in ("latest", "v1", "~1", "\x1b]0;x\x07", "a\nb", "")})
def labels(w, name):
    return w.after(w.tag(w.ada, name))


@attack(harmless=True, everywhere=True)
def escape_codes_in_a_message(w):
    return w.next_version(w.tree, w.entries, message="\x1b]0;owned\x07\x1b[31mred\u009b31m\r\x08")


# --- operations: too many, too large

def unfolding(w, size, claimed=None):
    """An operation of `size` bytes in about 4 for every 128 KiB. Nobody signed it: it should not come to that."""
    plain_bytes = people.canonical({"message": "MESSAGE"})
    head, tail = plain_bytes.split(b"MESSAGE")
    return formats.zstd([head, (ord("a"), size), tail], claimed)


@each("operations that unfold", {"to 64 MiB each": (64 << 20, 40), "to 16 MiB each": ((16 << 20) - 100, 200)})
def bombs(w, case):
    size, count = case
    stored = unfolding(w, size)
    total = min(size + 14, 64 << 20)
    bombs = [formats.Object(OPERATION, sha(b"%d" % i), stored, total, formats.ZSTD) for i in range(count)]
    return Remote(w.objects + bombs, [bombs[0].id])


@attack()
def operation_that_unfolds_to_more_than_it_says(w):
    return Remote(w.objects + [formats.Object(OPERATION, sha(b"x"), unfolding(w, 1 << 30), 1000, formats.ZSTD)], [sha(b"x")])


@attack()
def operation_that_claims_4_GiB(w):
    return Remote(w.objects + [formats.Object(OPERATION, sha(b"x"), b"{}", 0xFFFFFFFF)], [sha(b"x")])


@attack()
def heads_without_end(w):
    return Remote(w.objects, [sha(b"%d" % i) for i in range(100000)])


@attack(shapes=("folder",))
def heads_with_one_twice(w):
    line = text_id(w.second.id).encode() + b"\n"
    return Remote(w.objects, w.honest.heads, heads_text=b"mlx heads 1\n" + line + line)


@each("heads that say", {"nothing": b"", "another version": b"mlx heads 2\n", "half a line": b"mlx heads 1\nsha256:00",
                         "escape codes": b"mlx heads 1\n\x1b[31m\n", "64 MiB": b"mlx heads 1\n" + b"x" * (64 << 20)},
      shapes=("folder",))
def heads_text(w, text):
    return Remote(w.objects, w.honest.heads, heads_text=text)
