#!/usr/bin/env python3
"""Whether training waits for its data: the rate of `mlx train` against the same training on one batch over and over.

usage: data_rate.py MLX BENCH_SYNTHETIC [--rounds N] [--only NAME]

For each model family, on data of its kind: class folders of JPEGs (decoded, cropped and flipped; a second time with the
decoded photos beyond the memory that may keep them), IDX images, CSV rows, text, conversations. Both are run in turns,
and the medians compared. Needs Pillow and numpy.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile

import numpy
from PIL import Image


def make_photos(folder):
    """Smooth noise, so that a JPEG of it has the bytes of a photo."""
    made = numpy.random.default_rng(1)
    for i in range(512):
        small = made.integers(0, 256, (24, 32, 3), dtype=numpy.uint8)
        image = Image.fromarray(small).resize((400, 300), Image.Resampling.BICUBIC)
        name = os.path.join(folder, "train", f"class{i % 4}", f"{i}.jpg")
        os.makedirs(os.path.dirname(name), exist_ok=True)
        image.save(name, quality=85)


def make_idx(folder):
    made = numpy.random.default_rng(2)
    with open(os.path.join(folder, "train-images.idx3-ubyte"), "wb") as images:
        images.write(b"\0\0\x08\x03" + numpy.array([20000, 28, 28], ">i4").tobytes() + made.bytes(20000 * 28 * 28))
    with open(os.path.join(folder, "train-labels.idx1-ubyte"), "wb") as labels:
        labels.write(b"\0\0\x08\x01" + numpy.array([20000], ">i4").tobytes() + bytes(i % 10 for i in range(20000)))


def make_rows(folder):
    draw = random.Random(3)
    with open(os.path.join(folder, "train.csv"), "w") as out:
        out.write(",".join(f"c{i}" for i in range(40)) + ",kind,y\n")
        for _ in range(100000):
            out.write(",".join(f"{draw.gauss(0, 1):.4f}" for _ in range(40)) + f",{draw.choice('abcdef')},{draw.choice('uvw')}\n")


def words(draw, count):
    return " ".join(draw.choice(["mill", "stone", "river", "wheel", "corn", "bread"]) for _ in range(count))


def make_text(folder):
    with open(os.path.join(folder, "train.txt"), "w") as out:
        out.write(words(random.Random(4), 200000))


def make_chat(folder):
    draw = random.Random(5)
    with open(os.path.join(folder, "train.jsonl"), "w") as out:
        for _ in range(5000):
            turns = [{"role": role, "content": words(draw, 20)} for role in ("user", "assistant")]
            out.write(json.dumps({"messages": turns}) + "\n")


PHOTOS = "size = [128, 128]\nresize = \"crop\"\n[data.augment]\ncrop = 0.08\nflip = true\n"
# name: (data, keys of [data], keys of [model], keys of [train], options)
CASES = {
    "mlp on IDX images": ("idx", "", 'family = "mlp"\nhidden = [256, 128]\n', "epochs = 4\nbatch = 128\n", []),
    "cnn on IDX images": ("idx", "", 'family = "cnn"\nlayers = [{ conv = 8 }, { pool = "max", size = 2 }, { flatten = true }, '
                          "{ dense = 32 }]\n", "epochs = 1\nbatch = 128\n", []),
    "resnet on photos": ("photos", PHOTOS, 'family = "resnet"\ndepth = 20\n', "epochs = 2\nbatch = 32\n", []),
    "resnet on photos, decoded anew": ("photos", PHOTOS, 'family = "resnet"\ndepth = 20\n', "epochs = 2\nbatch = 32\n",
                                       ["--memory", "MEMORY"]),
    "mobilenet_v2 on photos": ("photos", PHOTOS, 'family = "mobilenet_v2"\n', "epochs = 2\nbatch = 32\n", []),
    "mlp on rows": ("rows", 'target = "y"\n', 'family = "mlp"\nhidden = [256, 256]\n', "epochs = 4\nbatch = 256\n", []),
    "gpt2 on text": ("text", "", 'family = "gpt2"\nlayers = 2\nwidth = 128\nheads = 4\ncontext = 128\n', "epochs = 1\nbatch = 8\n", []),
    "llama on conversations": ("chat", "", 'family = "llama"\nlayers = 2\nwidth = 128\nheads = 4\nkv_heads = 2\ncontext = 128\n',
                               "epochs = 1\nbatch = 8\n", []),
}
MAKERS = {"photos": make_photos, "idx": make_idx, "rows": make_rows, "text": make_text, "chat": make_chat}


def out_of(project, *command):
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def rate_of_training(mlx, project, options):
    summary = json.loads(out_of(project, mlx, "train", "-c", "c.toml", "--force", "--json", *options))["summary"]
    return next(value for name, value in summary.items() if name.endswith("_per_second"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mlx")
    parser.add_argument("bench_synthetic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="the cases whose name contains it")
    options = parser.parse_args()
    mlx, synthetic = os.path.abspath(options.mlx), os.path.abspath(options.bench_synthetic)
    with tempfile.TemporaryDirectory() as project:
        out_of(project, mlx, "init")
        for name, make in MAKERS.items():
            folder = os.path.join(project, "data", name)
            os.makedirs(folder)
            make(folder)
            out_of(project, mlx, "add", f"data/{name}")
        for name, (data, keys, model, train, more) in CASES.items():
            if options.only and options.only not in name:
                continue
            with open(os.path.join(project, "c.toml"), "w") as config:
                config.write(f'[data]\ndataset = "data/{data}"\nleaks = "100%"\n{keys}[model]\nname = "m"\n{model}[train]\n{train}')
            if "MEMORY" in more:  # just enough for the training, and not for the photos
                need = json.loads(out_of(project, mlx, "train", "-c", "c.toml", "--force", "--json"))["summary"]["memory"]
                more = ["--memory", f"{(need['peak'] - need['process'] + (80 << 20)) >> 20}MiB"]
            rates = {"data": [], "synthetic": []}
            for _ in range(options.rounds):
                rates["data"].append(rate_of_training(mlx, project, more))
                rates["synthetic"].append(float(out_of(project, synthetic, project, os.path.join(project, "c.toml"))))
            of = {which: statistics.median(values) for which, values in rates.items()}
            print(f"{name:32} {of['data']:10.0f}/s  {of['synthetic']:10.0f}/s on one batch  {100 * of['data'] / of['synthetic']:4.0f} %"
                  + (f"  ({' '.join(more)})" if more else ""), flush=True)


if __name__ == "__main__":
    main()
