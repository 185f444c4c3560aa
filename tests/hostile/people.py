"""Operations and who signs them, from mlx-format-operation(5). The signatures are made by ssh-keygen(1), as the page says
that they can be. Used by attacks.py.
"""
import base64
import hashlib
import json
import os
import struct
import subprocess

from formats import OPERATION, plain, text_id

TIME = 1_700_000_000_000_000


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def strings(data, count):
    """The first strings of an SSH blob: a length of 4 bytes and as many bytes."""
    found, at = [], 0
    for _ in range(count):
        size = struct.unpack_from(">I", data, at)[0]
        found.append(data[at + 4:at + 4 + size])
        at += 4 + size
    return found


class Person:
    """Somebody with a key of their own, kept as NAME and NAME.pub in a folder."""

    def __init__(self, folder, name):
        self.path = os.path.join(folder, name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", self.path], check=True)
        with open(self.path + ".pub") as f:
            self.public = " ".join(f.read().split()[:2])
        self.signer = strings(base64.b64decode(self.public.split()[1]), 2)[1].hex()
        self.clone = "0123456789abcdef"
        self.actor = hashlib.sha256(b"mlx actor 1\n" + (self.clone + self.signer).encode()).hexdigest()[:16]

    def sign(self, message):
        armoured = subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", self.path, "-n", "mlx-operation"], input=message,
                                  capture_output=True, check=True).stdout
        blob = base64.b64decode(b"".join(armoured.splitlines()[1:-1]))
        # "SSHSIG", a version of 4 bytes, then key, namespace, reserved, hash and signature.
        signature = strings(blob[10:], 5)[4]
        return strings(signature, 2)[1].hex()


def operation(who, kind, body, parents=(), time=TIME, encode=canonical, **lies):
    """An operation as an object. `parents` are ids; texts stay as they are. `lies` are keys that are other than they
    should be, None for none at all; what is signed says the same, but for `signature` itself."""
    texts = list(parents) if parents and isinstance(parents[0], str) else sorted(text_id(p) for p in parents)
    said = {"actor": who.actor, "body": body, "clone": who.clone, "format": 2, "kind": kind, "parents": texts,
            "signer": who.signer, "time": time}
    if lies.get("format") == 1:
        said["clone"] = None
    said.update({key: value for key, value in lies.items() if key != "signature"})
    said = {key: value for key, value in said.items() if value is not None}
    signature = lies["signature"] if "signature" in lies else who.sign(canonical(said))
    if signature is not None:
        said["signature"] = signature
    return plain(OPERATION, encode(said))


def version(who, root, entries, number=2, parents=(), artifact="data/x", message="more", **lies):
    """The operation that makes a version of a manifest's root."""
    sizes = [e[2] for e in entries]
    body = {"artifact": artifact, "kind": "dataset", "digest": text_id(root), "number": number, "files": len(sizes),
            "bytes": sum(sizes), "message": message, "run": "", "parent": None}
    body.update(lies.pop("body", {}))
    return operation(who, "version.create", body, parents, **lies)
