"""A strict, small S3 server for tests: objects in memory, signatures checked from scratch, conditional PUT, ranges, and
faults on demand. Listens on loopback on a free port, which it prints with its pid; ends when its parent does.

usage: s3_server.py [--ignore-conditions] [BUCKET...]

PUT /_control with {"faults": [{"method", "match", "times", "skip", "do", "status", "code", "seconds"}], "clock": SECONDS}:
the first fault that fits a request (method, part of the key) is done `times` times, after `skip` requests that fit:
  status  answers so, with the code        reset   closes the connection without an answer
  lost    does it, and then closes         cut     half of the answer's body, then closes
  stall   waits `seconds` first            flip    one bit of the answer's body is another
  drip    ten bytes of the body a second
PUT /_lose with {"key", "how": "delete" or "cut"} loses an object, or its second half; GET /_objects gives {key: size}.
GET /_log gives and empties the list of requests: [method, key, status, range, bytes received].
"""
import datetime
import hashlib
import hmac
import json
import os
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# access key → secret, session token, buckets that it may use (None: all)
KEYS = {
    "AKIDTEST": ("s3cr3t/of+tests", None, None),
    "AKIDTOKEN": ("s3cr3t/of+token", "token/of+tests==", None),
    "AKIDNOBODY": ("s3cr3t/of+nobody", None, ()),
}
REGION = "eu-test-1"
MESSAGES = {
    "SignatureDoesNotMatch": "The signature is another one. Key <s3cr3t> & all.",
    "PreconditionFailed": "At least one of the preconditions did not hold",
}
ignore_conditions = "--ignore-conditions" in sys.argv
objects = {name: {} for name in sys.argv[1:] if not name.startswith("--")}  # bucket → key → bytes
lock = threading.Lock()
state = {"faults": [], "clock": 0, "log": []}


class Refusal(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


def tag_of(body):
    return '"' + hashlib.md5(body).hexdigest() + '"'


def sign(secret, request, names, date, scope, payload_hash):
    parts = urllib.parse.urlsplit(request.path)
    query = "&".join(sorted(p if "=" in p else p + "=" for p in parts.query.split("&") if p))
    lines = "".join(f"{n}:{' '.join(request.headers[n].split())}\n" for n in names)
    canonical = "\n".join([request.command, parts.path, query, lines, ";".join(names), payload_hash])
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for step in scope.split("/"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def check_signature(request, bucket, body):
    given = request.headers.get("Authorization", "")
    if not given.startswith("AWS4-HMAC-SHA256 "):
        raise Refusal(403, "AccessDenied")
    fields = dict(f.strip().split("=", 1) for f in given.split(" ", 1)[1].split(","))
    access, scope = fields["Credential"].split("/", 1)
    if access not in KEYS:
        raise Refusal(403, "InvalidAccessKeyId")
    secret, token, buckets = KEYS[access]
    date = request.headers["x-amz-date"]
    if scope.split("/")[1] != REGION:
        raise Refusal(400, "AuthorizationHeaderMalformed")
    names = fields["SignedHeaders"].split(";")
    signed = {"host", "x-amz-date", "x-amz-content-sha256"} | {n.lower() for n in request.headers if n.lower().startswith("x-amz-")}
    if names != sorted(names) or not signed <= set(names) or scope != f"{date[:8]}/{REGION}/s3/aws4_request":
        raise Refusal(403, "SignatureDoesNotMatch")
    payload_hash = request.headers["x-amz-content-sha256"]
    if not hmac.compare_digest(sign(secret, request, names, date, scope, payload_hash), fields["Signature"]):
        raise Refusal(403, "SignatureDoesNotMatch")
    if request.headers.get("x-amz-security-token") != token:
        raise Refusal(400, "InvalidToken")
    then = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()
    if abs(then - time.time() - state["clock"]) > 900:
        raise Refusal(403, "RequestTimeTooSkewed")
    if hashlib.sha256(body).hexdigest() != payload_hash:
        raise Refusal(400, "XAmzContentSHA256Mismatch")
    if buckets is not None and bucket not in buckets:
        raise Refusal(403, "AccessDenied")
    if bucket not in objects:
        raise Refusal(404, "NoSuchBucket")


def put(request, keys, key, body):
    there = keys.get(key)
    if not ignore_conditions:
        if request.headers.get("If-None-Match") == "*" and there is not None:
            raise Refusal(412, "PreconditionFailed")
        wanted = request.headers.get("If-Match")
        if wanted is not None and there is None:
            raise Refusal(404, "NoSuchKey")
        if wanted is not None and wanted != tag_of(there):
            raise Refusal(412, "PreconditionFailed")
    keys[key] = body
    return 200, {"ETag": tag_of(body)}, b""


def get(request, keys, key):
    if key not in keys:
        raise Refusal(404, "NoSuchKey")
    whole = keys[key]
    headers = {"ETag": tag_of(whole)}
    if request.headers.get("If-None-Match") == tag_of(whole):
        return 304, headers, b""
    wanted = request.headers.get("Range")
    if wanted is None:
        return 200, headers, whole
    first, last = (int(n) for n in wanted.removeprefix("bytes=").split("-"))
    if first >= len(whole):
        raise Refusal(416, "InvalidRange")
    part = whole[first:last + 1]
    headers["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(whole)}"
    return 206, headers, part


def take_fault(method, key):
    with lock:
        for fault in state["faults"]:
            if fault.get("method", method) != method or fault.get("match", "") not in key:
                continue
            if fault.get("skip", 0) > 0:
                fault["skip"] -= 1
                continue
            if fault.get("times", 1) > 0:
                fault["times"] = fault.get("times", 1) - 1
                return fault
    return {"do": "nothing"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() + state["clock"])

    def handle_expect_100(self):
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def answer(self, status, headers, body, cut=False, drips=False):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if drips:
            for byte in body:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.1)
        elif self.command != "HEAD":
            self.wfile.write(body[:len(body) // 2] if cut else body)
        self.wfile.flush()

    def control(self, body):
        with lock:
            if self.path == "/_lose":
                wanted = json.loads(body)
                keys = next(keys for keys in objects.values() if wanted["key"] in keys)
                whole = keys.pop(wanted["key"])
                if wanted["how"] == "cut":
                    keys[wanted["key"]] = whole[:len(whole) // 2]
                self.answer(200, {}, b"")
                return
            if self.path == "/_objects":
                sizes = {key: len(whole) for keys in objects.values() for key, whole in keys.items()}
                self.answer(200, {}, json.dumps(sizes).encode())
                return
            if self.command == "PUT":
                state.update({"faults": [], "clock": 0} | json.loads(body))
            found = json.dumps(state["log"]).encode()
            if self.command == "GET":
                state["log"] = []
        self.answer(200, {}, found)

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/_"):
            self.control(body)
            return
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        bucket, _, key = path[1:].partition("/")
        fault = take_fault(self.command, key)
        if fault["do"] == "stall":
            time.sleep(fault["seconds"])
        if fault["do"] == "reset":
            self.close_connection = True
            return
        try:
            if fault["do"] == "status":
                raise Refusal(fault["status"], fault.get("code", "InternalError"))
            check_signature(self, bucket, body)
            with lock:
                keys = objects[bucket]
                status, headers, answer = put(self, keys, key, body) if self.command == "PUT" else get(self, keys, key)
        except Refusal as refusal:
            status, headers = refusal.status, {"Content-Type": "application/xml"}
            if refusal.code == "AuthorizationHeaderMalformed":
                headers["x-amz-bucket-region"] = REGION
            text = MESSAGES.get(refusal.code, "No.").replace("&", "&amp;").replace("<", "&lt;")
            answer = f"<?xml version=\"1.0\"?>\n<Error><Code>{refusal.code}</Code><Message>{text}</Message></Error>".encode()
        with lock:
            state["log"].append([self.command, key, status, self.headers.get("Range", ""), len(body)])
        if fault["do"] == "lost":
            self.close_connection = True
            return
        if fault["do"] == "flip" and answer:
            answer = answer[:-1] + bytes([answer[-1] ^ 1])
        self.close_connection = self.close_connection or fault["do"] == "cut"
        try:
            self.answer(status, headers, answer, fault["do"] == "cut", fault["do"] == "drip")
        except ConnectionError:  # the client has had enough
            self.close_connection = True

    do_GET = do_PUT = do_HEAD = serve


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # clients that go away are part of the tests


def end_with_parent(parent):
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)


threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], os.getpid(), flush=True)
server.serve_forever()
