"""Asks `mlx serve` with the PyPI package `tritonclient`, in JSON and in bytes.

usage: triton_check.py MLX

A small model of images and one of rows are trained and served. The package must be able to ask for health, metadata and the
index of models, and whichever of inputs and outputs are bytes, its answers must be the same. Exits with 1 where they are
not. It needs: pip install tritonclient[http]. No test of ctest runs it: the package is no dependency.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy
import tritonclient.http as triton

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = """[data]
dataset = "data/{data}"
{keys}
[model]
name = "{name}"
family = "mlp"
hidden = [8]
[train]
epochs = 1
batch = 20
"""
found = []


def check(name, holds, shown=""):
    print(("ok    " if holds else "WRONG ") + name + ("" if holds else f": {shown}"))
    if not holds:
        found.append(name)


def tensor(name, datatype, values, binary):
    out = triton.InferInput(name, list(values.shape), datatype)
    out.set_data_from_numpy(values, binary_data=binary)
    return out


def texts(values):
    return [text if isinstance(text, str) else text.decode() for text in values]


def images(client):
    names = [output["name"] for output in client.get_model_metadata("clf")["outputs"]]
    pixels = numpy.arange(72, dtype=numpy.uint8).reshape(2, 6, 6, 1)
    answers = []
    for datatype, values in (("UINT8", pixels), ("FP32", pixels.astype(numpy.float32))):
        for sent in (True, False):
            for asked in (True, False, None):
                outputs = None if asked is None else [triton.InferRequestedOutput(name, binary_data=asked) for name in names]
                answer = client.infer("clf", [tensor("images", datatype, values, sent)], outputs=outputs)
                answers.append((answer.as_numpy("probabilities").tolist(), texts(answer.as_numpy("label")), answer.as_numpy("class").tolist()))
    check("images", all(answer == answers[0] for answer in answers) and len(answers[0][1]) == 2, answers)
    try:
        client.infer("clf", [tensor("images", "UINT8", pixels[:, :5].copy(), True)])
        check("errors", False)
    except triton.InferenceServerException as error:
        check("errors", "expected [N,6,6,1]" in str(error), error)


def rows(client):
    answers = []
    for sent in (True, False):
        inputs = [tensor("rooms", "FP64", numpy.array([2.5, 7.0]), sent), tensor("city", "BYTES", numpy.array(["Köln", "Ulm"], dtype=object), sent)]
        answers.append(client.infer("price", inputs).as_numpy("price").tolist())
    check("rows", answers[0] == answers[1] and len(answers[0]) == 2, answers)


def main():
    mlx = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *words: subprocess.run(words, cwd=folder, check=True, capture_output=True)
        run(mlx, "init")
        run(sys.executable, os.path.join(HERE, "..", "cli", "bars.py"), "5", "120", "40", "6", "3")
        os.makedirs(f"{folder}/data/offers")
        lines = [f"{i % 7},{['Köln', 'Ulm', 'Bonn'][i % 3]},{i % 7 * 50 + i % 3}" for i in range(120)]
        open(f"{folder}/data/offers/train.csv", "w").write("\n".join(["rooms,city,price", *lines]) + "\n")
        run(mlx, "add", "data/bars", "data/offers")
        run(mlx, "commit", "-m", "data")
        for name, data, keys in (("clf", "bars", ""), ("price", "offers", 'target = "price"')):
            open(f"{folder}/{name}.toml", "w").write(CONFIG.format(name=name, data=data, keys=keys))
            run(mlx, "train", "-c", f"{name}.toml")
        server = subprocess.Popen([mlx, "serve", "clf", "price", "--listen", "127.0.0.1:0", "--json"], cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        try:
            text = ""
            while not text.endswith("\n}\n"):
                text += server.stdout.readline()
            client = triton.InferenceServerClient(json.loads(text)["url"].removeprefix("http://"))
            check("health", client.is_server_live() and client.is_server_ready() and client.is_model_ready("clf"))
            check("index", [model["name"] for model in client.get_model_repository_index()] == ["clf", "price"])
            images(client)
            rows(client)
        finally:
            server.terminate()
            server.wait()
    return 1 if found else 0


sys.exit(main())
