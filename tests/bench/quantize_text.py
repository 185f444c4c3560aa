#!/usr/bin/env python3
"""Trains a small llama on the King James Bible (Debian's bible-kjv, bible-kjv-text) and prints what each way to quantize
its weights loses on the last twentieth, which it has not seen: perplexity, KL divergence, top-1 agreement, size.

  tests/bench/quantize_text.py build/release/mlx [--epochs N] [--examples N] [--max-kl NATS]

Everything is done by mlx: `mlx train`, then `mlx quantize --method … --calibrate` on windows of the training text. The last
rows are the narrowest models that --max-kl lets through.
"""
import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

MODEL = {"family": "llama", "layers": 4, "width": 256, "heads": 8, "kv_heads": 4, "hidden": 768, "context": 256}
CONFIG = """[data]
dataset = "data/kjv"
tokenizer = "bpe"
vocab = 2048
[model]
name = "lm"
{model}[train]
epochs = {epochs}
batch = 8
optimizer = "adamw"
learning_rate = 2e-3
weight_decay = 0.1
beta2 = 0.95
clip = 1.0
schedule = "cosine"
final = 0.1
warmup = 0.05
precision = "auto"
"""


def prepare(folder, text):
    cut = len(text) - len(text) // 20
    os.makedirs(os.path.join(folder, "data/kjv"))
    for name, part in (("train", text[:cut]), ("test", text[cut:])):
        with open(os.path.join(folder, f"data/kjv/{name}.txt"), "wb") as out:
            out.write(part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=128)
    parser.add_argument("--max-kl", default="0.002")
    args = parser.parse_args()
    if not shutil.which("bible"):
        sys.exit("quantize_text.py: needs Debian's packages bible-kjv and bible-kjv-text")
    text = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], stdout=subprocess.PIPE, check=False).stdout
    mlx = os.path.realpath(args.mlx)
    cpu = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    print(f"quantization of a language model  {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}  {' '.join(sys.argv)}")
    print(f"machine: {cpu}, {os.cpu_count()} threads, Python {platform.python_version()}, load {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory(prefix="mlx-bench-quantize.") as folder:
        def run(*words):
            done = subprocess.run([mlx, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                sys.exit(f"mlx {' '.join(words)}\n{done.stdout}{done.stderr}")
            return done.stdout

        def row(name, words):
            started = time.perf_counter()
            made = json.loads(run("quantize", "lm@v1", "--calibrate", "data/kjv", "--examples", str(args.examples), *words,
                                  "--windows", "100000", "--json"))
            seconds = time.perf_counter() - started
            q = made["quantization"]
            errors = [layer["error"] for layer in q["layers"]]
            types = [layer["type"] for layer in q["layers"]]
            counts = ", ".join(f"{types.count(t)} {t}" for t in sorted(set(types)))
            print(f"  {name:<22}{q['perplexity']:>9.4f}  {100 * q['perplexity_rise']:>+8.3f} %  {q['kl_divergence']:>9.2e}  "
                  f"{100 * q['top1_agreement']:>6.2f} %  {sum(errors) / len(errors):>7.4f}  {made['bytes'] / 2**20:>6.2f} MiB  "
                  f"{seconds:>5.0f} s  {counts}", flush=True)
            return made

        prepare(folder, text)
        with open(os.path.join(folder, "lm.toml"), "w") as out:
            keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in MODEL.items())
            out.write(CONFIG.format(model=keys, epochs=args.epochs))
        run("init")
        run("add", "data/kjv")
        run("commit", "-m", "King James Bible")
        started = time.perf_counter()
        run("train", "-c", "lm.toml")
        seconds = time.perf_counter() - started
        measured = json.loads(run("eval", "lm@v1", "--data", "data/kjv", "--split", "test", "--json"))["metrics"]
        size = json.loads(run("show", "lm@v1", "--json"))["bytes"]
        print(f"King James Bible, {len(text):,} bytes, the last twentieth held out; {MODEL}; {args.epochs} epochs in "
              f"{seconds:.0f} s; calibrated on {args.examples} windows")
        print(f"  {'':<22}perplexity      rise    KL nats    top-1    error        size   time  layers")
        print(f"  {'f32':<22}{measured['perplexity']:>9.4f}{'':>44}{size / 2**20:>10.2f} MiB         "
              f"{measured['bits_per_byte']:.4f} bits a byte", flush=True)
        for to in ("int8", "int4"):
            for group in (32, 128):
                for method in ("rtn", "gptq", "awq"):
                    row(f"{to} {method} of {group}", ["--to", to, "--group", str(group), "--method", method])
        for to in ("q6_k", "q5_k", "q4_k", "q3_k", "q2_k"):
            for method in ("rtn", "gptq", "awq"):
                row(f"{to} {method}", ["--to", to, "--method", method])
        row(f"int4 gptq of 128, {args.max_kl}", ["--to", "int4", "--group", "128", "--method", "gptq", "--max-kl", args.max_kl])
        row(f"q3_k gptq, {args.max_kl}", ["--to", "q3_k", "--method", "gptq", "--max-kl", args.max_kl])


if __name__ == "__main__":
    main()
