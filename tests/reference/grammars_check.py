"""Compares texts that mlx writes under a grammar with what other programs make of that grammar.

usage: grammars_check.py MLX [--count N] [--seed N]

A small model of bytes is trained, so that its texts are nearly random. Under random JSON schemas its texts must be JSON that
the PyPI package `jsonschema` finds valid, with formats; under random grammars in GBNF, which are also written as regular
expressions, Python's `re` must match them whole. Exits with 1 where one is not. It needs: pip install jsonschema[format].
No test of ctest runs it: the package is no dependency.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import jsonschema

CONFIG = """[data]
dataset = "data/text"
tokenizer = "bytes"
[model]
name = "lm"
family = "llama"
layers = 1
width = 16
heads = 2
context = 128
[train]
epochs = 1
batch = 4
"""
WORDS = ["a", "b", "name", 'q"', "\u00e4\u4e16", "x y", "back\\slash", ""]


def random_value(rng):
    return rng.choice([1, -3, 2.5, True, None, "text", WORDS[3], [1, "a"], {"k": None}])


def random_string(rng):
    kind = rng.randrange(5)
    if kind == 0:
        least = rng.randrange(4)
        return {"type": "string", "minLength": least, "maxLength": least + rng.randrange(5)}
    if kind == 1:
        return {"type": "string", "pattern": rng.choice(
            ["^[a-c]+$", "^\\d{2}-\\w?$", "^(ab|c\\.d)*$", "^[^a-z\\s]{1,3}$", "^x|y$", "^\"\\\\n$", "^.{0,4}$"])}
    if kind == 2:
        return {"type": "string", "format": rng.choice(["date", "date-time", "time", "uuid", "ipv4"])}
    if kind == 3:
        return {"enum": rng.sample(WORDS, 3)}
    return {"type": "string", "maxLength": 6}


def random_number(rng):
    low = rng.choice([-120, -7, 0, 3, 99, 1000])
    schema = {"type": rng.choice(["integer", "number"])}
    if rng.random() < 0.6:
        schema["minimum"] = low
    if rng.random() < 0.6:
        schema["maximum"] = low + rng.choice([0, 1, 9, 250])
    if schema["type"] == "integer" and rng.random() < 0.3:
        schema = {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": low + rng.choice([2, 40])}
    return schema


def random_schema(rng, depth):
    kinds = ["string", "number", "other", "const"] + (["object", "array", "any of", "one of"] * 2 if depth > 0 else [])
    kind = rng.choice(kinds)
    deeper = lambda: random_schema(rng, depth - 1)
    if kind == "string":
        return random_string(rng)
    if kind == "number":
        return random_number(rng)
    if kind == "const":
        return rng.choice([{"const": random_value(rng)}, {"enum": [random_value(rng) for _ in range(3)]}])
    if kind == "object":
        names = rng.sample(WORDS, rng.randrange(5))
        schema = {"type": "object", "properties": {name: deeper() for name in names},
                  "required": [name for name in names if rng.random() < 0.5]}
        if rng.random() < 0.4:
            schema["additionalProperties"] = rng.choice([True, False, random_number(rng)])
        return schema
    if kind == "array":
        schema = {"type": "array", "items": deeper(), "minItems": rng.randrange(3)}
        schema["maxItems"] = schema["minItems"] + rng.randrange(3)
        if rng.random() < 0.4:
            schema["prefixItems"] = [deeper() for _ in range(rng.randrange(1, 4))]
        return schema
    if kind == "any of":
        return {"anyOf": [deeper() for _ in range(rng.randrange(1, 4))]}
    if kind == "one of":
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": word}, "v": deeper()}, "required": ["kind"]}
                          for word in rng.sample(WORDS, 2)] + [{"type": "null"}]}
    return {"type": rng.choice(["boolean", "null", ["boolean", "integer"]])}


def with_recursion(rng, schema):
    return {"$defs": {"leaf": schema, "list": {"anyOf": [
        {"$ref": "#/$defs/leaf"}, {"type": "array", "items": {"$ref": "#/$defs/list"}, "maxItems": 2}]}},
        "type": "object", "properties": {"list": {"$ref": "#/$defs/list"}}, "required": ["list"]}


def random_gbnf(rng, depth):
    """An expression of GBNF, and the regular expression of the same texts."""
    kind = rng.randrange(6 if depth > 0 else 3)
    if kind == 0:
        text = rng.choice(["ab", "x", "\u00e4", "[", "*", "\\", '"', "\n"])
        return json.dumps(text, ensure_ascii=False), re.escape(text)
    if kind == 1:
        both = rng.choice(["[a-c]", "[^a-z\\n]", "[0-9_]", "[\\u00e4-\\u00f6]", "[^\"\\\\\\x00-\\x1f]", "[-x]"])
        return both, both
    if kind == 2:
        return ".", "(?s:.)"
    parts = [random_gbnf(rng, depth - 1) for _ in range(rng.randrange(1, 4))]
    if kind == 3:
        return "(" + " | ".join(p[0] for p in parts) + ")", "(?:" + "|".join(p[1] for p in parts) + ")"
    if kind == 4:
        return "(" + " ".join(p[0] for p in parts) + ")", "(?:" + "".join(p[1] for p in parts) + ")"
    times = rng.choice(["?", "{2}", "{1,3}", "{0,2}"])
    return f"({parts[0][0]}){times}", f"(?:{parts[0][1]}){times}"


class Project:
    def __init__(self, binary, folder):
        self.binary, self.folder = os.path.abspath(binary), folder
        os.makedirs(os.path.join(folder, "data/text"))
        with open(os.path.join(folder, "data/text/train.txt"), "w", encoding="utf-8") as out:
            out.write('{"a": [1, "x"]}, "text" ' * 40)
        with open(os.path.join(folder, "lm.toml"), "w", encoding="utf-8") as out:
            out.write(CONFIG)
        for arguments in (["init"], ["add", "data/text"], ["train", "-c", "lm.toml"]):
            self.run(*arguments)

    def run(self, *arguments):
        done = subprocess.run([self.binary, *arguments], cwd=self.folder, capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"mlx {' '.join(arguments)}: {done.stderr.decode()}")
        return done.stdout

    def texts(self, option, path, seed):
        out = self.run("predict", "lm", "-p", "x", option, path, "--max-tokens", "3000", "--temperature", "2.5", "--count", "3",
                       "--seed", str(seed), "--json", "-q")
        return json.loads(out)["texts"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mlx")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    checker, good, cut, bad, refused = jsonschema.Draft202012Validator.FORMAT_CHECKER, 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        project = Project(options.mlx, folder)
        path = os.path.join(folder, "grammar")
        for number in range(options.count):
            gbnf = number % 3 == 0
            if gbnf:
                grammar, expression = random_gbnf(rng, 3)
                source = f"root ::= {grammar}"
            else:
                schema = random_schema(rng, 3)
                schema = with_recursion(rng, schema) if rng.random() < 0.3 else schema
                source = json.dumps(schema, ensure_ascii=False)
                jsonschema.Draft202012Validator.check_schema(schema)
            with open(path, "w", encoding="utf-8") as out:
                out.write(source)
            try:
                texts = project.texts("--grammar" if gbnf else "--schema", path, number)
            except RuntimeError as error:
                refused += 1
                print("refused:", source, error)
                continue
            for text in texts:
                if text["end"] == "length":
                    cut += 1
                    continue
                try:
                    if gbnf:
                        assert re.fullmatch(expression, text["text"]), "no match of " + expression
                    else:
                        jsonschema.validate(json.loads(text["text"]), schema, jsonschema.Draft202012Validator, format_checker=checker)
                    good += 1
                except (AssertionError, ValueError, jsonschema.ValidationError) as error:
                    bad += 1
                    print("bad:", source, repr(text["text"]), str(error).splitlines()[0])
    print(f"{good} texts valid, {bad} not, {cut} cut; {refused} grammars refused")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
