#!/usr/bin/env python3
"""`mlx serve` against other servers, in one run on one machine.

usage: serve.py MLX BENCH_SERVE [--seconds S] [--width W] [--layers N] [--tokens N] [--folder DIR]

BENCH_SERVE is the load generator of this folder (serve_load.cpp). Needs the packages numpy, onnx and onnxruntime for one peer, and
llama-cpp-python[server] for the other; without them it measures mlx alone.

A classifier of 28x28 images (an MLP of 256 units) answers one image a request: `mlx serve` in f32 and int8, and ONNX Runtime with the same
weights behind Python's own threaded server, with 1, 8 and 32 connections that each wait for their answer; then mlx at 80 % of the most that
32 connections got, with requests that come at random and do not wait for each other; then requests for nothing but health, which is the
rate of the HTTP stack itself. CPU time is the server's own, over all requests. Batches of 64 in int8 stand beside what `mlx eval` reaches.

A language model of a Llama's shape with random weights and bytes as tokens, in int8, continues a prompt of 64 tokens for 1, 8 and 32
clients at once: `mlx serve`, and llama_cpp.server with the same weights as a GGUF file of Q8_0. Of each: tokens a second of all clients, and
medians of the time to the first token and the 99th percentile of the time between two.
"""
import argparse
import ctypes
import http.client
import http.server
import json
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONNECTIONS = 1, 8, 32
TICK = os.sysconf("SC_CLK_TCK")
SIZE, UNITS, IMAGES, PROMPT, CONTEXT = 28, 256, 20000, 64, 512


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server's process, from its first answer to its end."""

    def __init__(self, command, port, ready, **options):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, **options)
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", ready)
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.log.seek(0)
        raise SystemExit(f"{command[:3]} did not start: {self.log.read().decode()[-2000:]}")

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


# --- a classifier ---

def load(bench, server, seconds, connections, *more):
    """What the load generator prints, and microseconds of the server's CPU a request."""
    before = server.cpu()
    answer = subprocess.run([bench, "--url", server.url, "--seconds", str(seconds), "--connections", str(connections), *more], check=True,
                            capture_output=True, text=True)
    out = json.loads(answer.stdout)
    if not out["requests"]:
        raise SystemExit(f"no answer within {seconds:g} s: the machine is too busy to measure")
    out["cpu_us"] = 1e6 * (server.cpu() - before) / max(1, out["requests"] * (seconds + 0.2) / seconds)
    return out


def row(name, connections, out):
    print(f"{name:26} {connections:>7} {out['requests_per_second']:>10,.0f} {out['p50_ms']:>9.3f} {out['p99_ms']:>9.3f} {out['cpu_us']:>8.0f}",
          flush=True)


def image_body(count):
    pixels = [random.randrange(256) for _ in range(count * SIZE * SIZE)]
    return json.dumps({"inputs": [{"name": "images", "shape": [count, SIZE, SIZE, 1], "datatype": "UINT8", "data": pixels}],
                       "outputs": [{"name": "class"}]}, separators=(",", ":"))


def safetensors(path):
    import numpy
    data = open(path, "rb").read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    for name, about in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            yield name, numpy.frombuffer(data[start + begin:start + end], "<f4").reshape(about["shape"])


def write_onnx(folder, path):
    """The network of a folder that `mlx checkout` wrote; it takes pixels as f32 and gives the class."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    weights = dict(safetensors(os.path.join(folder, "weights.safetensors")))
    matrices = sorted((w for w in weights.values() if w.ndim == 2), key=lambda w: -w.shape[1])
    biases = [next(b for b in weights.values() if b.shape == w.shape[:1]) for w in matrices]
    made = [numpy_helper.from_array(numpy.array(v), n) for n, v in
            (("w1", matrices[0]), ("b1", biases[0]), ("w2", matrices[1]), ("b2", biases[1]), ("scale", numpy.float32(1 / 255)))]
    nodes = [helper.make_node("Mul", ["x", "scale"], ["u"]), helper.make_node("Gemm", ["u", "w1", "b1"], ["h"], transB=1),
             helper.make_node("Relu", ["h"], ["r"]), helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], transB=1),
             helper.make_node("ArgMax", ["y"], ["class"], axis=1, keepdims=0)]
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", SIZE * SIZE])],
                              [helper.make_tensor_value_info("class", TensorProto.INT64, ["n"])], made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def serve_onnx(path, port):
    """The peer: ONNX Runtime behind the standard library's server, with the same requests and answers."""
    import numpy
    import onnxruntime
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def answer(self, document):
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer({"ready": True})

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            tensor = request["inputs"][0]
            pixels = numpy.array(tensor["data"], numpy.float32).reshape(tensor["shape"][0], SIZE * SIZE)
            classes = session.run(None, {"x": pixels})[0]
            self.answer({"model_name": "clf", "model_version": "1", "outputs": [
                {"name": "class", "datatype": "INT64", "shape": [len(classes)], "data": classes.tolist()}]})

        def log_message(self, *_):
            pass

    class Threaded(http.server.ThreadingHTTPServer):
        request_queue_size = 128

    Threaded(("127.0.0.1", port), Handler).serve_forever()


def classifier(options, run, project, base):
    import importlib.util
    print(f"one image of {SIZE}x{SIZE} a request, {options.seconds:g} s each")
    print(f"{'':26} {'clients':>7} {'answers/s':>10} {'p50 ms':>9} {'p99 ms':>9} {'CPU us':>8}")
    one, many = os.path.join(base, "one.json"), os.path.join(base, "many.json")
    open(one, "w").write(image_body(1))
    open(many, "w").write(image_body(64))
    rates = {}
    for name, reference in (("mlx f32", "clf@v1"), ("mlx int8", "clf@v2")):
        port = free_port()
        with Server([options.mlx, "serve", f"clf={reference}", "--listen", f"127.0.0.1:{port}"], port, "/v2/health/ready", cwd=project) as server:
            asked = "--model", "clf", "--request", one
            for connections in CONNECTIONS:
                out = load(options.bench, server, options.seconds, connections, *asked)
                rates[name, connections] = out["requests_per_second"]
                row(name, connections, out)
            rate = 0.8 * rates[name, CONNECTIONS[-1]]
            out = load(options.bench, server, options.seconds, 64, *asked, "--rate", f"{rate:.1f}")
            row(f"{name}, 80 % load", "random", out)
            print(f"  p99 over p50 at 80 % load: {out['p99_ms'] / out['p50_ms']:.1f}")
            for connections in CONNECTIONS:
                row(f"{name}: health alone", connections, load(options.bench, server, options.seconds, connections, "--get", "/v2/health/live"))
            if reference == "clf@v2":
                batch = max(load(options.bench, server, options.seconds, n, "--model", "clf", "--request", many)["requests_per_second"]
                            for n in (2, 4))
                started = time.perf_counter()
                run("eval", reference, "--data", "data/bars", "--split", "test")
                whole = time.perf_counter() - started
                print(f"  requests of 64 images, int8: {64 * batch:,.0f} images/s; `mlx eval` of {IMAGES:,} images: {IMAGES / whole:,.0f} images/s "
                      "with the program's start")
    if not all(importlib.util.find_spec(name) for name in ("numpy", "onnx", "onnxruntime")):
        print("without ONNX Runtime: a package is missing")
        return
    run("checkout", "clf@v1", "--to", os.path.join(base, "clf"))
    path, port = os.path.join(base, "clf.onnx"), free_port()
    write_onnx(os.path.join(base, "clf"), path)
    name = "ONNX Runtime, Python"
    with Server([sys.executable, os.path.abspath(__file__), "--onnx", path, str(port)], port, "/") as server:
        for connections in CONNECTIONS:
            out = load(options.bench, server, options.seconds, connections, "--model", "clf", "--request", one)
            row(name, connections, out)
            print(f"  mlx f32 over it: {rates['mlx f32', connections] / out['requests_per_second']:.1f}x")


# --- a language model ---

def ask(port, model, tokens, seed, times, errors):
    """One streamed completion; the moments of its events go to `times`."""
    letters = random.Random(seed)
    prompt = "".join(letters.choice("abcdefghijklmnopqrstuvwxyz ") for _ in range(PROMPT))
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True,
            "logit_bias": {str(token): -100 for token in range(128, 257)}}  # each token is a letter, and an event of its own
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        moments = [time.perf_counter()]
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(answer.read()[:300])
        for line in answer:
            if line.startswith(b"data: {"):
                moments.append(time.perf_counter())
            if line.startswith(b"data: [DONE]"):
                break
        times.append(moments)
    except OSError as error:
        errors.append(error)


def measure_texts(port, model, clients, tokens):
    times, errors = [], []
    threads = [threading.Thread(target=ask, args=(port, model, tokens, seed, times, errors)) for seed in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise SystemExit(f"{model}: {errors[0]}")
    seconds = max(moments[-1] for moments in times) - started
    between = sorted(b - a for moments in times for a, b in zip(moments[1:], moments[2:]))
    return {"rate": clients * tokens / seconds, "first": statistics.median(m[1] - m[0] for m in times),
            "between": between[int(0.99 * (len(between) - 1))]}


def write_model(folder, options):
    """A folder as `transformers` writes it, by the tests' own writer with another shape."""
    import numpy
    subprocess.run([sys.executable, os.path.join(HERE, "..", "cli", "chat_folder.py"), folder], check=True)
    width, heads, path = options.width, max(1, options.width // 64), os.path.join(folder, "config.json")
    config = json.load(open(path))
    config |= {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": options.layers, "num_attention_heads": heads,
               "num_key_value_heads": heads, "head_dim": width // heads, "max_position_embeddings": CONTEXT, "tie_word_embeddings": False}
    json.dump(config, open(path, "w"))
    tokenizer = os.path.join(folder, "tokenizer.json")
    words = json.load(open(tokenizer))
    words["pre_tokenizer"]["use_regex"] = True  # as GPT-2's, which files of GGUF can say
    json.dump(words, open(tokenizer, "w"))
    rng = numpy.random.default_rng(1)
    shapes = {"model.embed_tokens.weight": (257, width), "model.norm.weight": (width,), "lm_head.weight": (257, width)}
    for i in range(options.layers):
        layer = f"model.layers.{i}."
        shapes |= {layer + f"self_attn.{n}_proj.weight": (width, width) for n in "qkvo"}
        shapes |= {layer + "mlp.gate_proj.weight": (4 * width, width), layer + "mlp.up_proj.weight": (4 * width, width),
                   layer + "mlp.down_proj.weight": (width, 4 * width)}
        shapes |= {layer + f"{n}_layernorm.weight": (width,) for n in ("input", "post_attention")}
    header, at, parts = {}, 0, []
    for name, dims in shapes.items():
        values = numpy.ones(dims, numpy.float32) if len(dims) == 1 else rng.standard_normal(dims, numpy.float32) * 0.02
        part = (values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [at, at + len(part)]}
        at += len(part)
        parts.append(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def texts(options, run, project, base):
    import importlib.util
    write_model(os.path.join(base, "theirs"), options)
    run("import", "model", os.path.join(base, "theirs"), "--name", "lm")
    run("quantize", "lm@v1", "--to", "int8")
    print(f"\na language model of {options.layers} layers of {options.width}, int8: {PROMPT} tokens of a prompt, {options.tokens} after it")
    print(f"{'':26} {'clients':>7} {'tokens/s':>10} {'first ms':>9} {'p99 ms':>9}")
    servers = {"mlx serve": lambda port: ([options.mlx, "serve", "lm=lm@v2", "--listen", f"127.0.0.1:{port}"], "/v2/health/ready")}
    if importlib.util.find_spec("llama_cpp") and importlib.util.find_spec("uvicorn"):
        path, small = os.path.join(base, "lm.gguf"), os.path.join(base, "q8.gguf")
        run("export", "model", "lm@v1", "--format", "gguf", "-o", path)
        import llama_cpp
        silent = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
        quantize = llama_cpp.llama_model_quantize_default_params()
        quantize.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0
        if llama_cpp.llama_model_quantize(path.encode(), small.encode(), quantize):
            raise SystemExit("llama.cpp does not quantize the file")
        servers["llama_cpp.server"] = lambda port: ([sys.executable, "-m", "llama_cpp.server", "--model", small, "--model_alias", "lm", "--n_ctx",
                                                     str(CONTEXT), "--n_threads", str(os.cpu_count()), "--interrupt_requests", "false",
                                                     "--host", "127.0.0.1", "--port", str(port)], "/v1/models")
    else:
        print("without llama_cpp.server: a package is missing")
    rates = {}
    for name, command_of in servers.items():
        port = free_port()
        command, ready = command_of(port)
        with Server(command, port, ready, cwd=project):
            measure_texts(port, "lm", 1, 4)
            for clients in CONNECTIONS:
                out = measure_texts(port, "lm", clients, options.tokens)
                rates[name, clients] = out["rate"]
                print(f"{name:26} {clients:>7} {out['rate']:>10,.1f} {1e3 * out['first']:>9.1f} {1e3 * out['between']:>9.1f}", flush=True)
                if name != "mlx serve":
                    print(f"  mlx serve over it: {rates['mlx serve', clients] / out['rate']:.1f}x")


def main():
    if sys.argv[1:2] == ["--onnx"]:
        return serve_onnx(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("mlx", type=os.path.abspath)
    parser.add_argument("bench", type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--folder", type=os.path.abspath)
    options = parser.parse_args()
    random.seed(1)
    with tempfile.TemporaryDirectory(dir=options.folder) as base:
        project = os.path.join(base, "project")
        os.makedirs(project)

        def run(*words):
            done = subprocess.run([options.mlx, *words], cwd=project, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"mlx {' '.join(words)}: {done.stderr}")

        subprocess.run([sys.executable, os.path.join(HERE, "..", "cli", "bars.py"), "1", "2000", str(IMAGES), str(SIZE), "6"], cwd=project,
                       check=True)
        open(os.path.join(project, "train.toml"), "w").write(
            f'[data]\ndataset = "data/bars"\n[model]\nname = "clf"\nfamily = "mlp"\nhidden = [{UNITS}]\n[train]\nepochs = 1\nbatch = 100\n')
        for words in (("init",), ("add", "data/bars"), ("commit", "-m", "bars"), ("train",), ("quantize", "clf@v1", "--calibrate", "data/bars")):
            run(*words)
        print(f"{os.cpu_count()} cores; load {os.getloadavg()[0]:.2f} at the beginning")
        classifier(options, run, project, base)
        texts(options, run, project, base)


if __name__ == "__main__":
    main()
