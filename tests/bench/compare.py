#!/usr/bin/env python3
"""Two builds of mlx side by side: what a change costs the store, training, evaluation, serving and start-up.

usage: compare.py BEFORE NOW [--only store|train|serve|start]... [--rounds N] [--load BENCH_SERVE]

BEFORE and NOW are mlx binaries with their modules where their builds put them. Both do the same work in turns; the table
shows the median of all rounds and the ratio NOW / BEFORE. Work is measured in CPU seconds (user and system), which other
work on the machine disturbs little. Requests are counted per CPU second of the server, start-up is the smallest wall time.
Training and serving need the package dataset-fashion-mnist; serving needs bench_serve of a build (--load).
"""
import argparse
import gzip
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

SMALL, LARGE, LARGE_SIZE = 10000, 4, 64 << 20
IMAGES = "/usr/share/datasets/fashion-mnist"
DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "demo")


def cpu(binary, *args, cwd):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([binary, *args], cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def files(folder, kind):
    rng = random.Random(kind)
    count, size = (SMALL, 2000) if kind == "small" else (LARGE, LARGE_SIZE)
    for i in range(count):
        with open(os.path.join(folder, f"{i:05}"), "wb") as file:
            file.write(rng.randbytes(size))


def store_round(binary, kind, base):
    work = fresh(os.path.join(base, "work"))
    project = fresh(os.path.join(work, "project"))
    shutil.copytree(os.path.join(base, kind), os.path.join(project, "d"))
    times = {}
    cpu(binary, "init", cwd=project)
    times["add"] = cpu(binary, "add", "d", cwd=project)
    times["commit"] = cpu(binary, "commit", "-m", "x", cwd=project)
    cpu(binary, "remote", "add", "origin", "../remote", cwd=project)
    times["push"] = cpu(binary, "push", cwd=project)
    times["clone"] = cpu(binary, "clone", "remote", "clone", cwd=work)
    with open(os.path.join(project, "d", "one more"), "wb") as file:
        file.write(b"more")
    cpu(binary, "add", "d", cwd=project)
    cpu(binary, "commit", "-m", "y", cwd=project)
    cpu(binary, "push", cwd=project)
    times["pull"] = cpu(binary, "pull", cwd=os.path.join(work, "clone"))
    return {f"{kind}: {what}": value for what, value in times.items()}


def project_of(binary, base):
    """A repository with the demo's dataset and config, made by `binary`."""
    project = fresh(os.path.join(base, "project"))
    data = fresh(os.path.join(project, "data/fashion"))
    for name in os.listdir(IMAGES):
        shutil.copy(os.path.join(IMAGES, name), data)
    shutil.copy(os.path.join(DEMO, "dataset.toml"), data)
    shutil.copy(os.path.join(DEMO, "train.toml"), project)
    cpu(binary, "init", cwd=project)
    cpu(binary, "add", "data/fashion", cwd=project)
    cpu(binary, "commit", "-m", "x", cwd=project)
    return project


def train_round(binary, base):
    project = project_of(binary, base)
    times = {"train, 1 epoch": cpu(binary, "train", "-c", "train.toml", "--set", "train.epochs=1", cwd=project)}
    times["eval f32"] = cpu(binary, "eval", "clf", "--data", "data/fashion", "--split", "test", cwd=project)
    times["quantize"] = cpu(binary, "quantize", "clf", "--to", "int8", "--calibrate", "data/fashion", "--split", "train",
                            cwd=project)
    times["eval int8"] = cpu(binary, "eval", "clf@latest", "--data", "data/fashion", "--split", "test", cwd=project)
    return times


def cpu_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve_round(binary, base, load):
    """Requests per CPU second of the server; the model is trained by the binary that serves it."""
    folder = os.path.join(base, f"serve-{abs(hash(binary))}")
    if not os.path.isdir(folder):
        project = project_of(binary, base)
        cpu(binary, "train", "-c", "train.toml", "--set", "train.epochs=1", cwd=project)
        os.rename(project, folder)
        with gzip.open(os.path.join(IMAGES, "t10k-images-idx3-ubyte.gz")) as images:
            pixels = list(images.read(16 + 784)[16:])
        request = {"inputs": [{"name": "images", "shape": [1, 28, 28, 1], "datatype": "UINT8", "data": pixels}]}
        with open(os.path.join(folder, "request.json"), "w", encoding="ascii") as file:
            json.dump(request, file)
    server = subprocess.Popen([binary, "serve", "clf", "--listen", "127.0.0.1:0", "--json"], cwd=folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        text = server.stdout.readline()
        while text.rstrip("\n").split("\n")[-1] != "}":  # the document's last line
            text += server.stdout.readline()
        url = json.loads(text)["url"]
        rates = {}
        for connections in ("1", "16"):
            before = cpu_of(server.pid)
            printed = subprocess.run([load, "--url", url, "--model", "clf", "--request", "request.json", "--seconds", "3",
                                      "--connections", connections], cwd=folder, check=True, capture_output=True, text=True)
            answered = json.loads(printed.stdout)["requests"]
            rates[f"serve, {connections} connections"] = answered / (cpu_of(server.pid) - before)
        return rates
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def start_round(binary, base):
    """The quickest of thirty starts, in milliseconds."""
    folder = os.path.join(base, "start")
    if not os.path.isdir(folder):
        project = fresh(folder)
        cpu(binary, "init", cwd=project)
        with open(os.path.join(project, "data.csv"), "w", encoding="ascii") as file:
            file.write("a,b\n1,2\n")
        cpu(binary, "add", "data.csv", cwd=project)
        cpu(binary, "commit", "-m", "x", cwd=project)
    times = {}
    for command in ("--version", "status"):
        walls = []
        for _ in range(30):
            started = time.perf_counter()
            subprocess.run([binary, command], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            walls.append(time.perf_counter() - started)
        times[f"mlx {command}"] = 1000 * min(walls)
    return times


def compare(title, before, now, rounds, one_round):
    runs = {before: [], now: []}
    for _ in range(rounds):
        for binary, results in runs.items():
            results.append(one_round(binary))
    print(f"{title:24}{'before':>12}{'now':>12}{'ratio':>8}")
    for what in runs[before][0]:
        old, new = (statistics.median(result[what] for result in runs[binary]) for binary in (before, now))
        print(f"  {what:22}{old:12.3f}{new:12.3f}{new / old:8.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=os.path.abspath)
    parser.add_argument("now", type=os.path.abspath)
    parser.add_argument("--only", action="append", choices=["store", "train", "serve", "start"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", type=os.path.abspath)
    args = parser.parse_args()
    wanted = args.only or ["store", "train", "start"] + (["serve"] if args.load else [])
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as base:
        os.environ["HOME"] = base
        both = (args.before, args.now, args.rounds)
        if "store" in wanted:
            for kind in ("small", "large"):
                files(fresh(os.path.join(base, kind)), kind)
                compare("store, CPU seconds", *both, lambda binary: store_round(binary, kind, base))
                shutil.rmtree(os.path.join(base, kind))
        if "train" in wanted:
            compare("models, CPU seconds", *both, lambda binary: train_round(binary, base))
        if "serve" in wanted:
            compare("requests per CPU second", *both, lambda binary: serve_round(binary, base, args.load))
        if "start" in wanted:
            compare("start, ms", *both, lambda binary: start_round(binary, base))


if __name__ == "__main__":
    main()
