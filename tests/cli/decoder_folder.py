"""Writes a small language model as `transformers` would: decoder_folder.py ARCHITECTURE FOLDER [DTYPE [SHARDS [KEY=JSON...]]].

Its weights are sines, so that every program computes the same. KEY=JSON sets a key of config.json, KEY= leaves one out. WIDTH,
HEAD and HIDDEN in the environment are other sizes.
"""
import json
import math
import os
import struct
import sys
import zlib

WIDTH, HEAD, HIDDEN = (int(os.environ.get(name, size)) for name, size in (("WIDTH", 8), ("HEAD", 4), ("HIDDEN", 12)))
VOCABULARY, HEADS, KEYS, LAYERS = 11, 4, 2, 2
ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
ROTARY = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_key_value_heads": KEYS, "head_dim": HEAD,
          "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
          "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False}
CONFIGS = {
    "LlamaForCausalLM": {**ROTARY, "model_type": "llama", "rope_scaling": ROPE},
    "MistralForCausalLM": {**ROTARY, "model_type": "mistral", "sliding_window": None},
    "Qwen2ForCausalLM": {**{key: value for key, value in ROTARY.items() if key != "head_dim"}, "model_type": "qwen2",
                         "hidden_size": HEADS * HEAD, "tie_word_embeddings": True},
    "Qwen3ForCausalLM": {**ROTARY, "model_type": "qwen3", "attention_bias": False, "use_sliding_window": False, "sliding_window": None},
    "Phi3ForCausalLM": {**ROTARY, "model_type": "phi3", "sliding_window": 3, "pad_token_id": 0},
    "Gemma2ForCausalLM": {**ROTARY, "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 9,
                          "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0, "sliding_window": 3, "tie_word_embeddings": True},
    "Gemma3ForCausalLM": {**ROTARY, "model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 9,
                          "sliding_window": 3, "tie_word_embeddings": True, "layer_types": ["sliding_attention", "full_attention"],
                          "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                              "full_attention": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}},
    "GPT2LMHeadModel": {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_embd": WIDTH, "n_head": HEADS, "n_layer": LAYERS,
                        "n_positions": 64, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5},
}


def rotary_tensors(config, bias):
    width, queries, keys, kind = config["hidden_size"], HEADS * HEAD, KEYS * HEAD, config["model_type"]
    yield "model.embed_tokens.weight", [VOCABULARY, width]
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        for name, out in (("qkv", queries + 2 * keys),) if kind == "phi3" else (("q", queries), ("k", keys), ("v", keys)):
            yield f"{layer}self_attn.{name}_proj.weight", [out, width]
            if bias:
                yield f"{layer}self_attn.{name}_proj.bias", [out]
        yield f"{layer}self_attn.o_proj.weight", [width, queries]
        for name in ("q_norm", "k_norm") if kind in ("qwen3", "gemma3_text") else ():
            yield f"{layer}self_attn.{name}.weight", [HEAD]
        for name, out in (("gate_up", 2 * HIDDEN),) if kind == "phi3" else (("gate", HIDDEN), ("up", HIDDEN)):
            yield f"{layer}mlp.{name}_proj.weight", [out, width]
        yield f"{layer}mlp.down_proj.weight", [width, HIDDEN]
        yield f"{layer}input_layernorm.weight", [width]
        yield f"{layer}post_attention_layernorm.weight", [width]
        for name in ("pre", "post") if kind.startswith("gemma") else ():
            yield f"{layer}{name}_feedforward_layernorm.weight", [width]
    yield "model.norm.weight", [width]
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", [VOCABULARY, width]


def gpt2_tensors():
    yield "wte.weight", [VOCABULARY, WIDTH]
    yield "wpe.weight", [64, WIDTH]
    for i in range(LAYERS):
        for name, shape in (("ln_1", [WIDTH]), ("attn.c_attn", [WIDTH, 3 * WIDTH]), ("attn.c_proj", [WIDTH, WIDTH]), ("ln_2", [WIDTH]),
                            ("mlp.c_fc", [WIDTH, 4 * WIDTH]), ("mlp.c_proj", [4 * WIDTH, WIDTH])):
            yield f"h.{i}.{name}.weight", shape
            yield f"h.{i}.{name}.bias", shape[-1:]
    yield "ln_f.weight", [WIDTH]
    yield "ln_f.bias", [WIDTH]


def values(name, shape):
    count, start = math.prod(shape), zlib.crc32(name.encode()) % 1000
    norm = len(shape) == 1 and name.endswith("weight")
    return [(1 if norm else 0) + (0.3 if len(shape) == 1 else 0.6) * math.sin(start + 0.7 * i * (1 + i % 3)) for i in range(count)]


def packed(numbers, dtype):
    if dtype == "F16":
        return struct.pack(f"<{len(numbers)}e", *numbers)
    floats = struct.pack(f"<{len(numbers)}f", *numbers)
    return floats if dtype == "F32" else b"".join(floats[i + 2:i + 4] for i in range(0, len(floats), 4))


def write_safetensors(path, tensors, dtype):
    header, data = {}, b""
    for name, shape in tensors:
        part = packed(values(name, shape), dtype)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def write_tokenizer(folder):
    """Nine words and a beginning, one token fewer than the table has rows."""
    words = ["<s>", "<unk>", "the", "mill", "stone", "river", "by", "turns", "old", "."]
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}
    special = [{"id": i, "content": words[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
               for i in range(2)]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
                 "pre_tokenizer": {"type": "Whitespace"}, "post_processor": template, "decoder": None,
                 "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "<unk>"}}
    json.dump(tokenizer, open(os.path.join(folder, "tokenizer.json"), "w"))
    json.dump({"chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}"}, open(os.path.join(folder, "tokenizer_config.json"), "w"))
    json.dump({"temperature": 0.6}, open(os.path.join(folder, "generation_config.json"), "w"))


def main():
    architecture, folder, dtype, shards, *keys = [*sys.argv[1:], *["F32", "1"][len(sys.argv) - 3:]]
    config = {"architectures": [architecture], **CONFIGS[architecture]}
    tensors = list(gpt2_tensors() if architecture.startswith("GPT2") else rotary_tensors(config, architecture.startswith("Qwen2")))
    for key in keys:
        name, value = key.split("=", 1)
        config.pop(name, None)
        if value:
            config[name] = json.loads(value)
    os.makedirs(folder, exist_ok=True)
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))
    write_tokenizer(folder)
    count = int(shards)
    if count == 1:
        return write_safetensors(os.path.join(folder, "model.safetensors"), tensors, dtype)
    index = {}
    for i in range(count):
        name = f"model-{i + 1:05}-of-{count:05}.safetensors"
        write_safetensors(os.path.join(folder, name), tensors[i::count], dtype)
        index.update({tensor: name for tensor, _ in tensors[i::count]})
    json.dump({"metadata": {"total_size": 0}, "weight_map": index}, open(os.path.join(folder, "model.safetensors.index.json"), "w"))


if __name__ == "__main__":
    main()
