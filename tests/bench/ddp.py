#!/usr/bin/env python3
"""Two ranks of one thread: `mlx train` against PyTorch's DistributedDataParallel over Gloo, until both reach the same loss.

usage: ddp.py MLX BENCH_SUM [--rounds N] [--only NAME]... [--network NAME]... [--no-compile] [--no-sums] [--sums-only]
              [--sync-every H]... [--wire TYPE] [--local-epochs N]

Both have the same model, initial weights (mlx's), batches, shares of the ranks and optimizer; nothing is timed unless
the first losses agree. They run in turns. "plain" is this machine's loopback. The other networks (NETWORKS) join two
network namespaces, which end with this program; there rank 0 has core 0 and rank 1 core 1, and mpirun starts mlx. They need root. Each begins
with a sum of 1 MiB and of 25 MiB by mlx, MPI_Allreduce and Gloo. --sync-every adds runs of mlx by local SGD, which may
take --local-epochs times the epochs to reach the loss that PyTorch reaches; theirs is the mean of what both workers
have, each before its step. --wire is of all runs of mlx; only with f32 are losses compared first. Needs PyTorch, numpy, mpicc, and the package
dataset-fashion-mnist.
"""
import argparse
import gzip
import importlib.metadata
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import train

HERE = os.path.dirname(os.path.abspath(__file__))
TORCH = importlib.util.find_spec("torch") is not None
SGD = {"optimizer": "sgd", "learning_rate": 0.01, "momentum": 0.9, "nesterov": True}
ADAMW = {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1, "beta2": 0.95}
# name: data, model, optimizer, batch, epochs (on slow networks there is one)
CASES = {
    "mlp of 5 M": ("images", {"family": "mlp", "hidden": [2048, 1536]}, SGD, 256, 4),
    "cnn": ("images", {"family": "cnn", "layers": train.CNN}, SGD, 128, 3),
    "resnet-20": ("images", {"family": "resnet", "depth": 20}, SGD, 128, 2),
    "gpt2 of 0.8 M": ("text", {"family": "gpt2", "layers": 4, "width": 128, "heads": 4, "context": 128}, ADAMW, 16, 1),
}
# name: Mbit/s, and ms that a packet takes in each direction
NETWORKS = {"plain": None, "1 Gbit/s": (1000, 0), "100 Mbit/s, 50 ms": (100, 25)}
EXAMPLES = 6400
SMOOTH = 10  # steps whose mean is the loss
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca",
          "btl_vader_single_copy_mechanism", "none"]  # as mlx calls it
for parameter in ("eager_limit", "rndv_eager_limit", "max_send_size"):
    MPIRUN += ["--mca", f"btl_tcp_{parameter}", str((1 << 18) + 4096)]


def out_of(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_data(folder):
    """Images of Fashion-MNIST, and mlx's own pages as text."""
    os.makedirs(f"{folder}/data/images")
    os.makedirs(f"{folder}/data/text")
    for part, kind, header, size in (("images", "idx3-ubyte", 16, 784), ("labels", "idx1-ubyte", 8, 1)):
        with gzip.open(f"/usr/share/datasets/fashion-mnist/train-{part}-{kind}.gz") as stored:
            head, content = stored.read(header), stored.read(EXAMPLES * size)
        with open(f"{folder}/data/images/train-{part}.{kind}", "wb") as out:
            out.write(head[:4] + EXAMPLES.to_bytes(4, "big") + head[8:] + content)
    prose = os.path.join(HERE, "../../man/prose")
    with open(f"{folder}/data/text/train.txt", "wb") as out:
        for name in sorted(os.listdir(prose)):
            out.write(open(os.path.join(prose, name), "rb").read())


class Place:
    """Where the ranks run: on this machine as it is, or the second in a namespace of its own behind a link."""

    def __init__(self, folder, network):
        self.other, self.address = None, "127.0.0.1"
        self.first, self.second, self.hosts = [], [], []  # what stands before a rank's command; what mpirun must know
        if network is not None:
            self.join(folder, *network)

    def join(self, folder, rate, delay):
        self.other = subprocess.Popen(["unshare", "--net", "--uts", "sleep", "100000"])
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.other.pid}/ns/net") == own:
            time.sleep(0.01)
        there = ["nsenter", "-t", str(self.other.pid), "--net", "--uts"]
        self.first, self.second = ["taskset", "-c", "0"], there + ["taskset", "-c", "1"]
        self.address = "10.78.0.1"
        shape = self.make_link(folder, there, rate, delay)
        for where, name in (([], "link0"), (there, "link1")):
            out_of(where + ["ip", "link", "set", "lo", "up"])
            out_of(where + ["ip", "addr", "add", f"10.78.0.{1 + int(name[-1])}/24", "dev", name])
            out_of(where + ["ip", "link", "set", name, "up"])
            if shape:
                out_of(where + ["tc", "qdisc", "add", "dev", name, "root", *shape])
            out_of(where + ["hostname", f"bench{name[-1]}"])
        agent = f"{folder}/agent"
        with open(agent, "w") as out:
            out.write('#!/bin/sh\nwhile :; do case "$1" in -o) shift 2;; -*) shift;; *) break;; esac; done\nshift\n'
                      f"export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
                      f'exec {" ".join(self.second)} sh -c "$*"\n')
        os.chmod(agent, 0o755)
        self.hosts = ["--host", "localhost:1,other:1", "--mca", "plm_rsh_agent", agent, "--wdir", folder]

    def make_link(self, folder, there, rate, delay):
        """What tc is to do at both ends."""
        pid = str(self.other.pid)
        netem = ["netem", "delay", f"{delay}ms", "rate", f"{rate}mbit", "limit", "10000"]
        out_of(["ip", "link", "set", "lo", "up"])
        if not delay or subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", *netem], capture_output=True).returncode == 0:
            subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], capture_output=True)
            out_of(["ip", "link", "add", "link0", "type", "veth", "peer", "name", "link1", "netns", pid])
            print(f"  veth, {'netem' if delay else 'tbf'} at both ends")
            return netem if delay else ["tbf", "rate", f"{rate}mbit", "burst", "128kb", "latency", "50ms"]
        print("  this kernel has no netem: slow_link.c carries the packets")
        out_of(["gcc", "-O2", "-o", f"{folder}/slow_link", f"{HERE}/slow_link.c"])
        line = subprocess.Popen(["nice", "-n", "-10", f"{folder}/slow_link", "link0", "link1", str(rate), str(delay)],
                                stdout=subprocess.PIPE, text=True)
        if line.stdout.readline() != "ready\n":
            raise SystemExit("slow_link has not started")
        out_of(["ip", "link", "set", "link1", "netns", pid])
        return None


def train_mlx(mlx, folder, place, epochs, *settings):
    environment = {**os.environ, "MLX_THREADS": "1" if place.other else "2",
                   "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ranks, launch = ([], MPIRUN + place.hosts + ["--np", "2", "-x", "MLX_THREADS"]) if place.other else (["--ranks", "2"], [])
    began = time.perf_counter()
    done = json.loads(out_of(place.first + launch + [mlx, "train", "-c", "c.toml", *ranks, "--force", "--json",
                                                     "--set", f"train.epochs={epochs}", *settings], cwd=folder, env=environment))
    wall = time.perf_counter() - began
    points = json.loads(out_of([mlx, "show", f"run:{done['run']}", "--metric", "train/loss", "--json"], cwd=folder))["points"]
    summary = done["summary"]
    return {"losses": [point["value"] for point in points], "seconds": summary["seconds"], "wall": wall,
            "sent": summary["communication"]["bytes_sent"] / summary["steps"],
            "waiting": summary["communication"]["waiting"] / summary["seconds"]}


def on_torch(folder, place, *arguments):
    """Both ranks of ddp_peer.py; what the first one answers."""
    with socket.socket() as free:
        free.bind(("", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "MASTER_ADDR": place.address, "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
                   "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    began = time.perf_counter()
    ranks = []
    for rank, where in enumerate((place.first, place.second)):
        interface = "lo" if not place.other else f"link{rank}"
        with open(f"{folder}/peer{rank}.log", "w") as log:
            ranks.append(subprocess.Popen(where + [sys.executable, f"{HERE}/ddp_peer.py", folder, str(rank), *arguments],
                                          env={**environment, "GLOO_SOCKET_IFNAME": interface}, stdout=log, stderr=log))
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        raise RuntimeError(open(f"{folder}/peer{0 if codes[0] else 1}.log").read()[-2000:])
    return {**json.load(open(f"{folder}/answer.json")), "wall": time.perf_counter() - began}


def write_config(folder, case):
    data, model, optimizer, batch, _ = CASES[case]
    with open(f"{folder}/c.toml", "w") as out:
        out.write(f'[data]\ndataset = "data/{data}"\nleaks = "100%"\n[model]\nname = "m"\n')
        out.writelines(f"{key} = {train.toml_value(value)}\n" for key, value in model.items())
        out.write(f'[train]\nepochs = 1\nbatch = {batch}\nschedule = "constant"\ncheckpoint_every = 1000\n')
        out.writelines(f"{key} = {train.toml_value(value)}\n" for key, value in optimizer.items())
    with open(f"{folder}/case.json", "w") as out:
        json.dump({"data": data, "model": model, "optimizer": optimizer, "batch": batch}, out)


def write_initial_weights(mlx, folder):
    """By a training with a learning rate that changes no weight, in the order of the graph."""
    out_of([mlx, "train", "-c", "c.toml", "--force", "--set", "train.learning_rate=1e-30", "--set", "model.name=start"], cwd=folder)
    layers = json.loads(out_of([mlx, "show", "start", "--json"], cwd=folder))["layers"]
    names = list(dict.fromkeys(tensor for layer in layers for tensor in layer["tensors"]))
    content = subprocess.run([mlx, "cat", "start:weights.safetensors"], cwd=folder, check=True, capture_output=True).stdout
    with open(f"{folder}/init.safetensors", "wb") as out:
        out.write(content)
    with open(f"{folder}/init.json", "w") as out:
        json.dump([name for name in names if not name.endswith(("running_mean", "running_var"))], out)


def smoothed(losses):
    return [statistics.mean(losses[max(0, i + 1 - SMOOTH): i + 1]) for i in range(len(losses))]


def steps_to(loss, run):
    """None if it was not reached."""
    return next((i + 1 for i, value in enumerate(smoothed(run["losses"])) if i + 1 >= SMOOTH and value <= loss), None)


def seconds_to(loss, run):
    steps = steps_to(loss, run)
    return steps and run["seconds"] * steps / len(run["losses"])


def best_mode(folder, place, case, options):
    """Of PyTorch's modes, the one with most steps a second."""
    images = CASES[case][0] == "images"
    modes = ["eager"] + ([] if options.no_compile else ["compile"])
    modes += [f"{mode} channels-last" for mode in modes if images and "mlp" not in case]
    rates = {}
    for mode in modes:
        try:
            run = on_torch(folder, place, "train", mode, "1")
            rates[mode] = len(run["losses"]) / run["seconds"]
        except RuntimeError as error:
            print(f"  torch {mode}: {str(error).strip().splitlines()[-1]}")
    print("  torch: " + ", ".join(f"{mode} {rate:.1f} steps/s" for mode, rate in rates.items()), flush=True)
    return max(rates, key=rates.get)


def show(name, runs, case, loss):
    rate = statistics.median(len(run["losses"]) / run["seconds"] for run in runs)
    seconds = statistics.median(seconds_to(loss, run) for run in runs)
    wall = statistics.median(run["wall"] for run in runs)
    print(f"  {name:{14 if ',' in name else 6}} {rate:8.2f} steps/s {rate * CASES[case][3]:9.0f} samples/s  loss {loss:.3f} after {steps_to(loss, runs[0])} "
          f"steps, {seconds:7.2f} s  whole command {wall:6.1f} s", end="")
    print(f"  {runs[0]['sent'] / 1e6:.2f} MB sent a step, {statistics.median(run['waiting'] for run in runs):.0%} of the time waiting"
          if "sent" in runs[0] else "")
    return seconds, wall


def bench(case, mlx, folder, place, options):
    epochs = CASES[case][4] if not options.inside else 1
    write_config(folder, case)
    write_initial_weights(mlx, folder)
    print(f"{case}, batch {CASES[case][3]}, {epochs} epochs", flush=True)
    known = f"{folder}/mode {case}"
    mode = open(known).read() if os.path.exists(known) else best_mode(folder, place, case, options)
    with open(known, "w") as out:
        out.write(mode)
    wire = ["--wire", options.wire] if options.wire != "f32" else []
    peer = {"mlx": lambda: train_mlx(mlx, folder, place, epochs, *wire), "torch": lambda: on_torch(folder, place, "train", mode, str(epochs))}
    for every in options.sync_every or []:
        peer[f"mlx, every {every}"] = lambda every=every: train_mlx(mlx, folder, place, epochs * options.local_epochs, *wire, "--sync-every", str(every))
    runs = {name: [] for name in peer}
    # Not timed. PyTorch's channels-last convolutions round more coarsely: after one step their loss is 1e-3 from that in
    # f64, of which mlx's and the eager mode's are within 1e-6.
    ours, theirs = train_mlx(mlx, folder, place, epochs), on_torch(folder, place, "train", "eager", str(epochs))
    apart = [abs(a - b) / abs(b) for a, b in zip(ours["losses"], theirs["losses"])]
    print("  losses apart: the first by %.1e, the next by %s; all by at most %.1e" %
          (apart[0], " ".join(f"{each:.0e}" for each in apart[1:6]), max(apart)))
    if max(apart[:2]) > 1e-4 or len(ours["losses"]) != len(theirs["losses"]):
        raise SystemExit("they do not train the same")
    loss = smoothed(theirs["losses"])[len(theirs["losses"]) * 4 // 5]
    for _ in range(options.rounds):
        for name, one in peer.items():
            run = one()
            runs[name].append(run)
            reached = seconds_to(loss, run)
            print(f"    {name}: {len(run['losses']) / run['seconds']:.2f} steps/s, " + (f"{reached:.2f} s to the loss" if reached else "not to the loss"), flush=True)
    shown = {}
    for name, of in runs.items():
        if any(steps_to(loss, run) is None for run in of):
            print(f"  {name}: {loss:.3f} was not reached; the last loss is {smoothed(of[0]['losses'])[-1]:.3f}")
        else:
            shown[name] = show(name, of, case, loss)
    for name, (mine, wall) in shown.items():
        if name == "torch" or "torch" not in shown:
            continue
        other, other_wall = shown["torch"]
        single = sorted(seconds_to(loss, b) / seconds_to(loss, a) for a, b in zip(runs[name], runs["torch"]))
        print(f"  {name}: to the loss {other / mine:.2f}x as fast as torch {mode} (single rounds {single[0]:.2f} to {single[-1]:.2f}), "
              f"whole command {other_wall / wall:.2f}x  load {os.getloadavg()[0]:.1f}", flush=True)


def sums(folder, place, bench_sum, options):
    """A sum of one array over both ranks, by itself."""
    out_of(["mpicc", "-O2", "-o", f"{folder}/mpi_all_reduce", f"{HERE}/mpi_all_reduce.c"])
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for size in (1, 25):
        rounds = "31" if not options.inside else "9" if size == 1 else "3"
        count = str(size << 18)
        medians = {"mlx": [], "MPI_Allreduce": [], "Gloo": []}
        for _ in range(options.rounds):
            for name, program in (("mlx", bench_sum), ("MPI_Allreduce", f"{folder}/mpi_all_reduce")):
                medians[name].append(float(out_of(place.first + MPIRUN + place.hosts + ["--np", "2", program, count, rounds], env=environment)))
            if TORCH:
                medians["Gloo"].append(on_torch(folder, place, "sum", count, rounds)["seconds"])
        mine = statistics.median(medians["mlx"])
        print(f"sum of {size:2} MiB: mlx {1e3 * mine:.3f} ms" + "".join(
            f", {name} {1e3 * statistics.median(seconds):.3f} ms ({statistics.median(seconds) / mine:.2f}x)"
            for name, seconds in medians.items() if name != "mlx" and seconds), flush=True)


def on_network(name, mlx, bench_sum, folder, options):
    print(f"\n{name}", flush=True)
    place = Place(folder, NETWORKS[name])
    try:
        if not options.no_sums:
            sums(folder, place, bench_sum, options)
        for case in [] if options.sums_only else options.only or CASES:
            bench(case, mlx, folder, place, options)
    finally:
        if place.other:
            place.other.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx", type=os.path.abspath)
    parser.add_argument("bench_sum", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(CASES))
    parser.add_argument("--network", action="append", choices=list(NETWORKS))
    parser.add_argument("--no-compile", action="store_true", help="PyTorch's eager modes only")
    parser.add_argument("--no-sums", action="store_true")
    parser.add_argument("--sums-only", action="store_true", help="also without PyTorch")
    parser.add_argument("--sync-every", action="append", type=int, metavar="H")
    parser.add_argument("--wire", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--local-epochs", type=int, default=2)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return on_network(options.network[0], options.mlx, options.bench_sum, options.inside, options)
    if not TORCH and not options.sums_only:
        raise SystemExit("this Python has no PyTorch")
    torch = importlib.metadata.version("torch") if TORCH else "none"
    print(f"mlx and PyTorch DDP on two ranks  {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}  {' '.join(sys.argv)}")
    print(f"{os.cpu_count()} cores, torch {torch}, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        make_data(folder)
        out_of([options.mlx, "init"], cwd=folder)
        out_of([options.mlx, "add", "data/images", "data/text"], cwd=folder)
        for name in options.network or NETWORKS:
            if NETWORKS[name] is None:
                on_network(name, options.mlx, options.bench_sum, folder, options)
                continue
            spaces = ["unshare", "--net", "--uts", "--mount", "--pid", "--mount-proc", "--kill-child", "--fork"]
            if subprocess.run(spaces + ["true"], capture_output=True).returncode != 0:
                print(f"\n{name}: left out, network namespaces are not permitted here (root makes them)")
                continue
            given = [word for case in options.only or [] for word in ("--only", case)]
            given += ["--no-compile"] * options.no_compile + ["--no-sums"] * options.no_sums + ["--sums-only"] * options.sums_only
            given += [word for every in options.sync_every or [] for word in ("--sync-every", str(every))]
            given += ["--wire", options.wire, "--local-epochs", str(options.local_epochs)]
            subprocess.run(spaces + [sys.executable, __file__, options.mlx, options.bench_sum, "--inside", folder, "--network", name,
                                     "--rounds", str(options.rounds), *given], check=True)


if __name__ == "__main__":
    main()
