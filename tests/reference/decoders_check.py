"""Compares the logits of imported language models with those of the PyPI package `transformers`.

usage: decoders_check.py MLX [--tokens N] [--only NAME] [--model FOLDER]... [--keep FOLDER]

Small models with random weights are made of every architecture that `mlx import model` takes, and of every kind of
attention heads, rotary scaling, biases and types of weights; each is saved, imported and asked for the logits behind
every token of a random sequence in f32. They are compared with what `transformers` computes in double, its rotary
angles too: the largest difference may be 1e-4. The difference from `transformers` in f32 may be 1e-4 of the largest
logit; most of it is the rounding of its angles, which it computes in f32 even where all else is double. `--model` adds
folders that are there already. Exits with 1 where something differs. It needs: pip install torch transformers. No
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
SIZES = {"vocab_size": 521, "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 3, "num_attention_heads": 4,
         "max_position_embeddings": 512}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}


def llama(**keys):
    return transformers.LlamaForCausalLM, transformers.LlamaConfig(**{**SIZES, **keys})


def mistral(**keys):
    return transformers.MistralForCausalLM, transformers.MistralConfig(**{**SIZES, **keys})


def qwen2(**keys):
    return transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**{**SIZES, **keys})


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
                weight.copy_(torch.randn_like(weight) * 0.2 + (1.0 if "norm" in name or "ln_" in name else 0.0))
            else:
                weight.normal_(0, weight.shape[-1] ** -0.5 * 1.5)
    if config.tie_word_embeddings:
        model.tie_weights()
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)


def frequencies(config):
    """Radians a position by which each pair of a head turns, in double."""
    rope = getattr(config, "rope_parameters", None) or {"rope_theta": config.rope_theta, **(config.rope_scaling or {})}
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    turns = float(rope["rope_theta"]) ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    kind = rope.get("rope_type", "default")
    if kind == "default":
        return turns
    if kind == "linear":
        return turns / rope["factor"]
    assert kind == "llama3", kind
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = ((rope["original_max_position_embeddings"] * turns / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
    return turns * (kept + (1 - kept) / rope["factor"])


def reference(folder, tokens, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    rotary = getattr(model.base_model, "rotary_emb", None)
    if rotary is not None and dtype == torch.float64:
        speed = frequencies(model.config)

        def in_double(x, position_ids, *_args, **_keys):
            angles = position_ids[..., None].double() * speed
            angles = torch.cat((angles, angles), dim=-1)
            return angles.cos(), angles.sin()

        rotary.forward = in_double
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].double().numpy()


def compare(mlx, name, folder, place, count):
    vocabulary = json.load(open(os.path.join(folder, "config.json")))["vocab_size"]
    tokens = torch.randint(0, vocabulary, (count,), generator=torch.Generator().manual_seed(7)).tolist()
    imported = f"m{len(os.listdir(place))}"
    subprocess.run([mlx, "-C", place, "import", "model", folder, "--name", imported], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)
    out = os.path.join(place, imported + ".npy")
    subprocess.run([mlx, "-C", place, "predict", imported, "--tokens", " ".join(map(str, tokens)), "--logits", out], check=True,
                   stdout=subprocess.DEVNULL)
    ours, exact, theirs = numpy.load(out), reference(folder, tokens, torch.float64), reference(folder, tokens, torch.float32)
    assert ours.shape == exact.shape and ours.dtype == numpy.float32, (ours.shape, exact.shape)
    from_exact, from_f32, f32_itself = (float(abs(a - b).max()) for a, b in ((ours, exact), (ours, theirs), (theirs, exact)))
    largest, same = float(abs(exact).max()), float((ours.argmax(-1) == exact.argmax(-1)).mean())
    good = from_exact <= LIMIT and from_f32 <= LIMIT * max(1.0, largest)
    print(f"{name:30} {from_exact:10.2e} {from_f32:10.2e} {f32_itself:12.2e} {largest:9.2f} {100 * same:8.1f} %"
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
    print(f"{'model':30} {'mlx-double':>10} {'mlx-f32':>10} {'f32-double':>12} {'largest':>9} {'same top':>10}")
    with tempfile.TemporaryDirectory() as scratch:
        place = os.path.join(scratch, "repository")
        os.mkdir(place)
        subprocess.run([mlx, "-C", place, "init"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name, (kind, keys, dtype, shard) in MODELS.items():
            if options.only not in name:
                continue
            folder = os.path.join(options.keep or scratch, name.replace(" ", "-").replace(",", ""))
            make(kind, keys, dtype, shard, folder)
            good = compare(mlx, name, folder, place, options.tokens) and good
        for folder in options.model:
            good = compare(mlx, os.path.basename(folder.rstrip("/")), os.path.abspath(folder), place, options.tokens) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
