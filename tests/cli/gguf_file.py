"""Writes a language model of decoder_folder.py as a GGUF file: gguf_file.py FOLDER FILE TYPE [WHAT=VALUE...].

Matrices have the type TYPE where their rows are whole blocks, else F32; of other types than F32, F16 and BF16 the folder FILE.exact gets the same
model with the numbers that the blocks stand for. KEY=JSON sets a key of the metadata, KEY= leaves one out. @NAME=PART:VALUE
spoils a tensor: its dims, type, offset (+N: so much later) or one byte
(AT:VALUE). @drop=NAME leaves one out, @again=NAME repeats one, @cut=BYTES shortens the file.
"""
import json
import os
import shutil
import struct
import sys

ALIGNMENT = 32
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "BF16": 30}
NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "wte": "token_embd", "wpe": "position_embd",
         "ln_f": "output_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "ln_1": "attn_norm", "attn.c_attn": "attn_qkv",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
         "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
GEMMA = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
TOKENS = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "\u2581a", "ab", "\u2581ab"]


def renamed(name, names):
    layer, _, kind = name.rpartition(".")
    parts = layer.split(".")
    numbers = [part for part in parts if part.isdigit()]
    if not numbers:
        return f"{names[layer]}.{kind}"
    return f"blk.{numbers[0]}.{names['.'.join(parts[parts.index(numbers[0]) + 1:])]}.{kind}"


def read_folder(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        data = f.read()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        begin, end = entry["data_offsets"]
        yield name, entry["dtype"], entry["shape"], data[start + begin:start + end]


def turned(dtype, shape, data):
    """[in, out] to [out, in], as GPT-2's layers are stored the other way around."""
    size = {"F32": 4, "F16": 2, "BF16": 2}[dtype]
    rows, columns = shape
    return [columns, rows], b"".join(data[(r * columns + c) * size:][:size] for c in range(columns) for r in range(rows))


def paired(heads, rows, data):
    """The rows of each head, one of its first half and one of its second half by turns."""
    width, half = len(data) // rows, rows // heads // 2
    order = [head * 2 * half + part * half + i for head in range(heads) for i in range(half) for part in range(2)]
    return b"".join(data[row * width:][:width] for row in order)


def half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def q8_0(block):
    scale = half(max(map(abs, block)) / 127)
    numbers = [max(-127, min(127, round(x / scale))) if scale else 0 for x in block]
    return struct.pack("<e32b", scale, *numbers), [x * scale for x in numbers]


def q4_0(block):
    scale = half(max(block, key=abs) / -8)
    numbers = [max(-8, min(7, round(x / scale))) if scale else 0 for x in block]
    fours = bytes(numbers[i] + 8 | numbers[i + 16] + 8 << 4 for i in range(16))
    return struct.pack("<e", scale) + fours, [x * scale for x in numbers]


def nibbles(numbers):
    return bytes(numbers[i] & 15 | (numbers[i + 16] & 15) << 4 for i in range(16))


def fifths(numbers):
    return struct.pack("<I", sum(number >> 4 << i for i, number in enumerate(numbers)))


def q5_0(block):
    scale = half(max(block, key=abs) / -16)
    numbers = [max(0, min(31, round(x / scale) + 16)) if scale else 16 for x in block]
    return struct.pack("<e", scale) + fifths(numbers) + nibbles(numbers), [(x - 16) * scale for x in numbers]


def from_least(block, most):
    """The scale, the least number, and integers from 0 to `most` above it."""
    scale, least = half((max(block) - min(block)) / most), half(min(block))
    numbers = [max(0, min(most, round((x - least) / scale))) if scale else 0 for x in block]
    return struct.pack("<2e", scale, least), numbers, [x * scale + least for x in numbers]


def q4_1(block):
    head, numbers, exact = from_least(block, 15)
    return head + nibbles(numbers), exact


def q5_1(block):
    head, numbers, exact = from_least(block, 31)
    return head + fifths(numbers) + nibbles(numbers), exact


PACK = {"Q4_0": q4_0, "Q4_1": q4_1, "Q5_0": q5_0, "Q5_1": q5_1, "Q8_0": q8_0}


def blocks(kind, data):
    numbers = struct.unpack(f"<{len(data) // 4}f", data)
    made = [PACK[kind](numbers[i:i + 32]) for i in range(0, len(numbers), 32)]
    return b"".join(packed for packed, _ in made), b"".join(struct.pack("<32f", *exact) for _, exact in made)


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value_of(value):
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    kind = value_of(value[0])[:4]
    return struct.pack("<I", 9) + kind + struct.pack("<Q", len(value)) + b"".join(value_of(one)[4:] for one in value)


def metadata_of(config):
    arch = config["model_type"].removesuffix("_text")
    found = {"context_length": ("max_position_embeddings", "n_positions"), "embedding_length": ("hidden_size", "n_embd"),
             "block_count": ("num_hidden_layers", "n_layer"), "attention.head_count": ("num_attention_heads", "n_head"),
             "attention.head_count_kv": ("num_key_value_heads",), "attention.key_length": ("head_dim",), "attention.value_length": ("head_dim",),
             "rope.freq_base": ("rope_theta",), "attention.layer_norm_rms_epsilon": ("rms_norm_eps",),
             "attention.layer_norm_epsilon": ("layer_norm_epsilon",), "feed_forward_length": ("intermediate_size",), "attention.sliding_window": ("sliding_window",),
             "attn_logit_softcapping": ("attn_logit_softcapping",), "final_logit_softcapping": ("final_logit_softcapping",)}
    keys = {"general.architecture": arch}
    keys |= {f"{arch}.{key}": config[name] for key, places in found.items() for name in places if config.get(name) is not None}
    if arch == "gpt2":
        keys["gpt2.feed_forward_length"] = 4 * config["n_embd"]
    return keys | {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": TOKENS,
                   "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -5.0, -6.0, -7.0, -2.0, -3.0, -1.0], "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1, 1, 1, 1],
                   "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.unknown_token_id": 0, "tokenizer.chat_template": "{{ messages }}"}


def main():
    folder, path, kind, *changes = sys.argv[1:]
    config = json.load(open(os.path.join(folder, "config.json")))
    keys = metadata_of(config)
    tensors, exact, gemma = [], {}, config["model_type"].startswith("gemma")
    for name, dtype, shape, data in read_folder(folder):
        as_type = dtype
        if config["architectures"][0] == "GPT2LMHeadModel" and len(shape) == 2 and name.startswith("h."):
            shape, data = turned(dtype, shape, data)
        if kind in PACK and len(shape) == 2 and shape[-1] % 32 == 0:
            data, exact[name] = blocks(kind, data)
            as_type = kind
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(name.split(".")[-2])
        if heads and keys["general.architecture"] == "llama":
            data = paired(config[heads], shape[0], data)
        if gemma and len(shape) == 1:  # such norms multiply by 1 more
            numbers = [1 + x for x in struct.unpack(f"<{shape[0]}f", data)]
            data = struct.pack(f"<{shape[0]}f", *numbers)
        tensors.append([renamed(name, NAMES | GEMMA if gemma else NAMES), [*reversed(shape)], TYPES[as_type], data])
    if exact:
        shutil.copytree(folder, path + ".exact", dirs_exist_ok=True)
        weights = os.path.join(path + ".exact", "model.safetensors")
        whole = bytearray(open(weights, "rb").read())
        start = 8 + int.from_bytes(whole[:8], "little")
        for name, entry in json.loads(whole[8:start]).items():
            if name in exact:
                whole[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]] = exact[name]
        open(weights, "wb").write(whole)

    spoiled, cut = {}, None
    for change in changes:
        what, value = change.split("=", 1)
        if what == "@drop":
            tensors = [tensor for tensor in tensors if tensor[0] != value]
        elif what == "@again":
            tensors += [tensor for tensor in tensors if tensor[0] == value]
        elif what == "@cut":
            cut = int(value)
        elif what[0] == "@":
            spoiled[what[1:]] = value.split(":", 1)
        else:
            keys.pop(what, None)
            if value:
                keys[what] = json.loads(value)
    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)), b""
    for key, value in keys.items():
        head += text(key) + value_of(value)
    for name, shape, number, packed in tensors:
        if spoiled.get(name, ("",))[0] == "byte":
            at, byte = map(int, spoiled[name][1].split(":"))
            packed = packed[:at] + bytes([byte]) + packed[at + 1:]
        offset = len(data)
        data += packed + b"\0" * (-len(packed) % ALIGNMENT)
        part, value = spoiled.get(name, ("", ""))
        if part == "dims":
            shape = json.loads(value)
        number = int(value) if part == "type" else number
        if part == "offset":
            offset = int(value) + (offset if value[0] == "+" else 0)
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
    with open(path, "wb") as f:
        f.write((head + b"\0" * (-len(head) % ALIGNMENT) + data)[:cut])


main()
