#!/usr/bin/env python3
"""Trains the same model on the same data in mlx and in PyTorch and prints ratios of samples a second and of peak memory.

  tests/bench/train.py build/release/bench_train [--only CASE]... [--quick] [--portable] [--threads N] [--json FILE]

Needs torch, numpy and a C++ compiler for torch.compile (a virtual environment: pip install torch numpy). Both sides start
from mlx's initial weights and see the same batches. The losses of f32 must agree within 1e-3 relative over the first 20
steps, or where PyTorch's own f32 is further off its f64, be no further off that than three times as much. PyTorch runs
eager and compiled, in f32 and in bf16 autocast, images also channels-last; its best of each precision counts. The floor
of a step is the sum over operations of max(FLOPs / oneDNN's rate at that shape, bytes / bandwidth), both measured
(train_floor.h); what reaches 85 % of it is as good as the target. Every run is a process of its own: peak memory is the
process's. Times are medians of steps, behind steps that warm up. Exit 1 where a target of DESIGN 9 was missed; --json is
written then too, with one row for each case and precision, but not where something could not be measured.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CNN = [{"conv": 32, "norm": "batch"}, {"conv": 32, "norm": "batch"}, {"pool": "max"}, {"conv": 64, "norm": "batch"},
       {"conv": 64, "norm": "batch"}, {"pool": "max"}, {"flatten": True}, {"dense": 128}]
SGD = {"optimizer": "sgd", "learning_rate": 0.01, "momentum": 0.9, "nesterov": True}
ADAMW = {"optimizer": "adamw", "learning_rate": 3e-4, "weight_decay": 0.1, "beta2": 0.95}
# name: model, batch, one input's shape (H, W, C; or the context), classes, optimizer, steps that are timed, target
CASES = {
    "mlp": ({"family": "mlp", "hidden": [512, 512]}, 128, [28, 28, 1], 10, SGD, 200, 3.0),
    "demo cnn": ({"family": "cnn", "layers": CNN}, 128, [28, 28, 1], 10, SGD, 20, 1.3),
    "resnet-20": ({"family": "resnet", "depth": 20}, 128, [32, 32, 3], 10, SGD, 12, 1.3),
    "mobilenet_v2": ({"family": "mobilenet_v2", "dropout": 0}, 32, [96, 96, 3], 1000, SGD, 10, 1.3),
    "resnet-50": ({"family": "resnet", "depth": 50}, 16, [224, 224, 3], 1000, SGD, 4, 1.3),
    "gpt2 6x384": ({"family": "gpt2", "layers": 6, "width": 384, "heads": 6, "context": 256}, 32, [256], 256, ADAMW, 4, 1.3),
    "gpt2 124M": ({"family": "gpt2", "layers": 12, "width": 768, "heads": 12, "context": 1024}, 4, [256], 50257, ADAMW, 4, 1.3),
}


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml_value(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def write_case(folder, case, steps):
    """train.toml, inputs and targets of all batches, and what the runs must know."""
    import numpy as np

    model, batch, shape, classes, optimizer, _, _ = CASES[case]
    with open(os.path.join(folder, "train.toml"), "w") as out:
        out.write('[data]\ndataset = "none"\n[model]\nname = "bench"\n')
        out.writelines(f"{key} = {toml_value(value)}\n" for key, value in model.items())
        out.write(f"[train]\nepochs = 1\nbatch = {batch}\nschedule = \"constant\"\n")
        out.writelines(f"{key} = {toml_value(value)}\n" for key, value in optimizer.items())
    rng = np.random.default_rng(1)
    distinct = min(steps, 4)
    if len(shape) == 1:
        text = rng.integers(0, classes, (distinct, batch, shape[0] + 1), dtype=np.int32)
        inputs, targets = text[:, :, :-1], text[:, :, 1:]
    else:
        targets = rng.integers(0, classes, (distinct, batch), dtype=np.int32)
        inputs = rng.standard_normal((distinct, batch, *shape), dtype=np.float32)
        inputs += targets[:, :, None, None, None] % 7 * np.float32(0.1)
    np.ascontiguousarray(inputs).tofile(os.path.join(folder, "inputs.bin"))
    np.ascontiguousarray(targets).tofile(os.path.join(folder, "targets.bin"))
    with open(os.path.join(folder, "case.json"), "w") as out:
        json.dump({"batch": batch, "shape": shape, "classes": classes, "steps": steps, "distinct": distinct}, out)


def peak_mib():
    """Of this process alone: ru_maxrss begins with the peak of the one that started it."""
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024


def run_torch(folder, case, mode, threads, device):
    """In a process of its own: prints losses, seconds a step and peak MiB as JSON."""
    import numpy as np
    import torch

    sys.path.insert(0, HERE)
    import train_models

    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False  # f32 is f32 on either side
    model, batch, shape, classes, optimizer, _, _ = CASES[case]
    what = json.load(open(os.path.join(folder, "case.json")))
    precision, compiled, last = ("bf16" in mode), ("compile" in mode), ("channels-last" in mode)
    text = len(shape) == 1
    module = train_models.make(model, shape if text else [shape[2], shape[0], shape[1]], classes)
    raw = np.fromfile(os.path.join(folder, "init.bin"), np.float32)
    arrays, at = [], 0
    for parameter in json.load(open(os.path.join(folder, "init.json"))):
        count = int(np.prod(parameter["dims"]))
        arrays.append((parameter["name"], raw[at : at + count].reshape(parameter["dims"])))
        at += count
    train_models.load(module, arrays)
    module = module.to(device)
    del raw, arrays
    parameters = train_models.in_order(module)
    if optimizer["optimizer"] == "sgd":
        updater = torch.optim.SGD(parameters, lr=optimizer["learning_rate"], momentum=optimizer["momentum"], nesterov=True)
    else:
        groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": optimizer["weight_decay"]},
                  {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]
        updater = torch.optim.AdamW(groups, lr=optimizer["learning_rate"], betas=(0.9, optimizer["beta2"]), fused=True)
    if last:
        module = module.to(memory_format=torch.channels_last)
    if "f64" in mode:
        module = module.double()
    run = torch.compile(module) if compiled else module
    kind = np.int32 if text else np.float32
    inputs = np.fromfile(os.path.join(folder, "inputs.bin"), kind).reshape(what["distinct"], batch, *shape)
    targets = np.fromfile(os.path.join(folder, "targets.bin"), np.int32).reshape(what["distinct"], batch, *(shape if text else []))
    batches = []
    for x, y in zip(inputs, targets):
        x = torch.from_numpy(x.copy())
        x = x.long() if text else x.permute(0, 3, 1, 2).contiguous(
            memory_format=torch.channels_last if last else torch.contiguous_format)
        x = x.double() if "f64" in mode and not text else x
        batches.append((x, torch.from_numpy(y.copy()).long()))  # copied to a GPU step by step, as mlx does
    losses, seconds = [], []
    for step in range(what["steps"]):
        started = time.perf_counter()
        x, y = (part.to(device, non_blocking=True) for part in batches[step % len(batches)])
        with torch.autocast(device, torch.bfloat16, enabled=precision):
            loss = torch.nn.functional.cross_entropy(run(x).flatten(0, -2), y.flatten())
        updater.zero_grad(set_to_none=True)
        loss.backward()
        updater.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - started)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else peak_mib()
    print(json.dumps({"losses": losses, "seconds": seconds, "peak_mib": peak}))


def run_json(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def rate(result, batch, warm):
    return batch / statistics.median(result["seconds"][warm:])


def furthest(ours, theirs, count):
    """The largest relative difference of the first losses."""
    pairs = list(zip(ours, theirs))[:count]
    return max(abs(a - b) / abs(b) for a, b in pairs)


def same_losses(ours, theirs, exact):
    """Prints whether they are, and asks PyTorch's f64 (a function) only where they are not."""
    count = min(20, len(ours))
    apart = furthest(ours, theirs, count)
    if apart < 1e-3:
        print(f"  ok     losses of {count} steps within 1e-3: {apart:.1e}")
        return True
    truth = exact()
    mine, peers = furthest(ours, truth, count), furthest(theirs, truth, count)
    good = mine < max(1e-3, 3 * peers)
    print(f"  {'ok    ' if good else 'MISSED'} losses of {count} steps: {mine:.1e} from f64's, torch's f32 {peers:.1e}")
    return good


def bench(case, mlx, args, rows):
    """Whether the targets are met; appends to `rows` what was measured."""
    model, batch, shape, _, _, timed, target = CASES[case]
    warm = 3
    steps = max(20, warm + timed) if timed > 4 and not args.quick else warm + (2 if args.quick else timed)
    ok = same = True
    with tempfile.TemporaryDirectory(prefix="mlx-bench-train.") as folder:
        write_case(folder, case, steps)
        ours = {}
        for precision in ["f32", "bf16"]:
            command = [mlx, folder, "--threads", str(args.threads), "--precision", precision, "--device", args.device]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode == 0:
                ours[precision] = json.loads(done.stdout.strip().splitlines()[-1])
            elif precision == "f32":
                sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")

        def peer(mode):
            return run_json([sys.executable, __file__, mlx, "--peer", case, "--mode", mode, "--folder", folder,
                             "--threads", str(args.threads), "--device", args.device])

        modes = ["eager", "compile"] + (["eager channels-last", "compile channels-last"] if len(shape) == 3 and model["family"] != "mlp" else [])
        print(f"\n{case}, batch {batch}")
        for precision, mine in ours.items():
            print(f"  mlx {precision:32} {rate(mine, batch, warm):10.1f} samples/s  peak {mine['peak_mib']:7.0f} MiB")
        for precision in ["f32", "bf16"]:
            best, best_mode, least = None, None, None
            for mode in modes:
                name = f"{precision} {mode}"
                theirs = peer(name)
                print(f"  torch {name:30} {rate(theirs, batch, warm):10.1f} samples/s  peak {theirs['peak_mib']:7.0f} MiB", flush=True)
                if best is None or rate(theirs, batch, warm) > rate(best, batch, warm):
                    best, best_mode = theirs, mode
                least = min(least or theirs["peak_mib"], theirs["peak_mib"])
                if name == "f32 eager":
                    same = same_losses(ours["f32"]["losses"], theirs["losses"], lambda: peer("f64 eager")["losses"])
            mine = ours.get(precision)
            if mine is None:
                print(f"  mlx has no {precision} for this")
                continue
            ratio = rate(mine, batch, warm) / rate(best, batch, warm)
            fits = mine["peak_mib"] <= least
            share = mine["floor_seconds"] * rate(mine, batch, warm) / batch
            fast = ratio >= target or share >= 0.85
            ok &= fast and fits and same
            rows.append({"case": case, "precision": precision, "same_losses": same, "ratio": ratio, "floor_share": share or None,
                         "mlx_rate": rate(mine, batch, warm), "torch_rate": rate(best, batch, warm), "torch_mode": best_mode,
                         "mlx_mib": mine["peak_mib"], "torch_mib": least})
            floor = f", {100 * share:.0f} % of the floor ({1e3 * mine['floor_seconds']:.2f} ms a step)" if share else ""
            print(f"  {'ok    ' if fast else 'MISSED'} {precision}: {ratio:.2f}x the best of torch{floor}; wanted {target}x or 85 %")
            print(f"  {'ok    ' if fits else 'MISSED'} {precision}: {mine['peak_mib'] / least:.2f} of torch's least memory")
    return ok


def bench_portable(case, mlx, args, rows):
    """mlx alone: what the same bits from avx2 and avx512 cost (--numerics portable), in f32, three times each in turn."""
    batch, steps = CASES[case][1], 6
    with tempfile.TemporaryDirectory(prefix="mlx-bench-train.") as folder:
        write_case(folder, case, steps)
        times = {"native": [], "portable": []}
        for _ in range(3):
            for numerics, seconds in times.items():
                seconds += run_json([mlx, folder, "--threads", str(args.threads), "--numerics", numerics])["seconds"][2:]
    native, portable = (statistics.median(seconds) for seconds in times.values())
    good = portable <= 1.5 * native
    print(f"{'ok    ' if good else 'MISSED'} {case:14} native {batch / native:9.1f} samples/s, portable {batch / portable:9.1f}: "
          f"{portable / native:.2f}x the time, wanted at most 1.5x", flush=True)
    rows.append({"case": case, "precision": "f32", "native_rate": batch / native, "portable_rate": batch / portable})
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx", help="the executable bench_train")
    parser.add_argument("--only", action="append", choices=list(CASES))
    parser.add_argument("--quick", action="store_true", help="two steps each")
    parser.add_argument("--portable", action="store_true", help="portable numerics against native ones, without PyTorch")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--json", metavar="FILE", help="what was measured, for other programs")
    for hidden in ["--peer", "--mode", "--folder"]:
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return run_torch(args.folder, args.peer, args.mode, args.threads, args.device)
    import torch

    cpu = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    print(f"training benchmark  {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}  {' '.join(sys.argv)}")
    if args.device == "cuda":
        cpu = torch.cuda.get_device_name()
    print(f"machine: {cpu}, {args.threads} threads, Python {platform.python_version()}, torch {torch.__version__}, "
          f"load {os.getloadavg()[0]:.2f}")
    measure = bench_portable if args.portable else bench
    rows = []
    good = [measure(case, args.mlx, args, rows) for case in args.only or CASES]
    if args.json:
        with open(args.json, "w") as out:
            json.dump({"torch": torch.__version__, "threads": args.threads, "rows": rows}, out, indent=1)
    print(f"\nload at the end: {os.getloadavg()[0]:.2f}")
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
