#!/usr/bin/env python3
"""Asks the same convolution nets, with the same weights and images, of mlx, ONNX Runtime and TorchScript, and prints
images a second and mlx's ratio to the better of the two, in f32 and int8, on one thread and two.

  tests/bench/infer.py BUILD_FOLDER [--only MODEL]... [--rounds N] [--seconds S] [--json FILE]

BUILD_FOLDER has mlx and bench_infer (`ninja -C build/release mlx bench_infer`). Needs torch, onnx, onnxruntime and numpy
(a virtual environment: pip install torch onnx onnxruntime numpy). The nets are trained for a few steps on noise, so that
their statistics are those of a training. Every contender gets normalised images in its own layout and gives logits; those
of f32 must agree within 1e-3 of the largest. TorchScript is frozen and optimized for inference, contiguous and
channels-last, whichever is faster; ONNX Runtime has all its optimizations on, and its int8 is static, of QDQ form, with
weights by channel, calibrated on the images that are asked. Contenders take turns, each in a process that stays; what
counts is the median over rounds of the ratio within a round, so that a busy machine slows all alike. Exit 1 where mlx is
slower than wanted: 1.0x in f32, 1.2x in int8.
"""
import argparse
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# name: [model], (H, W, C), classes (at most 256: labels are bytes), images at once
CASES = {
    "resnet-20": ({"family": "resnet", "depth": 20}, (32, 32, 3), 10, 128),
    "mobilenet_v2": ({"family": "mobilenet_v2", "dropout": 0}, (96, 96, 3), 256, 32),
}
WANTED = {"f32": 1.0, "int8": 1.2}


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"infer.py: {' '.join(command)}: {done.stdout}")


def write_idx(path, array):
    with open(path, "wb") as out:
        out.write(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def make_models(folder, mlx, case):
    """FOLDER/f32 and FOLDER/int8 as `mlx checkout --to` writes them, FOLDER/images.bin, normalised."""
    import numpy as np

    model, shape, classes, batch = CASES[case]
    rng = np.random.default_rng(1)
    run(["git", "init", "-q"], folder)
    os.makedirs(os.path.join(folder, "noise"))
    write_idx(os.path.join(folder, "noise/train-images-idx4-ubyte"), rng.integers(0, 256, (128, *shape), dtype=np.uint8))
    labels = np.arange(128) % classes
    labels[-1] = classes - 1
    write_idx(os.path.join(folder, "noise/train-labels-idx1-ubyte"), labels.astype(np.uint8))
    with open(os.path.join(folder, "train.toml"), "w") as out:
        out.write('[data]\ndataset = "noise"\ntrain = "train"\n[model]\nname = "net"\n')
        out.writelines(f"{key} = {json.dumps(value)}\n" for key, value in model.items())
        out.write("[train]\nepochs = 1\nbatch = 32\n")
    run([mlx, "init"], folder)
    run([mlx, "add", "noise"], folder)
    run([mlx, "train", "-c", "train.toml"], folder)
    run([mlx, "quantize", "net@v1", "--to", "int8", "--calibrate", "noise", "--split", "train"], folder)
    run([mlx, "checkout", "net@v1", "--to", "f32"], folder)
    run([mlx, "checkout", "net@v2", "--to", "int8"], folder)
    rng.standard_normal((batch, *shape), dtype=np.float32).tofile(os.path.join(folder, "images.bin"))


def arrays_of(folder):
    """Parameters and running statistics of FOLDER/f32, [(name, array)…] in the order of the graph."""
    import numpy as np

    with open(os.path.join(folder, "f32/weights.safetensors"), "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    values = json.load(open(os.path.join(folder, "f32/model.json")))["graph"]["values"]
    out = {"parameter": [], "state": []}
    for value in values:
        if value.get("role") not in out:
            continue
        begin, end = header[value["name"]]["data_offsets"]
        array = np.frombuffer(raw[8 + size + begin : 8 + size + end], np.float32).reshape(header[value["name"]]["shape"])
        out[value["role"]].append((value["name"], array.copy()))
    return out["parameter"], out["state"]


def module_of(folder, case):
    import torch

    sys.path.insert(0, HERE)
    import train_models

    model, shape, classes, _ = CASES[case]
    parameters, states = arrays_of(folder)
    module = train_models.make(model, [shape[2], shape[0], shape[1]], classes)
    train_models.load(module, parameters)
    buffers = [b for name, b in module.named_buffers() if not name.endswith("num_batches_tracked")]
    assert len(buffers) == len(states), "running statistics differ in number"
    with torch.no_grad():
        for buffer, (_, array) in zip(buffers, states):
            buffer.copy_(torch.from_numpy(array))
    return module.eval()


def images_of(folder, case):
    """[batch, C, H, W] as numpy has it, contiguous."""
    import numpy as np

    _, shape, _, batch = CASES[case]
    images = np.fromfile(os.path.join(folder, "images.bin"), np.float32).reshape(batch, *shape)
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def torchscript(folder, case, precision, threads):
    import torch

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    images = torch.from_numpy(images_of(folder, case))
    contenders = []
    for layout in [torch.contiguous_format, torch.channels_last]:
        x = images.contiguous(memory_format=layout)
        module = module_of(folder, case).to(memory_format=layout)
        with torch.inference_mode():
            frozen = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(module, x)))
            for _ in range(3):
                frozen(x)
            started = time.perf_counter()
            for _ in range(3):
                frozen(x)
        contenders.append((time.perf_counter() - started, frozen, x))
    _, frozen, x = min(contenders, key=lambda c: c[0])

    def ask():
        with torch.inference_mode():
            return frozen(x).numpy()

    return ask


def onnxruntime(folder, case, precision, threads):
    import onnxruntime as ort

    images = images_of(folder, case)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(os.path.join(folder, f"{precision}.onnx"), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"images": images})[0]


def write_onnx(folder, case):
    """FOLDER/f32.onnx and FOLDER/int8.onnx."""
    import onnxruntime.quantization as q
    import torch
    from onnxruntime.quantization.shape_inference import quant_pre_process

    images = images_of(folder, case)
    plain, ready, small = (os.path.join(folder, f"{name}.onnx") for name in ["f32", "ready", "int8"])
    torch.onnx.export(module_of(folder, case), (torch.from_numpy(images),), plain, input_names=["images"],
                      output_names=["logits"], dynamo=False)
    quant_pre_process(plain, ready)

    class Images(q.CalibrationDataReader):
        def __init__(self):
            self.left = [{"images": images}]

        def get_next(self):
            return self.left.pop() if self.left else None

    q.quantize_static(ready, small, Images(), quant_format=q.QuantFormat.QDQ, per_channel=True,
                      activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)


PEERS = {"onnxruntime": onnxruntime, "torchscript": torchscript}


def serve_peer(args):
    """In a process of its own: for each line with a number of seconds, the median seconds of a pass, as JSON."""
    ask = PEERS[args.peer](args.folder, args.case, args.precision, args.threads)
    logits = ask()
    logits.tofile(os.path.join(args.folder, f"{args.peer}-{args.precision}.bin"))
    print("ready", flush=True)
    for line in sys.stdin:
        times, until = [], time.perf_counter() + float(line)
        while time.perf_counter() < until:
            started = time.perf_counter()
            ask()
            times.append(time.perf_counter() - started)
        print(json.dumps(statistics.median(times)), flush=True)


class Peer:
    def __init__(self, name, folder, case, precision, threads):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "-", "--peer", name, "--folder", folder, "--case", case, "--precision", precision,
             "--threads", str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while (line := self.process.stdout.readline()) != "ready\n":
            if not line:
                sys.exit(f"infer.py: {name} does not run {case} in {precision}")

    def seconds(self, budget):
        self.process.stdin.write(f"{budget}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def mlx_seconds(bench, folder, precision, threads, budget):
    command = [bench, os.path.join(folder, precision), os.path.join(folder, "images.bin"), str(budget), "--threads",
               str(threads), "--logits", os.path.join(folder, f"mlx-{precision}.bin")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"infer.py: {' '.join(command)}: {done.stderr}")
    return statistics.median(json.loads(done.stdout)["seconds"])


def agree(folder):
    import numpy as np

    mine = np.fromfile(os.path.join(folder, "mlx-f32.bin"), np.float32)
    for name in PEERS:
        theirs = np.fromfile(os.path.join(folder, f"{name}-f32.bin"), np.float32)
        apart = float(np.abs(mine - theirs).max() / np.abs(theirs).max())
        if not apart < 1e-3:
            sys.exit(f"infer.py: logits of f32 are {apart:.1e} from {name}'s")


def measure(folder, bench, case, precision, threads, args):
    batch = CASES[case][3]
    peers = {name: Peer(name, folder, case, precision, threads) for name in (PEERS if precision == "f32" else ["onnxruntime"])}
    rounds = []
    for _ in range(args.rounds):
        times = {"mlx": mlx_seconds(bench, folder, precision, threads, args.seconds)}
        times.update((name, peer.seconds(args.seconds)) for name, peer in peers.items())
        rounds.append(times)
    for peer in peers.values():
        peer.close()
    if precision == "f32":
        agree(folder)
    row = {"model": case, "precision": precision, "threads": threads}
    row.update((name, batch / statistics.median(r[name] for r in rounds)) for name in rounds[0])
    row["ratio"] = statistics.median(min(s for name, s in r.items() if name != "mlx") / r["mlx"] for r in rounds)
    row["met"] = row["ratio"] >= WANTED[precision]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="the folder with mlx and bench_infer")
    parser.add_argument("--only", action="append", choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each contender in a round")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--json", help="writes the table's rows there")
    for hidden in ["--peer", "--folder", "--case", "--precision"]:
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        args.threads = int(args.threads)
        return serve_peer(args)
    import onnxruntime as ort
    import torch

    cpu = next((line.split(": ")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    print(f"inference benchmark  {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}  {' '.join(sys.argv)}")
    print(f"machine: {cpu}, Python {platform.python_version()}, onnxruntime {ort.__version__}, torch {torch.__version__}, "
          f"load {os.getloadavg()[0]:.2f}")
    print(f"{'images/s':14} {'':5} threads {'mlx':>10} {'onnxruntime':>12} {'torchscript':>12} {'ratio':>7}")
    rows = []
    for case in args.only or CASES:
        with tempfile.TemporaryDirectory(prefix="mlx-bench-infer.") as folder:
            make_models(folder, os.path.abspath(os.path.join(args.build, "mlx")), case)
            write_onnx(folder, case)
            for precision in WANTED:
                for threads in map(int, args.threads.split(",")):
                    row = measure(folder, os.path.join(args.build, "bench_infer"), case, precision, threads, args)
                    rows.append(row)
                    cells = [f"{row[name]:{width}.0f}" if name in row else " " * width
                             for name, width in [("mlx", 10), ("onnxruntime", 12), ("torchscript", 12)]]
                    print(f"{case:14} {precision:5} {threads:7} {' '.join(cells)} {row['ratio']:6.2f}x  "
                          f"{'ok' if row['met'] else 'MISSED'}", flush=True)
    print(f"load at the end: {os.getloadavg()[0]:.2f}")
    if args.json:
        with open(args.json, "w") as out:
            json.dump(rows, out, indent=1)
    sys.exit(0 if all(row["met"] for row in rows) else 1)


if __name__ == "__main__":
    main()
