#!/usr/bin/env python3
"""Training on several ranks: all that is measured of it, in one run or part by part.

usage: dist.py MLX BENCH_SUM BENCH_STEP [--part PART]... [--rounds N] [--only NAME]... [--network NAME]...

efficiency  two ranks of one thread against one rank of one thread, with the same micro-batches: the rate of both, the
            efficiency (half of their ratio), how much of the time the first rank waited for sums, what it sent in a step, and
            whether both made the same model. Both are run in turns, and medians compared.
traffic     what a step of 2 to 4096 ranks sends, each with the batch of one of the two, and how long it takes, as bench_step
            computes it: from the latency and bandwidth of this machine's ranks, which BENCH_SUM measures with a small and a
            large sum, for two ranks beside what they took and sent; and from those of three networks. What a message costs a
            rank is the latency of this machine.
sums        a sum of 1 and 25 MiB by mlx, MPI_Allreduce and Gloo: on two ranks over each network, and on 4 and 8 here without
            Gloo.
loss        the time to a fixed loss against PyTorch's DistributedDataParallel over Gloo, on the same model, data and initial
            weights, over each network; where it is slowest also by local SGD, which is to be 5 times as fast (ddp.py).
encrypt     the cost of --encrypt: the cipher, a sum, a step (encrypt.py).
async       what updates that wait cost and save (async.py).

Without --part all of them. PyTorch, for Gloo and DDP, is that of the Python that runs this; without it those are left out.
Networks other than this machine's need root (network namespaces), loss, encrypt and async the package dataset-fashion-mnist.
"""
import argparse
import importlib.util
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import ddp
import encrypt

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = ["efficiency", "traffic", "sums", "loss", "encrypt", "async"]

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


def mpirun(program, floats, ranks=2, rounds=101):
    command = ["mpirun", "-q", "--np", str(ranks), "--oversubscribe", "--bind-to", "none", "--allow-run-as-root", "--mca",
               "btl_vader_single_copy_mechanism", "none", "--mca", "mpi_yield_when_idle", "1", program, str(floats), str(rounds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measured_link(bench_sum):
    """Seconds of a small message, and bytes a second of a large one: a sum of two ranks is one message each way."""
    large = 25 << 18
    small = mpirun(bench_sum, 16)
    return small, 4 * large / max(1e-9, mpirun(bench_sum, large) - small)


# name: latency in seconds, bytes a second of a rank
NETWORKS = {"10 Gbit/s, 50 us": (50e-6, 1.25e9), "1 Gbit/s, 200 us": (200e-6, 1.25e8), "100 Mbit/s, 25 ms": (25e-3, 1.25e7)}
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


def write_config(folder, name):
    data, model, training = MODELS[name]
    with open(f"{folder}/c.toml", "w") as config:
        config.write(f'[data]\ndataset = "data/{data}"\nleaks = "100%"\n[model]\nname = "m"\n{model}[train]\naccumulate = 2\n{training}')


def median_step(runs):
    return statistics.median(run["summary"]["seconds"] / run["summary"]["steps"] for run in runs)


def efficiency(name, folder, options):
    runs = {1: [], 2: []}
    for _ in range(options.rounds):
        for ranks in runs:
            runs[ranks].append(train(options.mlx, folder, ranks))
    same = len({run["digest"] for all_of in runs.values() for run in all_of}) == 1
    rate = {ranks: statistics.median(next(v for k, v in run["summary"].items() if k.endswith("_per_second")) for run in all_of)
            for ranks, all_of in runs.items()}
    single = sorted(median_step([one]) / median_step([two]) / 2 for one, two in zip(runs[1], runs[2]))
    summary = runs[2][-1]["summary"]
    waiting = statistics.median(run["summary"]["communication"]["waiting"] / run["summary"]["seconds"] for run in runs[2])
    print(f"{name:14} {rate[1]:9.0f}/s  on two ranks {rate[2]:9.0f}/s  efficiency {rate[2] / rate[1] / 2:5.0%} (single rounds "
          f"{single[0]:.0%} to {single[-1]:.0%})  waiting {waiting:4.0%}  {summary['communication']['bytes_sent'] / summary['steps'] / 1e6:6.2f} MB "
          f"a step  " + ("the same model" if same else "OTHER BITS") + f"  load {os.getloadavg()[0]:.1f}", flush=True)


def traffic(name, here, folder, options):
    runs = {ranks: [train(options.mlx, folder, ranks) for _ in range(options.rounds)] for ranks in (1, 2)}
    counts, alone = gradients(options.mlx, folder), median_step(runs[1]) / 2
    summary = runs[2][-1]["summary"]
    print(f"{name}\n  of two ranks measured: {summary['communication']['bytes_sent'] / summary['steps'] / 1e6:.2f} MB, "
          f"{median_step(runs[2]) * 1e3:.2f} ms a step")
    print_worlds(options.bench_step, here, here[0], counts, alone, (2,), "this machine")
    for network, link in NETWORKS.items():
        print_worlds(options.bench_step, link, here[0], counts, alone, WORLDS, network)


def trained_here(options):
    with tempfile.TemporaryDirectory() as folder:
        make_data(folder)
        subprocess.run([options.mlx, "init"], cwd=folder, check=True, capture_output=True)
        subprocess.run([options.mlx, "add", "data/images", "data/text"], cwd=folder, check=True, capture_output=True)
        here = None
        if "traffic" in options.part:
            here = measured_link(options.bench_sum)
            print(f"a message of 64 bytes takes {here[0] * 1e6:.1f} us between two ranks here, large ones {here[1] / 1e9:.2f} GB/s")
        for name in chosen(options, MODELS):
            write_config(folder, name)
            if "efficiency" in options.part:
                efficiency(name, folder, options)
            if "traffic" in options.part:
                traffic(name, here, folder, options)


def sums_here(options):
    """Of more ranks than two, which mostly have no core of their own."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mpicc", "-O2", "-o", f"{folder}/mpi_all_reduce", f"{HERE}/mpi_all_reduce.c"], check=True)
        for ranks in (4, 8):
            for size in (1, 25):
                medians = {"mlx": [], "MPI_Allreduce": []}
                for _ in range(options.rounds):
                    for name, program in (("mlx", options.bench_sum), ("MPI_Allreduce", f"{folder}/mpi_all_reduce")):
                        medians[name].append(mpirun(program, size << 18, ranks, 15))
                mine, other = (statistics.median(each) for each in medians.values())
                print(f"{ranks} ranks here, sum of {size:2} MiB: mlx {1e3 * mine:.3f} ms, MPI_Allreduce {1e3 * other:.3f} ms "
                      f"({other / mine:.2f}x)  load {os.getloadavg()[0]:.1f}", flush=True)


def chosen(options, names):
    return [name for name in names if not options.only or name in options.only]


def run(script, *arguments):
    """A program beside this one, which prints what it measures."""
    sys.stdout.flush()
    code = subprocess.run([sys.executable, f"{HERE}/{script}", *arguments]).returncode
    if code != 0:
        print(f"{script} ended with {code}", flush=True)


def repeated(option, values):
    return [word for value in values for word in (option, value)]


def against_ddp(options, *arguments):
    networks = [name for name in ddp.NETWORKS if not options.network or name in options.network]
    for network in networks:
        slow = ddp.NETWORKS[network] is not None and ddp.NETWORKS[network][1] > 0
        more = repeated("--sync-every", options.sync_every or ["64"]) if slow and "--sums-only" not in arguments else []
        run("ddp.py", options.mlx, options.bench_sum, "--rounds", str(options.rounds), "--network", network, *arguments, *more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx", type=os.path.abspath)
    parser.add_argument("bench_sum", type=os.path.abspath)
    parser.add_argument("bench_step", type=os.path.abspath)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--only", action="append", choices=[*MODELS, *(name for name in ddp.CASES if name not in MODELS)])
    parser.add_argument("--network", action="append", choices=list(ddp.NETWORKS))
    parser.add_argument("--sync-every", action="append", metavar="H", help="of loss on the slowest network (64)")
    parser.add_argument("--no-compile", action="store_true", help="PyTorch's eager modes only")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.part = options.part or PARTS
    torch = importlib.util.find_spec("torch") is not None
    print(f"training on several ranks  {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}  {' '.join(sys.argv)}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}" + ("" if torch else "; this Python has no PyTorch: Gloo and DDP are left out"), flush=True)
    cases = repeated("--only", chosen(options, ddp.CASES))
    if "efficiency" in options.part or "traffic" in options.part:
        trained_here(options)
    if "sums" in options.part:
        against_ddp(options, "--sums-only")
        sums_here(options)
    if "loss" in options.part and torch and cases:
        against_ddp(options, "--no-sums", *["--no-compile"] * options.no_compile, *cases)
    cases = chosen(options, encrypt.CASES)
    networks = [name for name in encrypt.NETWORKS if not options.network or name in options.network]
    if "encrypt" in options.part and cases and networks:
        run("encrypt.py", options.mlx, options.bench_sum, "--rounds", str(options.rounds), *repeated("--only", cases),
            *repeated("--network", networks))
    if "async" in options.part:
        run("async.py", options.mlx, "--rounds", str(options.rounds))


if __name__ == "__main__":
    main()
