#!/usr/bin/env python3
"""Training on two ranks of one thread against one rank of one thread, with the same micro-batches.

usage: dist.py MLX BENCH_SUM BENCH_STEP [--rounds N] [--only NAME]...

Prints for each network the rate of both, the efficiency (half of their ratio), how much of the time the first rank waited
for sums, and what it sent in a step; and whether both made the same model. Both are run in turns, and medians compared.
Then what a step of more ranks sends, each with the batch of one of the two, and how long it takes, as bench_step
computes it: from the latency and bandwidth of this machine's ranks, which BENCH_SUM measures with a small and a large
sum, for two ranks beside what they took and sent; and from those of two networks. What a message costs a rank is the
latency of this machine.
"""
import argparse
import json
import math
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


def mpirun(bench_sum, floats):
    command = ["mpirun", "-q", "--np", "2", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root", "--mca",
               "btl_vader_single_copy_mechanism", "none", "--mca", "mpi_yield_when_idle", "1", bench_sum, str(floats), "101"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measured_link(bench_sum):
    """Seconds of a small message, and bytes a second of a large one: a sum of two ranks is one message each way."""
    large = 25 << 18
    small = mpirun(bench_sum, 16)
    return small, 4 * large / max(1e-9, mpirun(bench_sum, large) - small)


# name: latency in seconds, bytes a second of a rank
NETWORKS = {"10 Gbit/s, 50 us": (50e-6, 1.25e9), "1 Gbit/s, 200 us": (200e-6, 1.25e8)}
WORLDS = (2, 4, 8, 64, 512, 4096)


def gradients(mlx, folder):
    """The elements of each gradient, last layer first: as a backward pass makes them."""
    weights = subprocess.run([mlx, "cat", "m:weights.safetensors"], cwd=folder, check=True, capture_output=True).stdout
    header = json.loads(weights[8:8 + int.from_bytes(weights[:8], "little")])
    tensors = sorted((v["data_offsets"][0], math.prod(v["shape"])) for k, v in header.items() if k != "__metadata__")
    return [count for _, count in reversed(tensors)]


def print_worlds(bench_step, link, own, counts, seconds, worlds, note):
    """`seconds`: of the step of a rank that has nobody to wait for. A third of it is the forward pass."""
    arguments = [*link, own, seconds / 3, seconds, *counts, "--", *worlds]
    lines = subprocess.run([bench_step, *map(str, arguments)], check=True, capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        ranks, sent, messages, step = line.split()
        print(f"  {ranks:>4} ranks  {int(sent) / 1e6:7.2f} MB in {int(messages):6} messages  {float(step) * 1e3:9.2f} ms a step  "
              f"efficiency {seconds / float(step):4.0%}  {note}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mlx")
    parser.add_argument("bench_sum")
    parser.add_argument("bench_step")
    parser.add_argument("--only", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    mlx, bench_sum, bench_step = (os.path.abspath(path) for path in (options.mlx, options.bench_sum, options.bench_step))
    here = measured_link(bench_sum)
    print(f"a message of 64 bytes takes {here[0] * 1e6:.1f} us between two ranks here, large ones {here[1] / 1e9:.2f} GB/s")
    with tempfile.TemporaryDirectory() as folder:
        make_data(folder)
        subprocess.run([mlx, "init"], cwd=folder, check=True, capture_output=True)
        subprocess.run([mlx, "add", "data/images", "data/text"], cwd=folder, check=True, capture_output=True)
        for name, (data, model, training) in MODELS.items():
            if options.only and name not in options.only:
                continue
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
            counts = gradients(mlx, folder)
            alone = statistics.median(run["summary"]["seconds"] / run["summary"]["steps"] for run in runs[1]) / 2
            took = statistics.median(run["summary"]["seconds"] / run["summary"]["steps"] for run in runs[2])
            print(f"  of two ranks measured: {summary['communication']['bytes_sent'] / summary['steps'] / 1e6:.2f} MB, {took * 1e3:.2f} ms a step")
            print_worlds(bench_step, here, here[0], counts, alone, (2,), "this machine")
            for network, link in NETWORKS.items():
                print_worlds(bench_step, link, here[0], counts, alone, WORLDS, network)


if __name__ == "__main__":
    main()
