"""A server that speaks mlx-format-wire(5) on standard input and output, and lies as it is told.

usage: wire.py REMOTE [LIE] [what ssh is given...]     REMOTE: a pickled remotes.Remote; LIE: a name of LIES
"""
import hashlib
import pickle
import struct
import sys

HELLO, OPEN, HEADS, OPERATIONS, MISSING, GET, PUT, PUBLISH, READ, WRITE = 1, 16, 17, 18, 19, 20, 21, 22, 23, 24
OBJECT, IDS, BITMAP, FILE, VERDICT, STORED, END, ERROR = 32, 33, 34, 35, 36, 37, 38, 48
ESCAPE = b"\x1b]0;owned\x07\x1b[31m\x9b31m\r\x08 red"


def text(data):
    return struct.pack("<I", len(data)) + data


def hello(lowest=1, highest=2, magic=b"MLXWIRE\n", program=b"mlx 1.0", algorithm=1, reserved=0):
    return magic + struct.pack("<IIBBHI", lowest, highest, algorithm, 0, reserved, 64 << 20) + text(program)


def error(message, hint=b"", kind=5):
    return bytes([kind]) + text(message) + text(hint)


class Server:
    def __init__(self, remote, source, sink):
        self.remote, self.source, self.sink = remote, source, sink
        self.by_key = {(o.id, o.kind): o for o in remote.objects}

    def receive(self):
        head = self.source.read(16)
        if len(head) < 16:
            sys.exit(0)
        return head[4], self.source.read(struct.unpack_from("<I", head)[0])

    def send(self, kind, payload=b"", size=None, checksum=None, covered=None):
        """`covered`: how much of the payload the checksum is of."""
        known = hashlib.sha256(payload[:covered]).digest()[:8] if checksum is None else checksum
        self.sink.write(struct.pack("<IB3x8s", len(payload) if size is None else size, kind, known) + payload)

    def send_ids(self, ids):
        slices = [ids[at:at + 65536] for at in range(0, len(ids), 65536)]
        for part in slices:
            self.send(IDS, struct.pack("<I", len(part)) + b"".join(part))
        self.send(END, struct.pack("<Q", len(slices)))

    def send_object(self, o):
        self.send(OBJECT, o.entry(), covered=64 + len(o.extra))

    def run(self):
        self.greet()
        while True:
            self.sink.flush()
            kind, payload = self.receive()
            {OPEN: self.open, HEADS: self.heads, OPERATIONS: self.operations, MISSING: self.missing, GET: self.get,
             READ: self.read, HELLO: lambda _: None}.get(kind, self.refuse)(payload)

    def keys_in(self, payload):
        return [(payload[at:at + 32], payload[at + 32]) for at in range(4, len(payload), 33)]

    def greet(self):
        self.send(HELLO, hello())

    def open(self, _):
        self.send(VERDICT, b"\1")

    def heads(self, _):
        self.send_ids(sorted(self.remote.heads))

    def operations(self, _):
        self.send_ids([o.id for o in self.remote.objects if o.kind == 5])

    def missing(self, payload):
        bits = [key not in self.by_key for key in self.keys_in(payload)]
        packed = bytearray((len(bits) + 7) // 8)
        for i, bit in enumerate(bits):
            packed[i // 8] |= bit << i % 8
        self.send(BITMAP, struct.pack("<I", len(bits)) + bytes(packed))

    def get(self, payload):
        asked = self.keys_in(payload)
        for key in asked:
            if key not in self.by_key:
                self.send(ERROR, error(b"there is no such object", kind=3))
                return
            self.send_object(self.by_key[key])
        self.send(END, struct.pack("<Q", len(asked)))

    def read(self, payload):
        name = payload[4:].decode()
        found = self.remote.file.get(name)
        self.send(FILE, b"\0" if found is None else b"\1" + text(found))

    def refuse(self, _):
        self.send(ERROR, error(b"this server only reads"))


# --- lies: each a subclass that is honest but for one thing

class EndlessHeads(Server):
    def heads(self, _):
        for number in range(1 << 20):
            self.send(IDS, struct.pack("<I", 65536) + b"".join(struct.pack("<32x")[:24] + struct.pack("<Q", number << 16 | i)
                                                               for i in range(65536)))


class EndlessOperations(EndlessHeads):
    heads, operations = Server.heads, EndlessHeads.heads


class EmptyIdsForever(Server):
    def operations(self, _):
        while True:
            self.send(IDS, struct.pack("<I", 0))


class ClaimedCount(Server):
    def operations(self, _):
        self.send(IDS, struct.pack("<I", 0xFFFFFFFF) + b"".join(self.remote.heads))


class WrongEnd(Server):
    def heads(self, _):
        self.send(IDS, struct.pack("<I", 1) + self.remote.heads[0])
        self.send(END, struct.pack("<Q", 1 << 63))


class UnaskedObjects(Server):
    def get(self, payload):
        asked = self.keys_in(payload)
        for o in self.remote.objects:
            if (o.id, o.kind) not in asked:
                self.send_object(o)
        super().get(payload)


class EndlessObjects(Server):
    def get(self, payload):
        first = self.by_key[self.keys_in(payload)[0]]
        while True:
            self.send_object(first)


class OtherObject(Server):
    """Under the asked key the bytes of another object, with a right checksum."""
    def get(self, payload):
        from dataclasses import replace
        asked = self.keys_in(payload)
        for identity, kind in asked:
            self.send_object(replace(self.remote.objects[0], id=identity, kind=kind))
        self.send(END, struct.pack("<Q", len(asked)))


class FewerObjects(Server):
    def get(self, payload):
        self.send(END, struct.pack("<Q", 0))


class SameObjectTwice(Server):
    def get(self, payload):
        asked = self.keys_in(payload)
        for _ in asked:
            self.send_object(self.by_key[asked[0]])
        self.send_object(self.by_key[asked[0]])
        self.send(END, struct.pack("<Q", len(asked) + 1))


class FalseChecksum(Server):
    def send_object(self, o):
        self.send(OBJECT, o.entry()[:-1] + bytes([o.entry()[-1] ^ 1]), covered=64 + len(o.extra))


class FalseFrameChecksum(Server):
    def heads(self, _):
        self.send(IDS, struct.pack("<I", 1) + self.remote.heads[0], checksum=b"\0" * 8)


class LongBitmap(Server):
    def missing(self, payload):
        self.send(BITMAP, struct.pack("<I", 0xFFFFFFFF) + b"\xff" * 64)

    def heads(self, _):
        self.send(BITMAP, struct.pack("<I", 8) + b"\xff")


class EscapesInError(Server):
    def heads(self, _):
        self.send(ERROR, error(b"no " + ESCAPE + b"\nmlx: done\n" * 5, b"run " + ESCAPE))


class EscapesInOpen(Server):
    def open(self, _):
        self.send(ERROR, error(ESCAPE * 100, ESCAPE))


class EscapesInBanner(Server):
    def greet(self):
        self.sink.write(b"Welcome " + ESCAPE + b"\n" * 100)


class EscapesOnStderr(Server):
    def greet(self):
        sys.stderr.buffer.write(ESCAPE * 1000 + b"\n")
        sys.stderr.flush()
        sys.exit(1)


class StderrForever(Server):
    def greet(self):
        for _ in range(1 << 14):
            sys.stderr.write("x" * 65536)
        sys.exit(1)


class ErrorKinds(Server):
    def heads(self, _):
        self.send(ERROR, error(b"done", kind=0))


class InternalError(Server):
    def heads(self, _):
        self.send(ERROR, error(b"interrupted, so you say", kind=130))


class LongError(Server):
    def heads(self, _):
        self.send(ERROR, bytes([7]) + struct.pack("<I", 0xFFFFFFFF) + b"x")


class VersionNone(Server):
    def greet(self):
        self.send(HELLO, hello(0, 0))


class VersionOld(Server):
    def greet(self):
        self.send(HELLO, hello(1, 1))


class VersionFuture(Server):
    def greet(self):
        self.send(HELLO, hello(0xFFFFFFFF, 0xFFFFFFFF))


class VersionsReversed(Server):
    def greet(self):
        self.send(HELLO, hello(0xFFFFFFFF, 0))


class OtherMagic(Server):
    def greet(self):
        self.send(HELLO, hello(magic=b"MLXWIRE\r"))


class OtherAlgorithm(Server):
    def greet(self):
        self.send(HELLO, hello(algorithm=2))


class LongProgram(Server):
    def greet(self):
        self.send(HELLO, hello(program=ESCAPE * 1000))


class HugeFrame(Server):
    def heads(self, _):
        self.send(IDS, b"x" * 4096, size=0xFFFFFFFF)


class LargestFrame(Server):
    """Claims the largest frame there is, sends a little of it and then nothing."""
    def get(self, _):
        self.send(OBJECT, b"x" * 4096, size=75563071)
        self.sink.flush()
        sys.exit(0)


class UnknownFrame(Server):
    def heads(self, _):
        self.send(200, b"")


class CutFrame(Server):
    def operations(self, _):
        self.sink.write(struct.pack("<IB3x8s", 36, IDS, b"\0" * 8) + b"\1")
        self.sink.flush()
        sys.exit(0)


class NoVerdict(Server):
    def open(self, _):
        self.send(VERDICT, b"\0")


class StrangeVerdict(Server):
    def open(self, _):
        self.send(VERDICT, b"\2")


class SecondHello(Server):
    def heads(self, _):
        self.greet()


class HugeFile(Server):
    def read(self, _):
        self.send(FILE, b"\1" + struct.pack("<I", 0xFFFFFFF0))

    def heads(self, _):
        self.read(_)


LIES = {name: lie for name, lie in globals().items() if isinstance(lie, type) and issubclass(lie, Server) and lie is not Server}

if __name__ == "__main__":
    with open(sys.argv[1], "rb") as pickled:
        remote = pickle.load(pickled)
    lie = LIES[sys.argv[2]] if len(sys.argv) > 2 and sys.argv[2] in LIES else Server
    try:
        lie(remote, sys.stdin.buffer, sys.stdout.buffer).run()
    except BrokenPipeError:
        sys.exit(1)
