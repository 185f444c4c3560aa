"""outside.py rows|images|text FOLDER: writes a model as another program would hand it over: a graph of primitive operations
in model.json, and its weights in weights.safetensors."""
import json
import os
import random
import struct
import sys

kind, folder = sys.argv[1:]
random.seed(3)
values, nodes, tensors = [], [], {}


def value(name, dims, role=None):
    values.append({"name": name, "dims": dims} | ({"role": role} if role else {}))
    return name


def weights(name, dims, scale):
    count = 1
    for size in dims:
        count *= size
    tensors[name] = (dims, [random.gauss(0, scale) for _ in range(count)])
    return value(name, dims, "parameter")


def node(op, inputs, dims, name, **attrs):
    nodes.append({"op": op, "name": name, "inputs": inputs, "outputs": [value(name + "_out", dims)]} | ({"attrs": attrs} if attrs else {}))
    return name + "_out"


# Products are matmul and a sum; the names of nodes are those of their weights, as they may be.
if kind == "rows":
    x = value("features", ["N", 2], "input")
    x = node("matmul", [x, weights("fc1", [2, 24], 0.7)], ["N", 24], "fc1")
    x = node("arithmetic", [x, weights("fc1.b", [1, 24], 0.5)], ["N", 24], "fc1.sum", arithmetic="add")
    x = node("relu", [x], ["N", 24], "act")
    x = node("matmul", [x, weights("fc2", [2, 24], 0.2)], ["N", 2], "fc2", transpose_b=True)
    out = node("arithmetic", [weights("fc2.b", [2], 0), x], ["N", 2], "fc2.sum", arithmetic="add")
    number = {"mean": 0.0, "std": 0.6}
    preprocessing = {"features": [{"name": "x"} | number, {"name": "y"} | number], "missing": "error", "target": "class",
                     "targets": [{"name": "where", "values": ["in", "out"]}]}
    labels, taken = ["in", "out"], [-1, 2]
elif kind == "text":
    x = node("gather", [weights("table", [256, 16], 0.1), value("ids", ["N", "T"], "input")], ["N", "T", 16], "look")
    values[1]["dtype"] = "s32"
    out = node("matmul", [x, weights("head", [16, 256], 0.1)], ["N", "T", 256], "head")
    values.insert(0, values.pop(1))
    preprocessing, labels, taken = None, [], [-1, -1]
else:
    x = value("images", ["N", 6, 6, 1], "input")
    x = node("reshape", [x], ["N", 6, 6], "rows")
    x = node("transpose", [x], ["N", 6, 6], "turned", axes=[0, 2, 1])
    x = node("matmul", [x, weights("mix", [6, 12], 0.5)], ["N", 6, 12], "mix")
    x = node("arithmetic", [x, weights("mix.b", [12], 0.1)], ["N", 6, 12], "mix.sum", arithmetic="add")
    x = node("relu", [x], ["N", 6, 12], "act")
    x = node("reduce", [x], ["N", 12], "most", axes=[1], reduction="max")
    x = node("arithmetic", [x, weights("scale", [12], 0.3)], ["N", 12], "scaled", arithmetic="mul")
    out = node("matmul", [x, weights("head", [12, 2], 0.4)], ["N", 2], "head")
    preprocessing = {"height": 6, "width": 6, "channels": 1, "mean": [0.5], "std": [0.25]}
    labels, taken = ["upright", "level"], [-1, 6, 6, 1]

model = {"format": "mlx-model", "version": 2, "family": "imported", "config": {"context": 16} if kind == "text" else {}, "data": {}, "precision": "f32",
         "graph": {"symbols": ["N", "T"], "inputs": [values[0]["name"]], "outputs": [out], "values": values, "nodes": nodes},
         "signature": {"inputs": [{"name": values[0]["name"], "datatype": "INT32" if kind == "text" else "FP32", "shape": taken}],
                       "outputs": [{"name": out, "datatype": "FP32", "shape": [-1, -1, 256] if kind == "text" else [-1, 2]}]},
         "preprocessing": preprocessing, "labels": labels}
os.makedirs(folder)
with open(f"{folder}/model.json", "w") as f:
    json.dump(model, f)
header, data = {}, b""
for name, (dims, numbers) in sorted(tensors.items()):
    packed = struct.pack(f"<{len(numbers)}f", *numbers)
    header[name] = {"dtype": "F32", "shape": dims, "data_offsets": [len(data), len(data) + len(packed)]}
    data += packed
text = json.dumps(header).encode()
with open(f"{folder}/weights.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
