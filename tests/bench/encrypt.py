#!/usr/bin/env python3
"""What `mlx train --encrypt` costs: the cipher by itself, a sum of gradients, and steps of trainings, on two ranks of one thread.

usage: encrypt.py MLX BENCH_SUM [--rounds N] [--only NAME]... [--network NAME]...

With and without it in turns, over the networks of ddp.py, which need root. The other host is reached by an `ssh` that enters its
network namespace. Needs the package dataset-fashion-mnist.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import ddp

CASES = ["mlp of 5 M", "cnn", "gpt2 of 0.8 M"]
NETWORKS = ["plain", "1 Gbit/s"]
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def sums(place, bench_sum, options):
    environment = {**os.environ, **ROOT}
    for size in (1, 25):
        medians = {"clear": [], "sealed": []}
        for _ in range(options.rounds):
            for name, more in (("clear", []), ("sealed", ["sealed"])):
                command = ddp.MPIRUN + place.hosts + ["--np", "2", bench_sum, str(size << 18), "15", *more]
                medians[name].append(float(ddp.out_of(place.first + command, env=environment)))
        clear, sealed = (statistics.median(each) for each in medians.values())
        print(f"sum of {size:2} MiB: {1e3 * clear:.3f} ms, sealed {1e3 * sealed:.3f} ms ({sealed / clear:.3f}x)", flush=True)


def seconds_of_step(mlx, folder, place, epochs, more):
    environment = {**os.environ, **ROOT, "MLX_THREADS": "1", "MLX_SSH_COMMAND": f"{folder}/agent", "MLX_REMOTE_MLX": mlx,
                   "XDG_CACHE_HOME": f"{folder}/cache"}
    done = json.loads(ddp.out_of(place.first + [mlx, "train", "-c", "c.toml", "--hosts", "localhost,other", "--force", "--json",
                                                "--set", f"train.epochs={epochs}", *more], cwd=folder, env=environment))
    summary = done["summary"]
    if summary["communication"]["encrypted"] != bool(more):
        raise SystemExit("it was not as asked")
    return summary["seconds"] / summary["steps"], done["digest"]


def steps(case, mlx, folder, place, options):
    ddp.write_config(folder, case)
    seconds, digests = {"clear": [], "sealed": []}, set()
    for round_number in range(options.rounds + 1):
        for name, more in (("clear", []), ("sealed", ["--encrypt"])):
            one, digest = seconds_of_step(mlx, folder, place, 2, more)
            digests.add(digest)
            if round_number > 0:  # the first is not timed
                seconds[name].append(one)
    if len(digests) != 1:
        raise SystemExit("the models differ")
    clear, sealed = (statistics.median(each) for each in seconds.values())
    pairs = sorted(b / a for a, b in zip(seconds["clear"], seconds["sealed"]))
    print(f"{case}: a step {1e3 * clear:.2f} ms, encrypted {1e3 * sealed:.2f} ms: {sealed / clear - 1:+.1%} "
          f"(single rounds {pairs[0] - 1:+.1%} to {pairs[-1] - 1:+.1%}), the same model  load {os.getloadavg()[0]:.1f}", flush=True)


def on_network(name, mlx, bench_sum, folder, options):
    print(f"\n{name}", flush=True)
    place = ddp.Place(folder, ddp.NETWORKS[name])
    try:
        sums(place, bench_sum, options)
        if place.other:  # ranks of one machine are not encrypted
            for case in options.only or CASES:
                steps(case, mlx, folder, place, options)
    finally:
        if place.other:
            place.other.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx", type=os.path.abspath)
    parser.add_argument("bench_sum", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=list(ddp.CASES))
    parser.add_argument("--network", action="append", choices=NETWORKS)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return on_network(options.network[0], options.mlx, options.bench_sum, options.inside, options)
    print(f"the cost of --encrypt  {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}  {' '.join(sys.argv)}")
    seals, opens = (float(each) for each in ddp.out_of([options.bench_sum, "ciphers"]).split())
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; a core seals a GiB in {seals:.3f} s, opens it in {opens:.3f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ddp.make_data(folder)
        ddp.out_of([options.mlx, "init"], cwd=folder)
        ddp.out_of([options.mlx, "add", "data/images", "data/text"], cwd=folder)
        for name in options.network or NETWORKS:
            if ddp.NETWORKS[name] is None:
                on_network(name, options.mlx, options.bench_sum, folder, options)
                continue
            spaces = ["unshare", "--net", "--uts", "--mount", "--pid", "--mount-proc", "--kill-child", "--fork"]
            if subprocess.run(spaces + ["true"], capture_output=True).returncode != 0:
                print(f"\n{name}: left out, network namespaces are not permitted here (root makes them)")
                continue
            given = [word for case in options.only or [] for word in ("--only", case)]
            subprocess.run(spaces + [sys.executable, __file__, options.mlx, options.bench_sum, "--inside", folder, "--network", name,
                                     "--rounds", str(options.rounds), *given], check=True)


if __name__ == "__main__":
    main()
