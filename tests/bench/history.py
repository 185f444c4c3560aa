"""Memory and time of what looks at all operations, in clones with histories of several lengths: `audit verify`,
`audit log`, `fsck`, `status`, taking the journal in, `fsck --rebuild`, and a push and a fetch of all of it. One line a
command: peak of resident memory and seconds.

    python3 tests/bench/history.py BINARY [BINARY ...] [--operations N,N,...] [--only COMMAND]

The operations are written from mlx-format-operation(5) and mlx-format-journal(5), signed with libcrypto: versions, tags
and moves of aliases by another clone's actor, in lines that diverge and meet again.
"""
import argparse
import ctypes
import ctypes.util
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

TIME = 1_700_000_000_000_000
BATCH = 1000


class Key:
    """An Ed25519 key that signs as OpenSSH does (PROTOCOL.sshsig), in the namespace of operations."""

    def __init__(self, seed):
        self.crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
        for name in ("EVP_PKEY_new_raw_private_key", "EVP_MD_CTX_new"):
            getattr(self.crypto, name).restype = ctypes.c_void_p
        self.key = ctypes.c_void_p(self.crypto.EVP_PKEY_new_raw_private_key(1087, None, seed, ctypes.c_size_t(32)))
        public, size = ctypes.create_string_buffer(32), ctypes.c_size_t(32)
        self.crypto.EVP_PKEY_get_raw_public_key(self.key, public, ctypes.byref(size))
        self.public = public.raw.hex()
        self.clone = "0123456789abcdef"
        self.actor = hashlib.sha256(b"mlx actor 1\n" + (self.clone + self.public).encode()).hexdigest()[:16]

    def sign(self, message):
        text = lambda value: struct.pack(">I", len(value)) + value
        wrapped = b"SSHSIG" + text(b"mlx-operation") + text(b"") + text(b"sha512") + text(hashlib.sha512(message).digest())
        context = ctypes.c_void_p(self.crypto.EVP_MD_CTX_new())
        self.crypto.EVP_DigestSignInit(context, None, None, None, self.key)
        made, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        assert self.crypto.EVP_DigestSign(context, made, ctypes.byref(size), wrapped, ctypes.c_size_t(len(wrapped))) == 1
        self.crypto.EVP_MD_CTX_free(context)
        return made.raw.hex()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def operations(count, key, words=50, pointer=None):
    """Bytes of each, parents first. Versions have messages of so many words. With `pointer`, that of a version whose
    content is there, that is the only one, and others are tags."""
    def made(kind, body, parents):
        said = {"actor": key.actor, "body": body, "clone": key.clone, "format": 2, "kind": kind, "parents": sorted(parents),
                "signer": key.public, "time": TIME + number}
        said["signature"] = key.sign(canonical(said))
        data = canonical(said)
        return data, "sha256:" + hashlib.sha256(data).hexdigest()

    heads, moved, digest, versions = [], None, None, 0
    for number in range(count):
        if number == 0 and pointer:
            digest = pointer["digest"]
            kind, body = "version.create", {"artifact": "data/x", "kind": "dataset", "digest": digest, "number": 1,
                                            "files": int(pointer["files"]), "bytes": int(pointer["size"]), "message": "first",
                                            "run": "", "parent": None}
        elif number % 4 == 0 and not pointer:
            versions += 1
            digest = "sha256:" + hashlib.sha256(str(number).encode()).hexdigest()
            kind, body = "version.create", {"artifact": "data/x", "kind": "dataset", "digest": digest, "number": versions,
                                            "files": 1, "bytes": 1, "message": f"version {versions}: " + "why " * words,
                                            "run": "", "parent": None}
        elif number % 4 == 1:
            kind, body = "alias.move", {"artifact": "data/x", "alias": "best", "digest": digest,
                                        "replaces": [moved] if moved else []}
        else:
            kind, body = "tag.create", {"artifact": "data/x", "tag": f"t{number}", "digest": digest}
        # Every tenth tag is made by somebody who has not seen the one before it; the next one has seen both.
        if number % 40 == 3:
            data, one = made(kind, body, below)
            heads.append(one)
        else:
            below = list(heads)
            data, one = made(kind, body, heads)
            heads = [one]
        if kind == "alias.move":
            moved = one
        yield data


def write_journal(path, found):
    with open(path, "wb") as file:
        file.write(b"MLXJOURN" + struct.pack("<II", 1, 0))
        batch = []

        def flush():
            payload = b"".join(struct.pack("<I", len(one)) + one for one in batch)
            head = b"MLXB" + struct.pack("<IQ", len(batch), len(payload)) + hashlib.sha256(payload).digest()
            check = hashlib.sha256(head + struct.pack("<Q", file.tell())).digest()[:8]
            file.write(head + check + payload + struct.pack("<Q", len(payload) + 64))
            batch.clear()

        for one in found:
            batch.append(one)
            if len(batch) == BATCH:
                flush()
        if batch:
            flush()


def peak_of(process):
    """Of its resident memory, in KiB."""
    with open(f"/proc/{process}/status") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("VmHWM")), 0)


def run(binary, *words, cwd):
    begun = time.monotonic()
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen([binary, *words], cwd=cwd, stdout=said, stderr=said)
        peak, ended = 0, 0
        while not ended:  # the rusage of a child begins with what this process had when it forked
            peak = max(peak, peak_of(child.pid))
            time.sleep(0.005)
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if child.returncode != 0:
            sys.exit(f"{binary} {' '.join(words)}: exit {child.returncode}\n{said.read(4000).decode(errors='replace')}")
    return peak / 1024, time.monotonic() - begun, usage.ru_utime + usage.ru_stime


COMMANDS = {"take in": ["status"], "status": ["status"], "audit verify": ["audit", "verify"],
            "audit log": ["audit", "log", "--jsonl"], "fsck": ["fsck"], "rebuild": ["fsck", "--rebuild"]}


def travel(binary, folder, count):
    """Of a push of a whole history to a folder, and of a fetch of it into a new clone."""
    here, there = os.path.join(folder, "here"), os.path.join(folder, "there")
    os.makedirs(os.path.join(here, "data", "x"))
    os.makedirs(there)
    with open(os.path.join(here, "data", "x", "a.txt"), "w") as file:
        file.write("content\n")
    run(binary, "init", cwd=here)
    run(binary, "add", "data/x", cwd=here)
    with open(os.path.join(here, "data", "x.mlx")) as file:
        pointer = dict(line.strip().split(" ", 1) for line in file)
    write_journal(os.path.join(here, ".mlx", "journal"), operations(count, Key(b"\x07" * 32), pointer=pointer))
    run(binary, "remote", "add", "origin", os.path.join(folder, "remote"), cwd=here)
    run(binary, "status", cwd=here)
    push = run(binary, "push", cwd=here)
    run(binary, "init", cwd=there)
    shutil.copy(os.path.join(here, "mlx.toml"), there)
    return {"push": push, "fetch": run(binary, "fetch", cwd=there)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", nargs="+")
    parser.add_argument("--operations", default="50000,200000")
    parser.add_argument("--only")
    options = parser.parse_args()
    print(f"{'operations':>10}  {'command':<13}" + "".join(f"  {os.path.basename(b)[:12]:>12} MiB      s  CPU s" for b in options.binaries))
    with tempfile.TemporaryDirectory() as work:
        os.environ["HOME"] = work
        for count in map(int, options.operations.split(",")):
            journal = os.path.join(work, "journal")
            write_journal(journal, operations(count, Key(b"\x07" * 32)))
            rows = dict.fromkeys((*COMMANDS, "push", "fetch"), "")
            for binary in map(os.path.abspath, options.binaries):
                clone = os.path.join(work, "clone")
                shutil.rmtree(clone, ignore_errors=True)
                os.makedirs(clone)
                run(binary, "init", cwd=clone)
                shutil.copy(journal, os.path.join(clone, ".mlx", "journal"))
                for name, words in COMMANDS.items():
                    if name != "take in" and options.only not in (None, name):
                        continue
                    rows[name] += "  {:16.1f} {:6.1f} {:6.1f}".format(*run(binary, *words, cwd=clone))
                if options.only in (None, "push", "fetch"):
                    with tempfile.TemporaryDirectory(dir=work) as folder:
                        for name, measured in travel(binary, folder, count).items():
                            rows[name] += "  {:16.1f} {:6.1f} {:6.1f}".format(*measured)
            for name, row in rows.items():
                if row:
                    print(f"{count:>10}  {name:<13}{row}", flush=True)


if __name__ == "__main__":
    main()
