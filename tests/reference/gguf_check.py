"""Compares GGUF files imported by mlx with what the PyPI packages `gguf` and `llama-cpp-python` make of the same files.

usage: gguf_check.py MLX [--tokens N] [--only NAME] [--keep FOLDER]

Small models with random weights are written by `gguf` in every architecture and type of tensor that `mlx import model`
takes; types that `gguf` cannot write are made of random blocks. Each file is imported and asked for the logits behind
every token of a random sequence. The columns say how far they are

  torch   from the same model in double, with the weights that `gguf` itself expands, as a share of the largest logit:
          at most 1e-5. Where weights stay integers, mlx rounds activations to 8 bits, and so does this script; but a
          number in double that is another one in f32 may be rounded to the next integer, so that half of the logits
          may be 2e-3 off and one 0.03
  llama   from llama-cpp-python, which rounds activations in its own way where weights are quantized or in BF16, and
          keys and values to F16: at most 0.01 for F32 and F16, and 0.1, or where it is itself further from torch,
          half as much again

The weights that mlx stores must have the very numbers that `gguf` expands. Tokenizers are compared on lines of several scripts. Exits with 1 where something differs. It needs: pip install gguf
llama-cpp-python torch. No test of ctest runs it: the packages are no dependencies.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy
import torch

T = gguf.GGMLQuantizationType
WIDTH, HEADS, KEYS, HIDDEN, CONTEXT, WINDOW = 256, 4, 2, 512, 512, 33
LINES = ["the old mill turns", "  two  blanks and a tab\t.", "Größe, naïveté, Ελλάδα, привет, 中文字, 😀!", "x = 12345 + 67;\n\n\nend", "I'LL don't",
         "<s>special</s> [INST]"]


def layers_of(arch):
    return 7 if arch == "gemma3" else 2


def words():
    """A SentencePiece vocabulary with bytes, characters and merges, and its scores and types."""
    tokens = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)] + [(f"<0x{i:02X}>", 0.0, 6) for i in range(256)]
    made = ["\u2581t", "he", "\u2581the", "in", "\u2581a", "er", "ill", "old", "\u2581old", "mill", "\u2581m", "\u2581mill", "tu", "rn", "turn", "turns", "\u2581\u2581",
            "an", "and", "\u2581and", "bl", "ank", "blank", "12", "34"]
    made += [made_part for made_part in ("bla", "il", "ol", "turn\u2581", "nk") if made_part not in made]
    letters = sorted(set("\u2581abcdefghijklmnopqrstuvwxyz0123456789.,;'ßα"))
    tokens += [(text, -float(i + 1), 1) for i, text in enumerate(made)]
    tokens += [(text, -1000.0 - i, 1) for i, text in enumerate(letters)]
    tokens += [("[INST]", 0.0, 4)]
    return tokens


def byte_words():
    alphabet = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in alphabet]
    names = {byte: chr(byte) for byte in alphabet} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    tokens = [names[i] for i in range(256)]
    merges = []
    for left, right in (("\u0120", "t"), ("h", "e"), ("\u0120t", "he"), ("i", "l"), ("il", "l"), ("\u0120", "m"), ("\u0120m", "ill"), ("1", "2"), ("12", "3"), ("o", "l"),
                        ("ol", "d"), ("\u010a", "\u010a")):
        merges.append(f"{left} {right}")
        tokens.append(left + right)
    return tokens + ["<|end|>"], merges


def tensors_of(arch, vocabulary, tied, bias, rng):
    head = WIDTH // HEADS

    def matrix(rows, columns):
        return (rng.standard_normal((rows, columns)) * columns**-0.5 * 1.5).astype(numpy.float32)

    def vector(size, one):
        return (rng.standard_normal(size) * 0.2 + one).astype(numpy.float32)

    yield "token_embd.weight", matrix(vocabulary, WIDTH)
    if arch == "gpt2":
        yield "position_embd.weight", matrix(CONTEXT, WIDTH)
    for i in range(layers_of(arch)):
        for name in ("attn_norm", "ffn_norm", *(("post_attention_norm", "post_ffw_norm") if arch.startswith("gemma") else ())):
            yield f"blk.{i}.{name}.weight", vector(WIDTH, 1)
            if arch == "gpt2":
                yield f"blk.{i}.{name}.bias", vector(WIDTH, 0)
        layers = {"attn_output": (WIDTH, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}
        if arch == "gpt2":
            layers["attn_qkv"] = (3 * WIDTH, WIDTH)
        elif arch == "phi3":
            layers |= {"attn_qkv": (WIDTH + 2 * KEYS * head, WIDTH), "ffn_up": (2 * HIDDEN, WIDTH)}
        else:
            layers |= {"attn_q": (WIDTH, WIDTH), "attn_k": (KEYS * head, WIDTH), "attn_v": (KEYS * head, WIDTH), "ffn_gate": (HIDDEN, WIDTH)}
        for name, (rows, columns) in layers.items():
            yield f"blk.{i}.{name}.weight", matrix(rows, columns)
            if arch in ("qwen3", "gemma3") and name in ("attn_q", "attn_k"):
                yield f"blk.{i}.{name}_norm.weight", vector(head, 1)
            if arch == "gpt2" or (bias and name in ("attn_q", "attn_k", "attn_v")):
                yield f"blk.{i}.{name}.bias", vector(rows, 0)
    yield "output_norm.weight", vector(WIDTH, 1)
    if arch == "gpt2":
        yield "output_norm.bias", vector(WIDTH, 0)
    if not tied:
        yield "output.weight", matrix(vocabulary, WIDTH)


def random_blocks(data, kind, rng):
    """Blocks of a type that `gguf` does not write: random bits, with scales that make numbers of the size of `data`."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    rows = data.shape[0]
    blocks = rng.integers(0, 256, (data.size // elements, size), dtype=numpy.uint8)
    places = {T.Q2_K: (80, 82), T.Q3_K: (108, ), T.Q4_K: (0, 2), T.Q5_K: (0, 2), T.Q6_K: (208, )}[kind]
    step = {T.Q2_K: 4e-3, T.Q3_K: 1e-3, T.Q4_K: 1e-4, T.Q5_K: 6e-5, T.Q6_K: 3e-5}[kind]
    for place in places:
        scales = (step * (1 + rng.random(len(blocks)))).astype(numpy.float16)
        blocks[:, place:place + 2] = scales.view(numpy.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def stored(data, kind, rng):
    if data.ndim == 1 or kind == T.F32:
        return data, T.F32
    if kind.name.endswith("_K"):
        return random_blocks(data, kind, rng), kind
    return gguf.quants.quantize(data, kind), kind


def write(path, arch, pick, tied=False, bias=False, keys=(), factors=None, bpe=None):
    rng = numpy.random.default_rng(3)
    head = WIDTH // HEADS
    writer = gguf.GGUFWriter(path, arch)
    for add, value in ((writer.add_context_length, CONTEXT), (writer.add_embedding_length, WIDTH), (writer.add_feed_forward_length, HIDDEN),
                       (writer.add_block_count, layers_of(arch)), (writer.add_head_count, HEADS)):
        add(value)
    if arch == "gpt2":
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_head_count_kv(KEYS)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_dimension_count(WIDTH // HEADS)
        writer.add_rope_freq_base(1000000.0 if arch == "gemma3" else 10000.0)
        if arch.startswith("gemma"):
            writer.add_key_length(head)
            writer.add_value_length(head)
            writer.add_sliding_window(WINDOW)
    for key, value in keys:
        getattr(writer, key)(value)
    if bpe:
        tokens, merges = byte_words()
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(bpe)
        writer.add_token_list(tokens)
        writer.add_token_merges(merges)
        writer.add_token_types([1] * (len(tokens) - 1) + [3])
        writer.add_bos_token_id(len(tokens) - 1)
        writer.add_eos_token_id(len(tokens) - 1)
    else:
        tokens = words()
        writer.add_tokenizer_model("llama")
        writer.add_token_list([text for text, _, _ in tokens])
        writer.add_token_scores([score for _, score, _ in tokens])
        writer.add_token_types([kind for _, _, kind in tokens])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    numbers = {}
    for name, data in tensors_of(arch, len(tokens), tied, bias, rng):
        kind = pick(name) if data.ndim > 1 else T.F32
        data, kind = stored(data, kind, rng)
        writer.add_tensor(name, data, raw_dtype=kind)
        numbers[name] = (kind, torch.tensor(gguf.quants.dequantize(data, kind).astype(numpy.float64)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return numbers, len(tokens)


def rounded(x):
    """As linear_groups rounds its input, groups of 32."""
    groups = x.float().reshape(*x.shape[:-1], -1, 32)
    most = groups.abs().amax(-1, keepdim=True)
    inverse = torch.where(most > 0, torch.tensor(127.0) / most, torch.tensor(0.0))
    return ((groups * inverse).round().double() * (most / 127.0).double()).reshape(x.shape)


FLOATS = (T.F32, T.F16, T.BF16)


class Model:
    """The architectures in double, on the tensors of a file."""

    def __init__(self, arch, numbers, turns, keys):
        self.arch, self.numbers, self.turns = arch, numbers, turns
        yarn = ("add_rope_scaling_type", gguf.RopeScalingType.YARN) in keys
        self.sharper = 0.1 * math.log(4) + 1 if yarn else 1  # queries and keys
        self.caps = {key.removeprefix("add_").split("_")[0]: value for key, value in keys if key.endswith("softcapping")}

    def linear(self, x, names, fallback=None):
        names = [fallback if f"{name}.weight" not in self.numbers else name for name in names]
        parts = [self.numbers[f"{name}.weight"] for name in names]
        x = x if any(kind in FLOATS for kind, _ in parts) else rounded(x)
        outputs = []
        for name, (_, weight) in zip(names, parts):
            y = x @ weight.T
            outputs.append(y + self.numbers[f"{name}.bias"][1] if f"{name}.bias" in self.numbers else y)
        return outputs

    def norm(self, x, name):
        gamma = self.numbers[f"{name}.weight"][1]
        if self.arch == "gpt2":
            return torch.nn.functional.layer_norm(x, (WIDTH, ), gamma, self.numbers[f"{name}.bias"][1], 1e-5)
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gamma

    def turn(self, x, turns):
        """Pairs are neighbours in files of llama, halves apart in the others."""
        angles = torch.arange(x.shape[0], dtype=torch.float64)[:, None, None] * turns
        cos, sin = angles.cos(), angles.sin()
        if self.arch == "llama":
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def attend(self, q, k, v, i):
        head, gemma = WIDTH // HEADS, self.arch.startswith("gemma")
        local = gemma and ((i + 1) % (6 if self.arch == "gemma3" else 2) != 0)
        turns = 10000.0**(-torch.arange(0, head, 2, dtype=torch.float64) / head) if local else self.turns
        q, k, v = (x.reshape(x.shape[0], -1, head) for x in (q, k, v))
        if f"blk.{i}.attn_q_norm.weight" in self.numbers:
            q, k = self.norm(q, f"blk.{i}.attn_q_norm"), self.norm(k, f"blk.{i}.attn_k_norm")
        if self.arch != "gpt2":
            q, k = self.turn(q, turns), self.turn(k, turns)
        k, v = (x.repeat_interleave(HEADS // x.shape[1], 1) for x in (k, v))
        scores = self.capped(torch.einsum("qhd,khd->hqk", q, k) / head**0.5 * self.sharper**2, "attn")
        hidden = torch.full(scores.shape[1:], float("-inf"), dtype=torch.float64)
        scores = scores + hidden.triu(1) + (hidden.tril(-WINDOW) if local else 0)
        return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1)

    def capped(self, x, what):
        cap = self.caps.get(what)
        return cap * torch.tanh(x / cap) if cap else x

    def logits(self, tokens):
        x, gemma = self.numbers["token_embd.weight"][1][tokens], self.arch.startswith("gemma")
        if gemma:
            x = x * WIDTH**0.5
        if self.arch == "gpt2":
            x = x + self.numbers["position_embd.weight"][1][:len(tokens)]
        for i in range(layers_of(self.arch)):
            y = self.norm(x, f"blk.{i}.attn_norm")
            if self.arch == "gpt2":
                q, k, v = self.linear(y, [f"blk.{i}.attn_qkv"])[0].chunk(3, -1)
            elif self.arch == "phi3":
                q, k, v = self.linear(y, [f"blk.{i}.attn_qkv"])[0].split((WIDTH, WIDTH * KEYS // HEADS, WIDTH * KEYS // HEADS), -1)
            else:
                q, k, v = self.linear(y, [f"blk.{i}.attn_{name}" for name in "qkv"])
            y = self.linear(self.attend(q, k, v, i), [f"blk.{i}.attn_output"])[0]
            x = x + (self.norm(y, f"blk.{i}.post_attention_norm") if gemma else y)
            y = self.norm(x, f"blk.{i}.ffn_norm")
            if self.arch == "gpt2":
                y = torch.nn.functional.gelu(self.linear(y, [f"blk.{i}.ffn_up"])[0], approximate="tanh")
            else:
                fused = self.arch == "phi3"
                gate, up = self.linear(y, [f"blk.{i}.ffn_up"])[0].chunk(2, -1) if fused else self.linear(y, [f"blk.{i}.ffn_gate", f"blk.{i}.ffn_up"])
                y = (torch.nn.functional.gelu(gate, approximate="tanh") if gemma else torch.nn.functional.silu(gate)) * up
            y = self.linear(y, [f"blk.{i}.ffn_down"])[0]
            x = x + (self.norm(y, f"blk.{i}.post_ffw_norm") if gemma else y)
        return self.capped(self.linear(self.norm(x, "output_norm"), ["output"], "token_embd")[0], "final").numpy()


def llama3_factors(slow=8.0, low=1.0, high=4.0, context=8192):
    turns = 500000.0**(-numpy.arange(0, WIDTH // HEADS, 2) / (WIDTH // HEADS))
    kept = numpy.clip((context * turns / (2 * numpy.pi) - low) / (high - low), 0, 1)
    return (1 / (kept + (1 - kept) / slow)).astype(numpy.float32)


def only(kind):
    return lambda name: kind


def mixed(name):
    """As llama.cpp writes files: more bits where it counts."""
    if name in ("output.weight", "token_embd.weight"):
        return T.Q6_K
    return T.Q5_0 if "attn_v" in name else T.Q8_0 if "ffn_down" in name else T.Q4_0


def mixed_sizes(name):
    """Blocks of 32 and of 256 in a layer."""
    kinds = {"attn_q": T.Q4_K, "attn_k": T.Q4_1, "attn_v": T.Q8_0, "ffn_gate": T.Q5_1, "ffn_up": T.Q4_0, "token_embd": T.Q5_1}
    return next((kind for part, kind in kinds.items() if part in name), T.Q6_K)


def mixed_blocks(name):
    return T.Q6_K if "attn_v" in name or "ffn_down" in name or name == "output.weight" else T.Q4_K


MODELS = {f"llama {kind.name}": ("llama", {"pick": only(kind)})
          for kind in (T.F32, T.F16, T.BF16, T.Q8_0, T.Q5_0, T.Q4_0, T.Q4_1, T.Q5_1, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K)}
MODELS |= {
    "llama mixed": ("llama", {"pick": mixed}),
    "llama mixed blocks": ("llama", {"pick": mixed_blocks}),
    "llama mixed sizes": ("llama", {"pick": mixed_sizes}),
    "llama Q5_1 tied": ("llama", {"pick": only(T.Q5_1), "tied": True}),
    "qwen2 Q4_K tied": ("qwen2", {"pick": only(T.Q4_K), "bias": True, "tied": True, "bpe": "qwen2"}),
    "gemma2 Q5_K": ("gemma2", {"pick": only(T.Q5_K), "tied": True, "keys": (("add_attn_logit_softcapping", 1.5),
                                                                           ("add_final_logit_softcapping", 5.0))}),
    "llama Q8_0 tied": ("llama", {"pick": only(T.Q8_0), "tied": True}),
    "llama F32 linear rope": ("llama", {"pick": only(T.F32), "keys": (("add_rope_scaling_type", gguf.RopeScalingType.LINEAR),
                                                                      ("add_rope_scaling_factor", 4.0))}),
    "llama F32 yarn": ("llama", {"pick": only(T.F32), "keys": (("add_rope_scaling_type", gguf.RopeScalingType.YARN),
                                                               ("add_rope_scaling_factor", 4.0), ("add_rope_scaling_orig_ctx_len", 128))}),
    "llama Q8_0 llama3 rope": ("llama", {"pick": only(T.Q8_0), "keys": (("add_rope_freq_base", 500000.0), ), "factors": llama3_factors(),
                                         "bpe": "llama-bpe"}),
    "qwen2 F16": ("qwen2", {"pick": only(T.F16), "bias": True, "bpe": "qwen2"}),
    "qwen2 Q4_0 tied": ("qwen2", {"pick": only(T.Q4_0), "bias": True, "tied": True, "bpe": "qwen2"}),
    "qwen3 F32": ("qwen3", {"pick": only(T.F32), "bpe": "qwen2"}),
    "qwen3 Q8_0": ("qwen3", {"pick": only(T.Q8_0), "bpe": "qwen2"}),
    "phi3 F32": ("phi3", {"pick": only(T.F32)}),
    "phi3 Q4_0": ("phi3", {"pick": only(T.Q4_0)}),
    "gemma2 F16": ("gemma2", {"pick": only(T.F16), "tied": True, "keys": (("add_attn_logit_softcapping", 1.5), ("add_final_logit_softcapping", 5.0))}),
    "gemma2 Q8_0": ("gemma2", {"pick": only(T.Q8_0), "tied": True, "keys": (("add_attn_logit_softcapping", 1.5),
                                                                           ("add_final_logit_softcapping", 5.0))}),
    "gemma3 F32": ("gemma3", {"pick": only(T.F32), "tied": True}),
    "gemma3 Q4_0": ("gemma3", {"pick": only(T.Q4_0), "tied": True}),
    "gpt2 F32": ("gpt2", {"pick": only(T.F32), "bpe": "gpt-2"}),
    "gpt2 Q8_0 tied": ("gpt2", {"pick": lambda name: T.F32 if "position" in name else T.Q8_0, "tied": True, "bpe": "gpt-2"}),
}


def turns_of(arch, arguments):
    theta = 500000.0 if "factors" in arguments else 1000000.0 if arch == "gemma3" else 10000.0
    turns = theta**(-torch.arange(0, WIDTH // HEADS, 2, dtype=torch.float64) / (WIDTH // HEADS))
    if "factors" in arguments:
        return turns / torch.tensor(arguments["factors"]).double()
    keys = dict(arguments.get("keys", ()))
    if keys.get("add_rope_scaling_type") == gguf.RopeScalingType.YARN:
        size, original = WIDTH // HEADS, keys["add_rope_scaling_orig_ctx_len"]
        first, last = (size * math.log(original / (often * 2 * math.pi)) / (2 * math.log(theta)) for often in (32, 1))
        first, last = max(math.floor(first), 0), min(math.ceil(last), size - 1)
        slowed = ((torch.arange(size // 2, dtype=torch.float64) - first) / (last - first)).clamp(0, 1)
        return turns * (1 - slowed + slowed / 4)
    return turns / 4 if keys.get("add_rope_scaling_factor") else turns


PARTS = {"attention.qkv": ("attn_q", "attn_k", "attn_v"), "attention.projection": ("attn_output", ), "mlp.up": ("ffn_gate", "ffn_up"), "mlp.down": ("ffn_down", ),
         "attention.q": ("attn_q", ), "attention.k": ("attn_k", ), "attention.v": ("attn_v", )}


def unpaired(weight, heads):
    return weight.reshape(heads, -1, 2, weight.shape[-1]).transpose(0, 2, 1, 3).reshape(weight.shape)


def same_weights(mlx, place, imported, model):
    """Compares every integer with its scale. Returns how many layers have integers, or exits."""
    data = subprocess.run([mlx, "-C", place, "cat", f"{imported}:weights.safetensors"], check=True, capture_output=True).stdout
    start = 8 + int.from_bytes(data[:8], "little")
    types = {"F32": numpy.float32, "F16": numpy.float16, "BF16": numpy.uint16, "I8": numpy.int8, "U8": numpy.uint8}
    held = {name: numpy.frombuffer(data[start:][slice(*entry["data_offsets"])], types[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in json.loads(data[8:start]).items()}
    layers = [name.removesuffix(".groups.scales") for name in held if name.endswith(".groups.scales")]
    for layer in layers:
        integers, scales = held[f"{layer}.groups"], held[f"{layer}.groups.scales"]
        if integers.dtype == numpy.uint8:
            integers = numpy.stack((integers & 15, integers >> 4), -1).reshape(len(integers), -1).astype(numpy.int8) - 8
        ours = (integers.reshape(len(integers), -1, 32) * scales.T[..., None].astype(numpy.float32)).reshape(len(integers), -1)
        if not numpy.array_equal(ours, numpy.concatenate(parts_of(model, layer)[1])):
            sys.exit(f"{imported}: '{layer}' has other weights")
    in_blocks = [name.removesuffix(".weight.blocks") for name in held if name.endswith(".weight.blocks")]
    for layer in in_blocks:
        kinds, parts = parts_of(model, {"tokens": "head", "head": "logits"}.get(layer, layer))
        at = 0
        for kind, part in zip(kinds, parts):
            elements, size = gguf.GGML_QUANT_SIZES[kind]
            end = at + part.size // elements * size
            ours = gguf.quants.dequantize(held[f"{layer}.weight.blocks"][at:end].reshape(len(part), -1), kind)
            at = end
            if not numpy.array_equal(ours, part):
                sys.exit(f"{imported}: '{layer}' has other blocks")
    return len(layers) + len(in_blocks)


def parts_of(model, layer):
    """The types and numbers of a layer's parts, their rows in the order of mlx."""
    block, _, rest = layer.removeprefix("block").partition(".")
    if layer == "logits":
        names = ["output" if "output.weight" in model.numbers else "token_embd"]
    elif model.arch in ("gpt2", "phi3") and rest in ("attention.qkv", "mlp.up"):
        names = [f"blk.{block}.{'attn_qkv' if rest == 'attention.qkv' else 'ffn_up'}"]
    elif layer == "head":
        names = ["token_embd"]
    else:
        names = [f"blk.{block}.{name}" for name in PARTS[rest]]
    parts = [model.numbers[f"{name}.weight"][1].numpy() for name in names]
    if model.arch == "llama" and rest == "attention.qkv":
        parts = [unpaired(parts[0], HEADS), unpaired(parts[1], KEYS), parts[2]]
    return [model.numbers[f"{name}.weight"][0] for name in names], parts


def run(mlx, place, *arguments, text=None):
    done = subprocess.run([mlx, "-C", place, *arguments], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"mlx {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def same_tokens(mlx, place, name, llama):
    good = True
    for line in LINES:
        ours = run(mlx, place, "tokenizer", "encode", name, text=line).split()
        wanted = [str(token) for token in llama.tokenize(line.encode(), add_bos=False, special=True)]
        if ours != wanted and ours[1:] != wanted:
            print(f"  {line!r}: {ours} instead of {wanted}")
            good = False
    return good


def compare(mlx, place, name, path, model, vocabulary, count):
    tokens = torch.randint(3, vocabulary, (count, ), generator=torch.Generator().manual_seed(7)).tolist()
    imported = f"m{len(os.listdir(place))}"
    run(mlx, place, "import", "model", path, "--name", imported)
    out = os.path.join(place, imported + ".npy")
    run(mlx, place, "predict", imported, "--tokens", " ".join(map(str, tokens)), "--logits", out)
    ours, exact = numpy.load(out), model.logits(tokens)
    llama = llama_cpp.Llama(path, n_ctx=CONTEXT, logits_all=True, verbose=False, n_threads=2, flash_attn=False)
    llama.eval(tokens)
    theirs = numpy.array(llama.scores[:count])
    largest = float(abs(exact).max())
    from_torch, from_llama, llama_itself = (float(abs(a - b).max()) / largest for a, b in ((ours, exact), (ours, theirs), (theirs, exact)))
    half = float(numpy.median(abs(ours - exact))) / largest
    integers = same_weights(mlx, place, imported, model)
    plain = all(kind in (T.F32, T.F16) for kind, _ in model.numbers.values())
    good = (from_torch <= 0.03 and half <= 2e-3) if integers else from_torch <= 1e-5
    good = good and from_llama <= max(0.01 if plain else 0.1, 1.5 * llama_itself)
    tokenizer = same_tokens(mlx, place, imported, llama)
    print(f"{name:24} {integers:8} {half:10.2e} {from_torch:10.2e} {from_llama:10.2e} {llama_itself:12.2e} {largest:9.2f} {'same' if tokenizer else 'OTHER':>9}"
          f"{'' if good else '  DIFFERS'}", flush=True)
    return good and tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx")
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="a folder for the files that are made")
    options = parser.parse_args()
    torch.set_num_threads(2)
    good = True
    print(f"gguf, llama-cpp-python {llama_cpp.__version__}, {options.tokens} tokens; shares of the largest logit")
    print(f"{'model':24} {'integers':>8} {'half':>10} {'mlx-torch':>10} {'mlx-llama':>10} {'llama-torch':>12} {'largest':>9} {'tokens':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        place = os.path.join(scratch, "repository")
        os.mkdir(place)
        subprocess.run([options.mlx, "-C", place, "init"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name, (arch, arguments) in MODELS.items():
            if options.only not in name:
                continue
            path = os.path.join(os.path.abspath(options.keep or scratch), name.replace(" ", "-") + ".gguf")
            numbers, vocabulary = write(path, arch, **arguments)
            model = Model(arch, numbers, turns_of(arch, arguments), arguments.get("keys", ()))
            good = compare(os.path.abspath(options.mlx), place, name, path, model, vocabulary, options.tokens) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
