#!/usr/bin/env python3
"""Training on two ranks of one thread against one rank of one thread, with the same micro-batches.

usage: dist.py MLX [--rounds N]

Prints for each network the rate of both, the efficiency (half of their ratio), how much of the time the first rank waited
for sums, and what it sent in a step; and whether both made the same model. Both are run in turns, and medians compared.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile

MODELS = {
    "mlp of 0.2 M": ("images", 'family = "mlp"\nhidden = [256, 128]\n', "epochs = 8\nbatch = 128\n"),
    "mlp of 5 M": ("images", 'family = "mlp"\nhidden = [2048, 1536]\n', "epochs = 1\nbatch = 256\n"),
    "cnn": ("images", 'family = "cnn"\nlayers = [{ conv = 32 }, { pool = "max", size = 2 }, { conv = 64 }, { pool = "max", size = 2 }, '
            "{ flatten = true }, { dense = 128 }]\n", "epochs = 1\nbatch = 128\n"),
    "resnet-20": ("images", 'family = "resnet"\ndepth = 20\n', "epochs = 1\nbatch = 128\n"),
    "gpt2 of 1.3 M": ("text", 'family = "gpt2"\nlayers = 4\nwidth = 128\nheads = 4\ncontext = 128\n', "epochs = 1\nbatch = 16\n"),
}


def make_data(folder):
    draw = random.Random(1)
    os.makedirs(f"{folder}/data/images")
    os.makedirs(f"{folder}/data/text")
    count = 6400
    with open(f"{folder}/data/images/train-images.idx3-ubyte", "wb") as images:
        images.write(b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (count, 28, 28)) + draw.randbytes(count * 784))
    with open(f"{folder}/data/images/train-labels.idx1-ubyte", "wb") as labels:
        labels.write(b"\0\0\x08\x01" + count.to_bytes(4, "big") + bytes(i % 10 for i in range(count)))
    with open(f"{folder}/data/text/train.txt", "w") as text:
        text.write(" ".join(draw.choice(["mill", "stone", "river", "wheel", "corn", "bread"]) for _ in range(40000)))


def train(mlx, folder, ranks):
    done = subprocess.run([mlx, "train", "-c", "c.toml", "--ranks", str(ranks), "--force", "--json"], cwd=folder, capture_output=True,
                          text=True, env={**os.environ, "MLX_THREADS": str(ranks)})
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mlx")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    mlx = os.path.abspath(options.mlx)
    with tempfile.TemporaryDirectory() as folder:
        make_data(folder)
        subprocess.run([mlx, "init"], cwd=folder, check=True, capture_output=True)
        subprocess.run([mlx, "add", "data/images", "data/text"], cwd=folder, check=True, capture_output=True)
        for name, (data, model, training) in MODELS.items():
            with open(f"{folder}/c.toml", "w") as config:
                config.write(f'[data]\ndataset = "data/{data}"\nleaks = "100%"\n[model]\nname = "m"\n{model}[train]\naccumulate = 2\n{training}')
            runs = {1: [], 2: []}
            for _ in range(options.rounds):
                for ranks in runs:
                    runs[ranks].append(train(mlx, folder, ranks))
            same = len({run["digest"] for all_of in runs.values() for run in all_of}) == 1
            rate = {ranks: statistics.median(next(v for k, v in run["summary"].items() if k.endswith("_per_second")) for run in all_of)
                    for ranks, all_of in runs.items()}
            summary = runs[2][-1]["summary"]
            waiting = statistics.median(run["summary"]["communication"]["waiting"] / run["summary"]["seconds"] for run in runs[2])
            print(f"{name:14} {rate[1]:9.0f}/s  on two ranks {rate[2]:9.0f}/s  efficiency {rate[2] / rate[1] / 2:5.0%}  waiting {waiting:4.0%}"
                  f"  {summary['communication']['bytes_sent'] / summary['steps'] / 1e6:6.2f} MB a step  "
                  + ("the same model" if same else "OTHER BITS"), flush=True)


if __name__ == "__main__":
    main()
