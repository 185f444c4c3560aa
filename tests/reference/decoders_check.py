"""Compares the logits of imported language models with those of the PyPI package `transformers`.

usage: decoders_check.py MLX [--tokens N] [--only NAME] [--model FOLDER]... [--keep FOLDER]

Small models with random weights are made of every architecture that `mlx import model` takes, and of every kind of
attention heads, rotary scaling, biases and types of weights; each is saved, imported and asked for the logits behind
every token of a random sequence in f32. They are compared with what `transformers` computes in double, its rotary
angles too: the largest difference may be 1e-4. The difference from `transformers` in f32 may be 1e-4 of the largest
logit; most of it is the rounding of its angles, which it computes in f32 even where all else is double. Then the beginning of
the text goes on step by step, with the most likely tokens, which must be those of `transformers`. The vectors
of the text (`--embed`), of the last token and the mean of all, may differ from the last hidden states by 1e-4 of the
largest number. `--model` adds folders that are there already. Exits with 1 where something differs. It needs: pip install torch transformers. No
test of ctest runs it: the packages are no dependencies.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

LIMIT = 1e-4
START, STEPS = 40, 24  # of a text that goes on step by step
SIZES = {"vocab_size": 521, "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 3, "num_attention_heads": 4,
         "max_position_embeddings": 512}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}


def llama(**keys):
    return transformers.LlamaForCausalLM, transformers.LlamaConfig(**{**SIZES, **keys})


def mistral(**keys):
    return transformers.MistralForCausalLM, transformers.MistralConfig(**{**SIZES, **keys})


def qwen2(**keys):
    return transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**{**SIZES, **keys})


def qwen3(**keys):
    return transformers.Qwen3ForCausalLM, transformers.Qwen3Config(**{**SIZES, "head_dim": 32, **keys})


def phi3(**keys):
    return transformers.Phi3ForCausalLM, transformers.Phi3Config(**{**SIZES, "pad_token_id": 0, **keys})


def gemma2(**keys):
    sizes = {**SIZES, "head_dim": 24, "num_key_value_heads": 2, "query_pre_attn_scalar": 20}
    return transformers.Gemma2ForCausalLM, transformers.Gemma2Config(**{**sizes, **keys})


def gemma3(**keys):
    sizes = {**SIZES, "num_hidden_layers": 7, "head_dim": 24, "num_key_value_heads": 2, "query_pre_attn_scalar": 20}
    return transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig(**{**sizes, **keys})


def gpt2(**keys):
    sizes = {"vocab_size": 521, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 512}
    return transformers.GPT2LMHeadModel, transformers.GPT2Config(**{**sizes, **keys})


def scaled(theta, scaling):
    """The keys of rotary scaling, which releases of transformers spell in two ways."""
    if hasattr(transformers.LlamaConfig(), "rope_parameters"):
        return {"rope_parameters": {"rope_theta": theta, **scaling}}
    return {"rope_theta": theta, "rope_scaling": scaling}


MODELS = {
    "llama 2": (llama, {"num_key_value_heads": 4}, torch.float32, "5GB"),
    "llama 2, linear rope": (llama, {"num_key_value_heads": 4, **scaled(10000.0, {"rope_type": "linear", "factor": 4.0})},
                             torch.float32, "5GB"),
    "llama 3": (llama, {"num_key_value_heads": 2, "rms_norm_eps": 1e-5, **scaled(500000.0, LLAMA3)}, torch.float32, "5GB"),
    "llama 3, tied": (llama, {"num_key_value_heads": 1, "tie_word_embeddings": True, **scaled(500000.0, LLAMA3)},
                      torch.float32, "5GB"),
    "llama, bf16": (llama, {"num_key_value_heads": 2}, torch.bfloat16, "5GB"),
    "llama, f16, shards": (llama, {"num_key_value_heads": 2}, torch.float16, "100KB"),
    "llama, head_dim": (llama, {"num_key_value_heads": 2, "head_dim": 32}, torch.float32, "5GB"),
    "llama, biases": (llama, {"num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True}, torch.float32, "5GB"),
    "mistral": (mistral, {"num_key_value_heads": 2, "sliding_window": None}, torch.float32, "5GB"),
    "mistral, wide window": (mistral, {"num_key_value_heads": 2, "sliding_window": 512, "head_dim": 24}, torch.float32, "5GB"),
    "qwen2": (qwen2, {"num_key_value_heads": 2, **scaled(1000000.0, {"rope_type": "default"})}, torch.float32, "5GB"),
    "qwen2, tied, bf16, shards": (qwen2, {"num_key_value_heads": 2, "tie_word_embeddings": True}, torch.bfloat16, "100KB"),
    "mistral, window": (mistral, {"num_key_value_heads": 2, "sliding_window": 37}, torch.float32, "5GB"),
    "qwen2, windows": (qwen2, {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 50, "max_window_layers": 1},
                       torch.float32, "5GB"),
    "llama, yarn": (llama, {"num_key_value_heads": 2, **scaled(10000.0, YARN)}, torch.float32, "5GB"),
    "llama, dynamic rope": (llama, {"num_key_value_heads": 2, **scaled(10000.0, {"rope_type": "dynamic", "factor": 4.0})}, torch.float32,
                            "5GB"),
    "qwen3": (qwen3, {"num_key_value_heads": 2}, torch.float32, "5GB"),
    "qwen3, yarn": (qwen3, {"num_key_value_heads": 2, **scaled(1000000.0, {**YARN, "attention_factor": 0.9})}, torch.float32, "5GB"),
    "qwen3, tied, bf16, shards": (qwen3, {"num_key_value_heads": 1, "tie_word_embeddings": True, "attention_bias": True}, torch.bfloat16,
                                  "100KB"),
    "phi3": (phi3, {"num_key_value_heads": 4}, torch.float32, "5GB"),
    "phi3, window, f16": (phi3, {"num_key_value_heads": 2, "sliding_window": 29}, torch.float16, "5GB"),
    "gemma2": (gemma2, {"sliding_window": 33, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}, torch.float32, "5GB"),
    "gemma2, wide window, bf16": (gemma2, {"sliding_window": 4096}, torch.bfloat16, "100KB"),
    "gemma3": (gemma3, {"sliding_window": 21}, torch.float32, "5GB"),
    "gemma3, linear rope, bf16": (gemma3, {"sliding_window": 64, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}, torch.bfloat16, "5GB"),
    "gpt2": (gpt2, {}, torch.float32, "5GB"),
    "gpt2, n_inner": (gpt2, {"n_inner": 100, "layer_norm_epsilon": 1e-3}, torch.float32, "5GB"),
    "gpt2, own head, bf16, shards": (gpt2, {"tie_word_embeddings": False}, torch.bfloat16, "100KB"),
}


def make(kind, keys, dtype, shard, folder):
    """Weights far from their usual start, so that every tensor matters: norms and biases too."""
    make_class, config = kind(**keys)
    model = make_class(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                one = 0.0 if "Gemma" in type(model).__name__ else 1.0
                weight.copy_(torch.randn_like(weight) * 0.2 + (one if "norm" in name or "ln_" in name else 0.0))
            else:
                weight.normal_(0, weight.shape[-1] ** -0.5 * 1.5)
    if config.tie_word_embeddings:
        model.tie_weights()
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)


def frequencies(config, layer_type=None):
    """Radians a position by which each pair of a head turns, in double, and what queries and keys are multiplied by."""
    rope = getattr(config, "rope_parameters", None) or {"rope_theta": config.rope_theta, **(config.rope_scaling or {})}
    rope = rope.get(layer_type, rope)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    turns = float(rope["rope_theta"]) ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    kind = rope.get("rope_type", "default")
    if kind in ("default", "dynamic"):
        return turns, 1.0
    if kind == "linear":
        return turns / rope["factor"], 1.0
    original = rope["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        kept = ((original * turns / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
        return turns * (kept + (1 - kept) / rope["factor"]), 1.0
    assert kind == "yarn", kind
    first, last = (size * math.log(original / (often * 2 * math.pi)) / (2 * math.log(rope["rope_theta"])) for often in (32, 1))
    first, last = max(math.floor(first), 0), min(math.ceil(last), size - 1)
    slowed = ((torch.arange(size // 2, dtype=torch.float64) - first) / (last - first)).clamp(0, 1)
    scale = rope.get("attention_factor") or 0.1 * math.log(rope["factor"]) + 1
    return turns * (1 - slowed + slowed / rope["factor"]), scale


def reference(folder, tokens, dtype, steps=0):
    """Logits of `tokens`, and as many most likely tokens behind the first few."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    rotary = getattr(model.base_model, "rotary_emb", None)
    if rotary is not None and dtype == torch.float64:
        def in_double(x, position_ids, layer_type=None, **_keys):
            speed, scale = frequencies(model.config, layer_type)
            angles = position_ids[..., None].double() * speed
            angles = torch.cat((angles, angles), dim=-1)
            return angles.cos() * scale, angles.sin() * scale

        rotary.forward = in_double
    with torch.no_grad():
        made = model(torch.tensor([tokens]), output_hidden_states=True)
        logits, states = made.logits[0].double().numpy(), made.hidden_states[-1][0].double().numpy()
        text = tokens[:START]
        for _ in range(steps):
            text = text + [int(model(torch.tensor([text])).logits[0, -1].argmax())]
    return logits, text[START:], states


def compare(mlx, name, folder, place, count):
    vocabulary = json.load(open(os.path.join(folder, "config.json")))["vocab_size"]
    tokens = torch.randint(0, vocabulary, (count,), generator=torch.Generator().manual_seed(7)).tolist()
    imported = f"m{len(os.listdir(place))}"
    subprocess.run([mlx, "-C", place, "import", "model", folder, "--name", imported], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)
    out = os.path.join(place, imported + ".npy")
    subprocess.run([mlx, "-C", place, "predict", imported, "--tokens", " ".join(map(str, tokens)), "--logits", out], check=True,
                   stdout=subprocess.DEVNULL)
    ours, (exact, text, states), (theirs, _, _) = numpy.load(out), reference(folder, tokens, torch.float64, STEPS), reference(folder, tokens, torch.float32)
    pooled = 0.0
    for pooling, wanted in (("last", states[-1]), ("mean", states.mean(0))):
        subprocess.run([mlx, "-C", place, "predict", imported, "--tokens", " ".join(map(str, tokens)), "--embed", out, "--pooling", pooling],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pooled = max(pooled, float(abs(numpy.load(out)[0] - wanted).max() / abs(wanted).max()))
    answer = subprocess.run([mlx, "-C", place, "predict", imported, "--tokens", " ".join(map(str, tokens[:START])), "--max-tokens", str(STEPS),
                             "--temperature", "0", "--json"], check=True, capture_output=True).stdout
    went_on = json.loads(answer)["texts"][0]["tokens"]
    assert ours.shape == exact.shape and ours.dtype == numpy.float32, (ours.shape, exact.shape)
    from_exact, from_f32, f32_itself = (float(abs(a - b).max()) for a, b in ((ours, exact), (ours, theirs), (theirs, exact)))
    largest, same = float(abs(exact).max()), float((ours.argmax(-1) == exact.argmax(-1)).mean())
    good = pooled <= LIMIT and from_exact <= LIMIT and from_f32 <= LIMIT * max(1.0, largest) and went_on[:STEPS] == text[:len(went_on)]
    print(f"{name:30} {from_exact:10.2e} {from_f32:10.2e} {f32_itself:12.2e} {largest:9.2f} {100 * same:8.1f} % {pooled:10.2e}"
          f"{'' if good else '  DIFFERS'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx")
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--only", default="")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--keep", help="a folder for the models that are made")
    options = parser.parse_args()
    mlx = os.path.abspath(options.mlx)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    good = True
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {options.tokens} tokens")
    print(f"{'model':30} {'mlx-double':>10} {'mlx-f32':>10} {'f32-double':>12} {'largest':>9} {'same top':>10} {'vectors':>10}")
    with tempfile.TemporaryDirectory() as scratch:
        place = os.path.join(scratch, "repository")
        os.mkdir(place)
        subprocess.run([mlx, "-C", place, "init"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name, (kind, keys, dtype, shard) in MODELS.items():
            if options.only not in name:
                continue
            folder = os.path.join(os.path.abspath(options.keep or scratch), name.replace(" ", "-").replace(",", ""))
            make(kind, keys, dtype, shard, folder)
            good = compare(mlx, name, folder, place, options.tokens) and good
        for folder in options.model:
            good = compare(mlx, os.path.basename(folder.rstrip("/")), os.path.abspath(folder), place, options.tokens) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
