"""A remote that lies, and its three shapes: files of a folder, an S3 server in this process, and a server that speaks
mlx-format-wire(5) on standard input and output (wire.py). Used by run.py and attacks.py.
"""
import hashlib
import os
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Callable, Optional

import formats


@dataclass
class Remote:
    """What a remote holds and how it lies about it. A lie that has a place in one shape alone says so in its name."""
    objects: list
    heads: list
    pack: dict = field(default_factory=dict)               # arguments of formats.pack()
    spoil: Optional[Callable] = None                       # bytes of a pack → bytes of a pack, after its ID is made
    heads_text: Optional[bytes] = None
    catalogue: Optional[Callable] = None                   # its text → its text
    folder: Optional[Callable] = None                      # (path of the folder): what else is done to it
    s3: Optional[Callable] = None                          # (method, key, range, answer) → answer
    wire: str = ""                                         # name of a lie in wire.py
    file: dict = field(default_factory=dict)               # small files by name

    def packs(self):
        """Each as (ID, bytes, number of records)."""
        whole, identity = formats.pack(self.objects, **self.pack)
        return [(identity, self.spoil(whole) if self.spoil else whole, len(self.objects))]

    def text_of_heads(self):
        return formats.heads_text(self.heads) if self.heads_text is None else self.heads_text


def write_folder(remote, path):
    os.makedirs(os.path.join(path, "packs"))
    files = {}
    formats.small(files, "packs/FORMAT", b"mlx store 1\n")
    formats.small(files, "heads", remote.text_of_heads())
    for name, content in remote.file.items():
        formats.small(files, "file-" + name, content)
    for identity, whole, _ in remote.packs():
        files[f"packs/{identity.hex()}.pack"] = whole
    for name, content in files.items():
        with open(os.path.join(path, name), "wb") as f:
            f.write(content)
    if remote.folder:
        remote.folder(path)


def write_bucket(remote):
    keys = {"format": b"mlx s3 remote 1\n"}
    packs = remote.packs()
    for identity, whole, _ in packs:
        keys[f"packs/{identity.hex()}.pack"] = whole
    text = formats.catalogue_text(remote.heads, [(i, len(whole), count) for i, whole, count in packs])
    formats.small(keys, "catalogue", remote.catalogue(text) if remote.catalogue else text)
    for name, content in remote.file.items():
        formats.small(keys, "file-" + name, content)
    return keys


class S3:
    """Serves remotes as s3://bucket/PREFIX. An answer is (status, headers, body or an iterator of parts)."""

    def __init__(self):
        remotes = self.remotes = {}  # prefix → (remote, keys)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                prefix, _, key = self.path.removeprefix("/bucket/").partition("/")
                remote, keys = remotes[prefix]
                answer = honest_answer(keys, key, self.headers)
                if remote.s3:
                    answer = remote.s3(self.command, key, self.headers.get("Range"), answer)
                status, headers, body = answer
                self.send_response(status)
                if isinstance(body, bytes):
                    headers = {"Content-Length": str(len(body))} | headers
                else:
                    self.close_connection = True
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    for part in [body] if isinstance(body, bytes) else body:
                        self.wfile.write(part)
                promised = headers.get("Content-Length")
                if promised is not None and isinstance(body, bytes) and int(promised) != len(body):
                    self.close_connection = True

            do_HEAD = do_GET

            def do_PUT(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(403)
                self.send_header("Content-Length", "0")
                self.end_headers()

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_):
                pass  # clients that go away are part of the tests

        server = Server(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def serve(self, prefix, remote):
        self.remotes[prefix] = (remote, write_bucket(remote))


def honest_answer(keys, key, headers):
    if key not in keys:
        return 404, {"Content-Type": "application/xml"}, b"<Error><Code>NoSuchKey</Code><Message>No.</Message></Error>"
    whole = keys[key]
    found = {"ETag": '"' + hashlib.md5(whole).hexdigest() + '"'}
    if headers.get("If-None-Match") == found["ETag"]:
        return 304, found, b""
    if not headers.get("Range"):
        return 200, found, whole
    first, last = (int(n) for n in headers["Range"].removeprefix("bytes=").split("-"))
    if first >= len(whole):
        return 416, {}, b""
    part = whole[first:last + 1]
    return 206, found | {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(whole)}"}, part
