#!/usr/bin/env python3
"""Language models on CPU: prefill and decoding against llama.cpp, on random weights of a Llama's shape.

usage: llm.py MLX [--shape 1.1b|160m] [--rounds N] [--threads N] [--folder DIR] [--ik-llama BINARY]

Needs the package numpy, and for the peer llama-cpp-python (built for this machine: CMAKE_ARGS=-DGGML_NATIVE=ON) and
gguf. BINARY is the llama-batched-bench of a build of ik_llama.cpp, another peer. Makes a Hugging Face folder and the same
shapes as GGUF files, imports and quantizes the first, imports the file with K-quants, mixed as in Q4_K_M, and in each round
has every program and type compute 128 tokens of a prompt (pp), 16 tokens after it (tg), and then 16 tokens of each of
2, 4, 8 and 16 texts after the same prompt, together. Prints medians in tokens a second, ratios to llama.cpp's type of the
same bits, and the share of the memory's bandwidth that decoding reaches: bytes of all layers' weights times tokens a
second, over what reading memory from as many threads gives in the same round. Then it starts each program anew for one
token after one, with the files in the kernel's cache, and prints the seconds until then (of mlx the whole command, of
llama.cpp from loading the model on) and the peak of resident memory.
"""
import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

SHAPES = {  # width, hidden, layers, heads, key heads, vocabulary
    "1.1b": (2048, 5632, 22, 32, 4, 32000),
    "160m": (768, 2048, 12, 12, 4, 32000),
}
PROMPT, TOKENS, CONTEXT = 128, 16, 512
TEXTS = 1, 2, 4, 8, 16  # generated together
BITS = {"int4": 4.5, "int8": 8.5, "bf16": 16, "q4_k": 4.5}  # of a weight, with its scale
MORE_BITS = 6.5625  # of those in q4_k that are Q6_K


def tensors(shape):
    """Names of a Hugging Face folder and of GGUF, and shapes."""
    width, hidden, layers, heads, keys, vocabulary = shape
    kv = width // heads * keys
    yield "model.embed_tokens.weight", "token_embd.weight", (vocabulary, width)
    for i in range(layers):
        theirs, gguf = f"model.layers.{i}.", f"blk.{i}."
        yield theirs + "input_layernorm.weight", gguf + "attn_norm.weight", (width,)
        for name, short, rows, columns in (("self_attn.q_proj", "attn_q", width, width), ("self_attn.k_proj", "attn_k", kv, width),
                                           ("self_attn.v_proj", "attn_v", kv, width), ("self_attn.o_proj", "attn_output", width, width),
                                           ("mlp.gate_proj", "ffn_gate", hidden, width), ("mlp.up_proj", "ffn_up", hidden, width),
                                           ("mlp.down_proj", "ffn_down", width, hidden)):
            yield f"{theirs}{name}.weight", f"{gguf}{short}.weight", (rows, columns)
        yield theirs + "post_attention_layernorm.weight", gguf + "ffn_norm.weight", (width,)
    yield "model.norm.weight", "output_norm.weight", (width,)
    yield "lm_head.weight", "output.weight", (vocabulary, width)


class Values:
    """The same numbers for all tensors of a shape, which is as good for speed and faster to make."""

    def __init__(self):
        self.rng, self.made = numpy.random.default_rng(1), {}

    def of(self, dims):
        if dims not in self.made:
            self.made[dims] = numpy.ones(dims, numpy.float32) if len(dims) == 1 else \
                self.rng.standard_normal(dims, numpy.float32) * 0.02
        return self.made[dims]


def write_folder(folder, shape, values):
    width, hidden, layers, heads, keys, vocabulary = shape
    os.makedirs(folder)
    json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width,
               "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
               "num_key_value_heads": keys, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5,
               "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False},
              open(os.path.join(folder, "config.json"), "w"))
    header, at = {}, 0
    for name, _, dims in tensors(shape):
        size = 2 * int(numpy.prod(dims))
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, _, dims in tensors(shape):
            out.write((values.of(dims).view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes())


def has_more_bits(name, layers):
    """Whether Q4_K_M has Q6_K there: the head, and values and the last layer of every third block, and of more at both ends."""
    block = int(name.split(".")[1]) if name.startswith("blk.") else -1
    more = block < layers // 8 or block >= 7 * layers // 8 or (block - layers // 8) % 3 == 2
    return name == "output.weight" or (block >= 0 and more and ("attn_v" in name or "ffn_down" in name))


def k_quants(numbers, kind):
    """Blocks by llama.cpp's own quantizer, which the package gguf has no other for."""
    import glob
    import gguf
    import llama_cpp
    library = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(llama_cpp.__file__), "lib", "libggml-base.so"))[0])
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = numpy.zeros((len(numbers), numbers.shape[1] // elements * size), numpy.uint8)
    library.ggml_quantize_chunk(int(kind), numbers.ctypes.data_as(ctypes.c_void_p), blocks.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0),
                                ctypes.c_int64(len(numbers)), ctypes.c_int64(numbers.shape[1]), None)
    return blocks


def write_gguf(path, shape, values, kind):
    import gguf
    width, hidden, layers, heads, keys, vocabulary = shape
    out = gguf.GGUFWriter(path, "llama")
    for add, value in ((out.add_context_length, CONTEXT), (out.add_embedding_length, width), (out.add_block_count, layers),
                       (out.add_feed_forward_length, hidden), (out.add_head_count, heads), (out.add_head_count_kv, keys),
                       (out.add_layer_norm_rms_eps, 1e-5), (out.add_rope_dimension_count, width // heads),
                       (out.add_vocab_size, vocabulary), (out.add_tokenizer_model, "no_vocab")):
        add(value)
    made = {}
    for _, name, dims in tensors(shape):
        if len(dims) == 1:
            out.add_tensor(name, values.of(dims))
            continue
        own, blocks = kind, kind == gguf.GGMLQuantizationType.Q4_K
        if blocks and has_more_bits(name, layers):
            own = gguf.GGMLQuantizationType.Q6_K
        if (dims, own) not in made:
            made[dims, own] = (k_quants if blocks else gguf.quants.quantize)(values.of(dims), own)
        out.add_tensor(name, made[dims, own], raw_dtype=own)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


class LlamaCpp:
    def __init__(self, path, threads):
        self.path, self.threads = path, threads
        import llama_cpp
        self.api = llama_cpp
        self.silent = llama_cpp.llama_log_callback(lambda *_: None)  # must outlive the library's use of it
        llama_cpp.llama_log_set(self.silent, ctypes.c_void_p(0))
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = CONTEXT, CONTEXT, CONTEXT
        options.n_seq_max, options.kv_unified = max(TEXTS), True  # 128 + 16 * 16 positions are fewer than 512
        options.n_threads = options.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, options)

    def decode_together(self, token, texts):
        batch = self.api.llama_batch_init(texts, 0, 1)
        batch.n_tokens = texts
        for i in range(texts):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = \
                token + 7 + i, PROMPT + token, 1, i, True
        failed = self.api.llama_decode(self.context, batch)
        self.api.llama_batch_free(batch)
        if failed:
            raise RuntimeError("llama_decode failed")

    def decode(self, tokens):
        array = (self.api.llama_token * len(tokens))(*tokens)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(tokens))) != 0:
            raise RuntimeError("llama_decode failed")

    def prompt(self, texts):
        memory = self.api.llama_get_memory(self.context)
        self.api.llama_memory_clear(memory, True)
        self.decode(list(range(1, PROMPT + 1)))
        for i in range(1, texts):
            self.api.llama_memory_seq_cp(memory, 0, i, -1, -1)

    def measure(self):
        begun = time.perf_counter()
        self.prompt(1)
        rates = [PROMPT / (time.perf_counter() - begun)]
        for texts in TEXTS:
            self.prompt(texts)
            first = time.perf_counter()
            for token in range(TOKENS):
                self.decode_together(token, texts)
            rates.append(texts * TOKENS / (time.perf_counter() - first))
        return rates


    def first(self):
        return json.loads(subprocess.run([sys.executable, __file__, self.path, "--first", "--threads", str(self.threads)],
                                         check=True, capture_output=True, text=True).stdout)


class IkLlamaCpp:
    """Its own benchmark, with weights that it lays out anew when it loads them and with those of the file: the better of both."""

    def __init__(self, binary, path, threads):
        self.command = [binary, "-m", path, "-t", str(threads), "-c", str(CONTEXT), "-b", str(CONTEXT), "-ub", str(CONTEXT), "-pps",
                        "-npp", str(PROMPT), "-ntg", str(TOKENS), "-npl", ",".join(map(str, TEXTS))]

    def measure(self):
        return [max(both) for both in zip(self.rates(), self.rates("-rtr"))]

    def rates(self, *options):
        done = subprocess.run([*self.command, *options], check=True, capture_output=True, text=True)
        rows = [[float(cell) for cell in line.strip("| ").split("|")] for line in (done.stdout + done.stderr).splitlines()
                if line.startswith("|") and line.count("|") == 11 and line.strip("| ")[0].isdigit()]
        if [row[2] for row in rows] != list(TEXTS):
            raise RuntimeError(f"{self.command[0]} printed no rates:\n{done.stdout}{done.stderr}")
        return [rows[0][5], *(row[7] for row in rows)]


def peak_of(process):
    """MiB of resident memory; 0 of a process that ends."""
    try:
        with open(f"/proc/{process}/status") as status:
            return next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


def first_of_llama_cpp(path, threads):
    begun = time.perf_counter()
    LlamaCpp(path, threads).decode([1])
    print(json.dumps([time.perf_counter() - begun, peak_of("self")]))


def first_of_mlx(binary, project, model, threads):
    begun = time.perf_counter()
    child = subprocess.Popen([binary, "predict", model, "--tokens", "1", "--max-tokens", "1", "--temperature", "0"], cwd=project,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "MLX_THREADS": str(threads)})
    peak = 0  # not by wait4, which counts what this process had when it forked
    while child.poll() is None:
        peak = max(peak, peak_of(child.pid))
        time.sleep(0.002)
    if child.returncode != 0:
        raise RuntimeError(f"mlx predict {model} failed")
    return [time.perf_counter() - begun, peak]


def measure_mlx(binary, project, model, threads):
    tokens = " ".join(str(i) for i in range(1, PROMPT + 1))
    rates = []
    for texts in TEXTS:
        text = subprocess.run([binary, "predict", model, "--tokens", tokens, "--max-tokens", str(TOKENS + 1), "--count",
                               str(texts), "--temperature", "0", "--json"], cwd=project, check=True, capture_output=True,
                              text=True, env={**os.environ, "MLX_THREADS": str(threads)}).stdout
        speed = json.loads(text)["speed"]
        if not rates:
            rates.append(speed["prompt_tokens"] / speed["prompt_seconds"])
        rates.append(speed["tokens"] / speed["seconds"])
    return rates


def bandwidth(threads):
    """Bytes a second that as many threads read at once."""
    from concurrent.futures import ThreadPoolExecutor
    parts = [numpy.ones(48 << 20, numpy.int64) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(numpy.max, parts))
        begun = time.perf_counter()
        list(pool.map(numpy.max, parts))
    return sum(part.nbytes for part in parts) / (time.perf_counter() - begun)


def layer_bytes(shape, kind):
    bits = lambda there: MORE_BITS if kind == "q4_k" and has_more_bits(there, shape[2]) else BITS[kind]
    return sum(int(numpy.prod(dims)) * bits(there) / 8 for name, there, dims in tensors(shape) if len(dims) == 2 and "embed" not in name)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("mlx")
    parser.add_argument("--shape", default="1.1b", choices=SHAPES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder")
    parser.add_argument("--ik-llama", metavar="BINARY", type=os.path.abspath)
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)  # MLX is a GGUF file
    options = parser.parse_args()
    if options.first:
        return first_of_llama_cpp(options.mlx, options.threads)
    binary, shape = os.path.abspath(options.mlx), SHAPES[options.shape]
    with tempfile.TemporaryDirectory(dir=options.folder) as base:
        values, project = Values(), os.path.join(base, "project")
        write_folder(os.path.join(base, "theirs"), shape, values)
        os.makedirs(project)
        run = lambda *args: subprocess.run([binary, *args], cwd=project, check=True, capture_output=True)
        run("init")
        run("import", "model", "../theirs", "--name", "lm")
        programs, starts, peers = {}, {}, {}
        for version, to in ((2, "int4"), (3, "int8"), (1, "bf16")):
            if version > 1:
                run("quantize", "lm@v1", "--to", to)
            programs["mlx " + to] = lambda v=version: measure_mlx(binary, project, f"lm@v{v}", options.threads)
            starts["mlx " + to] = lambda v=version: first_of_mlx(binary, project, f"lm@v{v}", options.threads)
        try:
            import gguf
            import llama_cpp  # noqa: F401
            for to, kind in (("int4", "Q4_0"), ("int8", "Q8_0"), ("bf16", "BF16"), ("q4_k", "Q4_K")):
                path = os.path.join(base, kind + ".gguf")
                write_gguf(path, shape, values, getattr(gguf.GGMLQuantizationType, kind))
                name = "llama.cpp " + kind
                peers["mlx " + to] = [name]
                peer = LlamaCpp(path, options.threads)
                programs[name], starts[name] = peer.measure, peer.first
                if to == "q4_k":
                    run("import", "model", path, "--name", to)
                    programs["mlx " + to] = lambda: measure_mlx(binary, project, "q4_k", options.threads)
                    starts["mlx " + to] = lambda: first_of_mlx(binary, project, "q4_k", options.threads)
                if options.ik_llama:
                    peers["mlx " + to].append("ik_" + name)
                    programs["ik_" + name] = IkLlamaCpp(options.ik_llama, path, options.threads).measure
        except ImportError as error:
            print(f"without a peer: {error}")
        rates = {name: [] for name in programs}
        memory = []
        for _ in range(options.rounds):
            memory.append(bandwidth(options.threads))
            for name, measure in programs.items():
                rates[name].append(measure())
        print(f"{options.shape}, {options.threads} threads, medians of {options.rounds}; memory {statistics.median(memory) / 1e9:.1f} GB/s")
        columns = [f"pp{PROMPT}", *(f"tg{TOKENS}" + (f" of {n}" if n > 1 else "") for n in TEXTS)]
        medians = {name: [statistics.median(each) for each in zip(*all)] for name, all in rates.items()}
        for name, values in medians.items():
            text = f"{name:18}" + "".join(f" {c} {v:6.1f}" for c, v in zip(columns, values))
            if name.startswith("mlx"):
                share = layer_bytes(shape, name.split()[1]) * values[1] / statistics.median(memory)
                text += f"; one text: {share * 100:.0f} % of the bandwidth"
            print(text)
            for peer in peers.get(name, []):
                print(f"  over {peer}:" + "".join(f" {c} {v / t:.2f}x" for c, v, t in zip(columns, values, medians[peer])))
        for name, start in starts.items():
            seconds, peak = (statistics.median(each) for each in zip(*(start() for _ in range(options.rounds))))
            print(f"{name:18} first token after {seconds:.2f} s, peak of memory {peak:.0f} MiB")


if __name__ == "__main__":
    main()
