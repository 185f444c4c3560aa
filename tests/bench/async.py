#!/usr/bin/env python3
"""What updates that wait (`mlx train --async D`) cost in accuracy and save in time.

usage: async.py MLX [--only NAME]... [--part loss|time]... [--rounds N] [--seeds N]

loss: the mean held-out loss over several seeds of trainings of as many steps with D = 0, 1, 2 and 4, at a learning rate and
at parts of it. time: the seconds of a step on two ranks of one thread, of which one or the other is stopped
for --stall ms again and again at random, as by other work on its host; and over the slow network of ddp.py with a latency
(slow_link.c; needs root). Needs the package dataset-fashion-mnist.
"""
import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import ddp

WAITS = (0, 1, 2, 4)
FACTORS = (1, 0.25)  # of the learning rate
DIVERGED = 9
SLOWLY = ("--set", "train.learning_rate=1e-4")  # where time is measured nothing shall diverge
MLP, CNN = {"family": "mlp", "hidden": [256, 128]}, {"family": "cnn", "layers": ddp.train.CNN}
GPT2 = {"family": "gpt2", "layers": 2, "width": 64, "heads": 2, "context": 64}
# name: data, model, optimizer, batch; three epochs
MODELS = {
    "mlp": ("images", MLP, {"optimizer": "sgd", "learning_rate": 0.02}, 64),
    "mlp without momentum": ("images", MLP, {"optimizer": "sgd", "momentum": 0, "learning_rate": 0.2}, 64),
    "cnn": ("images", CNN, {"optimizer": "sgd", "learning_rate": 0.02}, 64),
    "cnn without momentum": ("images", CNN, {"optimizer": "sgd", "momentum": 0, "learning_rate": 0.2}, 64),
    "gpt2": ("text", GPT2, {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1}, 16),
}
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def write_config(folder, name):
    data, model, optimizer, batch = MODELS[name]
    with open(f"{folder}/c.toml", "w") as out:
        out.write(f'[data]\ndataset = "data/{data}"\nleaks = "100%"\nhold_out = 0.1\n[model]\nname = "m"\n')
        out.writelines(f"{key} = {ddp.train.toml_value(value)}\n" for key, value in model.items())
        out.write(f"[train]\nepochs = 3\nbatch = {batch}\naccumulate = 2\ncheckpoint_every = 1000\n")
        out.writelines(f"{key} = {ddp.train.toml_value(value)}\n" for key, value in optimizer.items())


def train(mlx, folder, waits, *arguments, before=(), **environment):
    command = [*before, mlx, "train", "-c", "c.toml", "--force", "--json", *arguments]
    if waits:
        command += ["--async", str(waits)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **ROOT, **environment})


def summary_of(process):
    """None: it diverged."""
    out, err = process.communicate()
    if process.returncode == DIVERGED:
        return None
    if process.returncode != 0:
        raise SystemExit(err)
    return json.loads(out)["summary"]


def losses(name, mlx, folder, options):
    rate, steps = MODELS[name][2]["learning_rate"], 0
    for factor in FACTORS:
        of = {waits: [] for waits in WAITS}
        for seed in range(1, options.seeds + 1):
            for waits in WAITS:
                summary = summary_of(train(mlx, folder, waits, "--set", f"train.seed={seed}", "--set", f"train.learning_rate={rate * factor}"))
                of[waits].append(summary["valid_loss"] if summary else math.inf)
                steps = summary["steps"] if summary else steps
        print(f"{name}: {steps} steps at {rate * factor:g}, {options.seeds} seeds; held-out loss " + ", ".join(
            f"D = {waits}: " + (f"{sum(map(math.isinf, each))} diverge" if math.inf in each else
                                f"{statistics.mean(each):.4f} ({statistics.mean(each) / statistics.mean(of[0]) - 1:+.1%})")
            for waits, each in of.items()), flush=True)


def ranks_below(process):
    """The processes of the ranks: children of mpirun, which is a child of mlx."""
    def children(pid):
        try:
            return [int(each) for each in open(f"/proc/{pid}/task/{pid}/children").read().split()]
        except OSError:
            return []
    return [rank for launcher in children(process.pid) for rank in children(launcher)]


def stall(process, stall_ms, done):
    draw = random.Random(1)
    while not done.is_set():
        time.sleep(draw.expovariate(1 / (3e-3 * stall_ms)))
        ranks = sorted(ranks_below(process))
        if len(ranks) < 2:
            continue
        rank = draw.choice(ranks[-2:])
        try:
            os.kill(rank, signal.SIGSTOP)
            time.sleep(stall_ms / 1e3)
            os.kill(rank, signal.SIGCONT)
        except ProcessLookupError:
            pass


def seconds_of_step(mlx, folder, waits, stall_ms):
    process = train(mlx, folder, waits, "--ranks", "2", *SLOWLY, MLX_THREADS="2")
    done = threading.Event()
    thread = threading.Thread(target=stall, args=(process, stall_ms, done))
    if stall_ms:
        thread.start()
    summary = summary_of(process)
    done.set()
    if stall_ms:
        thread.join()
    return summary["seconds"] / summary["steps"], summary["communication"]["waiting"] / summary["seconds"]


def show_times(what, name, measured):
    seconds = {waits: statistics.median(each for each, _ in of) for waits, of in measured.items()}
    print(f"{name}, {what}: " + ", ".join(
        f"D = {waits}: {1e3 * each:.2f} ms a step ({seconds[0] / each:.2f}x), waiting {statistics.median(w for _, w in measured[waits]):.0%}"
        for waits, each in seconds.items()) + f"  load {os.getloadavg()[0]:.1f}", flush=True)


def times(name, mlx, folder, options):
    for stall_ms in (0, options.stall):
        measured = {waits: [] for waits in WAITS}
        for _ in range(options.rounds):
            for waits in WAITS:
                measured[waits].append(seconds_of_step(mlx, folder, waits, stall_ms))
        show_times(f"ranks that stall for {stall_ms} ms" if stall_ms else "nothing stalls", name, measured)


def on_network(mlx, folder, options):
    place = ddp.Place(folder, (1000, options.latency / 2))
    try:
        for name in options.only or MODELS:
            write_config(folder, name)
            measured = {waits: [] for waits in WAITS}
            for _ in range(options.rounds):
                for waits in WAITS:
                    launch = place.first + ddp.MPIRUN + place.hosts + ["--np", "2", "-x", "MLX_THREADS"]
                    summary = summary_of(train(mlx, folder, waits, *SLOWLY, before=launch, MLX_THREADS="1"))
                    measured[waits].append((summary["seconds"] / summary["steps"],
                                            summary["communication"]["waiting"] / summary["seconds"]))
            show_times(f"1 Gbit/s, {options.latency} ms there and back", name, measured)
    finally:
        place.other.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx", type=os.path.abspath)
    parser.add_argument("--only", action="append", choices=list(MODELS))
    parser.add_argument("--part", action="append", choices=["loss", "time"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--stall", type=float, default=20, help="ms")
    parser.add_argument("--latency", type=float, default=20, help="ms, there and back")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return on_network(options.mlx, options.inside, options)
    print(f"updates that wait  {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}  {' '.join(sys.argv)}  load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        ddp.make_data(folder)
        ddp.out_of([options.mlx, "init"], cwd=folder)
        ddp.out_of([options.mlx, "add", "data/images", "data/text"], cwd=folder)
        for name in options.only or MODELS:
            write_config(folder, name)
            if "loss" in (options.part or ["loss"]):
                losses(name, options.mlx, folder, options)
            if "time" in (options.part or ["time"]):
                times(name, options.mlx, folder, options)
        spaces = ["unshare", "--net", "--uts", "--mount", "--pid", "--mount-proc", "--kill-child", "--fork"]
        if "time" not in (options.part or ["time"]) or subprocess.run(spaces + ["true"], capture_output=True).returncode != 0:
            return
        given = [word for name in options.only or [] for word in ("--only", name)]
        subprocess.run(spaces + [sys.executable, __file__, options.mlx, "--inside", folder, "--rounds", str(options.rounds),
                                 "--latency", str(options.latency), *given], check=True)


if __name__ == "__main__":
    main()
