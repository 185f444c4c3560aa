#!/usr/bin/env python3
"""Makes tests/nn/gradients.json: the loss and all gradients of one small model of each family, by PyTorch in float64.

  tests/nn/make_gradients.py build/release/bench_train > tests/nn/gradients.json

Weights, inputs and targets come from a formula that test_gradient_fixtures.cpp has too, so that the file holds no tensors:
of each gradient its norm, and its dot products with four vectors of the same formula. "float32" is how far PyTorch's own
gradients in float32 lie from these: what rounding does to a network of this depth. bench_train names the parameters.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "bench"))
import train_models  # noqa: E402
from train import toml_value  # noqa: E402

FAMILIES = [
    ({"family": "mlp", "hidden": [16, 12]}, [4, 4, 2], 5, 6),
    ({"family": "cnn", "layers": [{"conv": 6, "norm": "batch"}, {"pool": "max"}, {"conv": 8}, {"flatten": True},
                                  {"dense": 10, "norm": "batch"}]}, [8, 8, 3], 5, 6),
    ({"family": "resnet", "depth": 20, "width": 0.25}, [8, 8, 3], 5, 6),
    ({"family": "resnet", "depth": 50, "stem": "cifar", "width": 0.0625}, [16, 16, 3], 5, 8),
    ({"family": "mobilenet_v2", "width": 0.1, "halvings": 1, "dropout": 0}, [8, 8, 3], 5, 6),
    ({"family": "gpt2", "layers": 2, "width": 16, "heads": 4, "context": 12}, [9], 11, 3),
    ({"family": "llama", "layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "hidden": 24, "context": 12}, [9], 11, 3),
]
INPUTS, TARGETS, PROBES = 1000, 1001, 2000  # streams of the formula; parameters have those from 0 on


def bits(stream, count):
    """A hash of (stream, element) as 32 bits."""
    mask = np.uint64(0xFFFFFFFF)
    x = (np.arange(count, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(stream * 2246822519 + 374761393)) & mask
    x ^= x >> np.uint64(15)
    x = (x * np.uint64(2246822519)) & mask
    x ^= x >> np.uint64(13)
    x = (x * np.uint64(3266489917)) & mask
    return x ^ (x >> np.uint64(16))


def uniform(stream, count):
    """In [-1, 1), with 24 bits: exact in f32."""
    return (bits(stream, count) >> np.uint64(8)).astype(np.float64) / 2.0**23 - 1.0


def parameter(stream, name, dims):
    u = uniform(stream, math.prod(dims))
    if name.endswith(".gamma"):
        return (1 + u / 4).reshape(dims)
    if len(dims) == 1:
        return (u / 4).reshape(dims)
    fan_in = math.prod(dims[1:])
    return (u * 2.0 ** math.floor(math.log2(math.sqrt(3 / fan_in)))).reshape(dims)


def named_parameters(bench_train, model, shape, classes, batch):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "train.toml"), "w") as out:
            out.write(config_text(model))
        with open(os.path.join(folder, "case.json"), "w") as out:
            json.dump({"batch": batch, "shape": shape, "classes": classes, "steps": 0, "distinct": 1}, out)
        for name in ["inputs.bin", "targets.bin"]:
            open(os.path.join(folder, name), "w").close()
        subprocess.run([bench_train, folder], check=True, stdout=subprocess.DEVNULL)
        return json.load(open(os.path.join(folder, "init.json")))


def config_text(model):
    lines = "".join(f"{key} = {toml_value(value)}\n" for key, value in model.items())
    return f'[data]\ndataset = "none"\n[model]\nname = "m"\n{lines}[train]\nepochs = 1\n'


def rows_of(module, x, y, parameters, weights):
    """The loss, and of each gradient what the file holds of it, in the module's precision."""
    train_models.load(module, weights)
    module.train()
    loss = nn.functional.cross_entropy(module(x).flatten(0, -2), y)
    loss.backward()
    rows = []
    for p, mine in zip(parameters, train_models.in_order(module)):
        gradient = mine.grad.double()
        gradient = (gradient.permute(0, 2, 3, 1) if gradient.dim() == 4 else gradient).reshape(-1).numpy()
        dots = [float(gradient @ uniform(PROBES + k, gradient.size)) for k in range(4)]
        rows.append({"name": p["name"], "norm": float(np.linalg.norm(gradient)), "dots": dots})
    return loss.item(), rows


def distance(wanted, other):
    """As in test_gradient_fixtures.cpp."""
    differences = [wanted["norm"] - other["norm"]] + [a - b for a, b in zip(wanted["dots"], other["dots"])]
    return max(map(abs, differences)) / max(wanted["norm"], 1e-2)


def fixture(bench_train, model, shape, classes, batch):
    parameters = named_parameters(bench_train, model, shape, classes, batch)
    text = len(shape) == 1
    weights = [(p["name"], parameter(i, p["name"], p["dims"])) for i, p in enumerate(parameters)]
    count = batch * math.prod(shape)
    if text:
        x = torch.from_numpy((bits(INPUTS, count) % classes).astype(np.int64).reshape(batch, *shape))
        y = torch.from_numpy((bits(TARGETS, count) % classes).astype(np.int64))
    else:
        x = torch.from_numpy(uniform(INPUTS, count).reshape(batch, *shape)).permute(0, 3, 1, 2)
        y = torch.from_numpy((bits(TARGETS, batch) % classes).astype(np.int64))

    def module():
        return train_models.make(model, shape if text else [shape[2], shape[0], shape[1]], classes)

    loss, rows = rows_of(module().double(), x, y, parameters, weights)
    _, single = rows_of(module(), x if text else x.float(), y, parameters, weights)
    return {"model": config_text(model), "shape": shape, "classes": classes, "batch": batch, "loss": loss,
            "float32": max(map(distance, rows, single)), "parameters": rows}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.manual_seed(0)
    print(json.dumps({"made by": f"tests/nn/make_gradients.py, torch {torch.__version__}, float64",
                      "families": [fixture(sys.argv[1], *family) for family in FAMILIES]}, indent=1))


if __name__ == "__main__":
    main()
