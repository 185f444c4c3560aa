#!/usr/bin/env python3
"""Training on data larger than memory: the peak of memory under a cap, and the rate against the same data in memory.

usage: larger.py MLX [--gib N] [--memory SIZE] [--rounds N] [--folder DIR] [--machine SIZE]

Makes IDX images of 56x56 random pixels and a CSV table of 64 numbers a row, each of N GiB (8), trains a small network on
them for one epoch with --memory SIZE (1GiB), and prints the peak of resident memory (VmHWM: pages of the kernel's cache
are not in it). Then it trains a small and a usual network on 1/16 of each, in turns without a cap and with one that sends
the data through the temporary file, and prints the ratio of the rates (medians): examples a second of the training
steps, as mlx says. Random bytes do not compress, so the store takes as much space again.

--machine SIZE repeats the first training in a cgroup whose memory, with the kernel's cache of files, is SIZE: what a
machine of that size does, whose disk and not its cache has the data. Needs root.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import tempfile

SIDE, COLUMNS = 56, 64
BLOCK = 4096  # examples made at once


def make_images(folder, size):
    count = size // (SIDE * SIDE) // BLOCK * BLOCK
    rng = random.Random(1)
    with open(os.path.join(folder, "train-images.idx3-ubyte"), "wb") as images, \
         open(os.path.join(folder, "train-labels.idx1-ubyte"), "wb") as labels:
        images.write(struct.pack(">4B3I", 0, 0, 8, 3, count, SIDE, SIDE))
        labels.write(struct.pack(">4BI", 0, 0, 8, 1, count))
        for _ in range(count // BLOCK):
            images.write(rng.randbytes(BLOCK * SIDE * SIDE))
            labels.write(bytes(i % 10 for i in range(BLOCK)))


def make_rows(folder, size):
    rng = random.Random(2)
    lines = [",".join(f"{rng.random():.6f}" for _ in range(COLUMNS)) for _ in range(BLOCK)]
    with open(os.path.join(folder, "train.csv"), "w") as table:
        table.write("id," + ",".join(f"c{i}" for i in range(COLUMNS)) + ",class\n")
        number = 0
        while table.tell() < size:  # the id makes each row, and each chunk of the store, another one
            table.write("".join(f"{number + i},{line},{'xyz'[(number + i) % 3]}\n" for i, line in enumerate(lines)))
            number += BLOCK


# What makes them, keys of [data], keys of [model]: of a network so small that reading has the largest share that it can
# have, and of a usual one.
KINDS = {
    "images": (make_images, "", {
        "mlp of 64": 'family = "mlp"\nhidden = [64]\n',
        "cnn of 16, 32": 'family = "cnn"\nlayers = [{ conv = 16 }, { pool = "max", size = 2 }, { conv = 32 }, '
                         '{ pool = "max", size = 2 }, { flatten = true }, { dense = 64 }]\n'}),
    "rows": (make_rows, 'target = "class"\n', {
        "mlp of 256, 128": 'family = "mlp"\nhidden = [256, 128]\n',
        "mlp of 1024, 512": 'family = "mlp"\nhidden = [1024, 512]\n'}),
}


def mlx(binary, project, *args):
    return subprocess.run([binary, *args], cwd=project, check=True, capture_output=True, text=True).stdout


def prepare(binary, base, kind, size):
    project = os.path.join(base, "project")
    data = os.path.join(project, "data", kind)
    os.makedirs(data)
    KINDS[kind][0](data, size)
    mlx(binary, project, "init")
    mlx(binary, project, "add", f"data/{kind}")
    shutil.rmtree(data)  # it is trained from the store
    return project


def configure(project, kind, network):
    _, keys, networks = KINDS[kind]
    with open(os.path.join(project, "c.toml"), "w") as config:
        config.write(f'[data]\ndataset = "data/{kind}"\n{keys}[model]\nname = "m"\n{networks[network]}'
                     "[train]\nepochs = 1\nbatch = 128\n")


class Machine:
    """A cgroup, of version 1 or 2, with so many bytes of memory."""

    def __init__(self, size):
        root = "/sys/fs/cgroup"
        old = os.path.isdir(f"{root}/memory")
        self.folder = f"{root}/memory/mlx-bench" if old else f"{root}/mlx-bench"
        os.makedirs(self.folder, exist_ok=True)
        with open(f"{self.folder}/{'memory.limit_in_bytes' if old else 'memory.max'}", "w") as limit:
            limit.write(str(size))

    def enter(self):
        with open(f"{self.folder}/cgroup.procs", "w") as processes:
            processes.write(str(os.getpid()))

    def close(self):
        os.rmdir(self.folder)


# The result, and the peak of resident memory in MiB.
def train(binary, project, *more, machine=None):
    child = subprocess.Popen([binary, "train", "-c", "c.toml", "--force", "--json", *more], cwd=project,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             preexec_fn=machine.enter if machine else None)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"mlx train failed in {project}: {out}")
    return json.loads(out), usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mlx")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="for the data: three times their size must be free")
    parser.add_argument("--machine", help="in MiB")
    options = parser.parse_args()
    binary = os.path.abspath(options.mlx)
    for kind, (_, _, networks) in KINDS.items():
        with tempfile.TemporaryDirectory(dir=options.folder) as base:
            project = prepare(binary, base, kind, int(options.gib * (1 << 30)))
            configure(project, kind, next(iter(networks)))
            for size in [None, options.machine] if options.machine else [None]:
                machine = Machine(int(size) << 20) if size else None
                result, peak = train(binary, project, "--memory", options.memory, machine=machine)
                if machine:
                    machine.close()
                print(f"{kind}: {options.gib:g} GiB with --memory {options.memory}{f' on a machine of {size} MiB' if size else ''}"
                      f": peak {peak:.0f} MiB, expected {result['summary']['memory']['peak'] / (1 << 20):.0f} MiB, "
                      f"{result['summary'][kind + '_per_second']:.0f}/s", flush=True)
        with tempfile.TemporaryDirectory(dir=options.folder) as base:
            project = prepare(binary, base, kind, int(options.gib / 16 * (1 << 30)))
            for network in networks:
                configure(project, kind, network)
                compare_rates(binary, project, kind, network, options)


def compare_rates(binary, project, kind, network, options):
    full = train(binary, project)[0]["summary"]["memory"]["peak"]
    cap = f"{(full >> 20) - int(options.gib * 64 * 0.75)}MiB"  # of the data, three quarters do not fit
    rates = {"memory": [], "file": []}
    ids = set()
    for _ in range(options.rounds):
        for name, more in (("memory", []), ("file", ["--memory", cap])):
            result, _ = train(binary, project, *more)
            rates[name].append(result["summary"][f"{kind}_per_second"])
            ids.add(result["digest"])
    median = {name: statistics.median(values) for name, values in rates.items()}
    print(f"{kind}: {options.gib / 16:g} GiB, {network}: from memory {median['memory']:.0f}/s, from the file "
          f"{median['file']:.0f}/s, ratio {median['file'] / median['memory']:.2f} with --memory {cap}, "
          f"{'the same' if len(ids) == 1 else 'OTHER'} bytes", flush=True)


if __name__ == "__main__":
    main()
