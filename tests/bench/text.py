#!/usr/bin/env python3
"""Trains a character-level GPT on the King James Bible (Debian's bible-kjv, bible-kjv-text) and prints bits per byte of its
last twentieth, which it has not seen, beside `xz -9e` and beside PyTorch with the same model for the same time.

  tests/bench/text.py build/release/mlx [--epochs N]

Needs torch and numpy (a virtual environment) and a C++ compiler for torch.compile. PyTorch runs in bf16 autocast, eager or
compiled, whichever is faster, with the same optimizer, batch and schedule, the latter over its time: as many seconds as
`mlx train` took as a whole, without what choosing and compiling takes.
xz has its figure for the unseen part by what it adds to the part before: xz(all) - xz(train).
"""
import argparse
import json
import lzma
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = {"family": "gpt2", "layers": 4, "width": 192, "heads": 6, "context": 256, "dropout": 0.0}
BATCH, RATE, DECAY, BETA2, WARM = 8, 2e-3, 0.1, 0.95, 0.03


def config(epochs):
    model = "".join(f"{key} = {json.dumps(value)}\n" for key, value in MODEL.items())
    return (f'[data]\ndataset = "data/kjv"\ntokenizer = "bytes"\n[model]\nname = "gpt"\n{model}'
            f'[train]\nepochs = {epochs}\nbatch = {BATCH}\nprecision = "auto"\noptimizer = "adamw"\nlearning_rate = {RATE}\n'
            f'weight_decay = {DECAY}\nbeta2 = {BETA2}\nclip = 1.0\nschedule = "cosine"\nfinal = 0.1\nwarmup = {WARM * epochs}\n')


def train_mlx(mlx, folder, epochs):
    """Bits per byte of the test split, and seconds of training."""
    def run(*words):
        done = subprocess.run([mlx, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"mlx {' '.join(words)}\n{done.stdout}{done.stderr}")
        return done.stdout

    with open(os.path.join(folder, "train.toml"), "w") as out:
        out.write(config(epochs))
    run("init")
    run("add", "data/kjv")
    run("commit", "-m", "King James Bible")
    started = time.perf_counter()
    trained = json.loads(run("train", "--json"))
    seconds = time.perf_counter() - started
    metrics = json.loads(run("eval", "gpt", "--data", "data/kjv", "--split", "test", "--json"))["metrics"]
    return metrics["bits_per_byte"], seconds, trained


def backward(run, x, y):
    import torch
    from torch.nn import functional as F

    with torch.autocast("cpu", torch.bfloat16):
        loss = F.cross_entropy(run(x).flatten(0, -2), y.flatten())
    loss.backward()


def faster(module):
    """The module, or the same compiled."""
    import torch

    tokens = torch.zeros([BATCH, MODEL["context"]], dtype=torch.int64)
    seconds = {}
    for run in (module, torch.compile(module)):
        times = []
        for _ in range(8):
            started = time.perf_counter()
            backward(run, tokens, tokens)
            times.append(time.perf_counter() - started)
        seconds[run] = sorted(times)[2]
    module.zero_grad(set_to_none=True)
    return min(seconds, key=seconds.get)


def train_torch(train, test, budget, threads):
    import numpy as np
    import torch
    from torch.nn import functional as F

    sys.path.insert(0, HERE)
    import train_models

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    context = MODEL["context"]
    module = train_models.make(MODEL, [context], 256)
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            deep = name.endswith(("projection.weight", "down.weight"))
            torch.nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * MODEL["layers"]) if deep else 0.02)
    groups = [{"params": [p for p in module.parameters() if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in module.parameters() if p.dim() <= 1], "weight_decay": 0.0}]
    updater = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, BETA2), fused=True)
    run = faster(module)
    data = torch.from_numpy(np.frombuffer(train, np.uint8).astype(np.int64))
    random = np.random.default_rng(1)
    steps, windows, started = 0, [], time.perf_counter()
    while (share := (time.perf_counter() - started) / budget) < 1:
        if len(windows) < BATCH:
            offset = int(random.integers(0, context))
            windows = list(random.permutation(range(offset, len(data) - context - 1, context)))
        at = [windows.pop() for _ in range(BATCH)]
        x = torch.stack([data[i:i + context] for i in at])
        y = torch.stack([data[i + 1:i + context + 1] for i in at])
        rate = RATE * (share / WARM if share < WARM else 0.1 + 0.45 * (1 + math.cos(math.pi * (share - WARM) / (1 - WARM))))
        for group in updater.param_groups:
            group["lr"] = rate
        updater.zero_grad(set_to_none=True)
        backward(run, x, y)
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        updater.step()
        steps += 1
    nats, count = 0.0, 0
    data = torch.from_numpy(np.frombuffer(test, np.uint8).astype(np.int64))
    with torch.no_grad():
        for i in range(0, len(data) - 1, context):
            y = data[i + 1:i + context + 1]
            nats += F.cross_entropy(module(data[None, i:i + len(y)]).flatten(0, -2), y, reduction="sum").item()
            count += len(y)
    return nats / math.log(2) / count, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    import torch

    mlx = os.path.realpath(args.mlx)
    if not shutil.which("bible"):
        sys.exit("text.py: needs Debian's packages bible-kjv and bible-kjv-text")
    text = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], stdout=subprocess.PIPE, check=False).stdout
    cut = len(text) - len(text) // 20
    train, test = text[:cut], text[cut:]
    cpu = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    print(f"text benchmark  {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}  {' '.join(sys.argv)}")
    print(f"machine: {cpu}, {os.cpu_count()} threads, Python {platform.python_version()}, torch {torch.__version__}, "
          f"load {os.getloadavg()[0]:.2f}")
    print(f"King James Bible: {len(train):,} bytes to learn, {len(test):,} to predict; {MODEL}")
    with tempfile.TemporaryDirectory(prefix="mlx-bench-text.") as folder:
        os.makedirs(os.path.join(folder, "data/kjv"))
        for name, part in (("train", train), ("test", test)):
            with open(os.path.join(folder, f"data/kjv/{name}.txt"), "wb") as out:
                out.write(part)
        bits, seconds, _ = train_mlx(mlx, folder, args.epochs)
    steps = math.floor(args.epochs * (len(train) // MODEL["context"] // BATCH))
    print(f"  mlx         {bits:.4f} bits per byte  {seconds:6.0f} s  about {steps} steps", flush=True)
    peer, peer_steps = train_torch(train, test, seconds, os.cpu_count())
    print(f"  torch       {peer:.4f} bits per byte  {seconds:6.0f} s  {peer_steps} steps", flush=True)
    packed = [len(lzma.compress(part, preset=9 | lzma.PRESET_EXTREME)) for part in (train, text)]
    print(f"  xz -9e      {(packed[1] - packed[0]) * 8 / len(test):.4f} bits per byte")


if __name__ == "__main__":
    main()
