"""Compares multiple choice (`mlx eval MODEL --data FILE.jsonl`) with the PyPI package `lm_eval`.

usage: choices_check.py MLX [--questions N]

A small language model with random weights and a byte-level tokenizer, made by `transformers` and `tokenizers`, gets questions of
several lengths. lm-evaluation-harness computes the log likelihood of each choice, and acc and acc_norm as its tasks of multiple
choice do; the numbers of right answers must be equal. It needs: pip install lm_eval torch transformers tokenizers. No test of ctest
runs it: the packages are no dependencies.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy
import tokenizers
import torch
import transformers
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

WORDS = ["the", "river", "mill", "stone", "turns", "slowly", "under", "old", "bridge", "wheel", "café", "данные", "42", "is it?", "no,"]


def make(folder):
    config = transformers.LlamaConfig(vocab_size=400, hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=128)
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, weight.shape[-1] ** -0.5 * 1.5)
    model.save_pretrained(folder)
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([" ".join(WORDS)] * 50, vocab_size=399, special_tokens=["<|end|>"], show_progress=False)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"}, open(os.path.join(folder, "tokenizer_config.json"), "w"))


def questions(count):
    draw = random.Random(3)
    say = lambda low, high: " ".join(draw.choice(WORDS) for _ in range(draw.randint(low, high)))
    for i in range(count):
        choices = [say(1, 6) for _ in range(draw.randint(2, 5))]
        yield {"question": f"Question: {say(1, 20)}\nAnswer:" + ("" if i % 5 else " "), "choices": choices, "answer": draw.randrange(len(choices))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx")
    parser.add_argument("--questions", type=int, default=100)
    options = parser.parse_args()
    mlx = os.path.abspath(options.mlx)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as place:
        folder, file = os.path.join(place, "theirs"), os.path.join(place, "questions.jsonl")
        make(folder)
        asked = list(questions(options.questions))
        open(file, "w").write("".join(json.dumps(question) + "\n" for question in asked))
        for command in (["init"], ["import", "model", folder, "--name", "lm"]):
            subprocess.run([mlx, "-C", place, *command], check=True, capture_output=True)
        answer = subprocess.run([mlx, "-C", place, "eval", "lm", "--data", "questions.jsonl", "--json"], check=True, capture_output=True).stdout
        ours = json.loads(answer)
        harness = HFLM(pretrained=folder, dtype="float32", device="cpu", batch_size=1)
        pairs = [(question["question"], " " + choice) for question in asked for choice in question["choices"]]
        requests = [Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=i) for i, pair in enumerate(pairs)]
        sums = [likelihood for likelihood, _ in harness.loglikelihood(requests, disable_tqdm=True)]
    right = right_by_length = at = 0
    for question in asked:
        own = sums[at:at + len(question["choices"])]
        at += len(own)
        right += int(numpy.argmax(own) == question["answer"])
        right_by_length += int(numpy.argmax(numpy.array(own) / [float(len(choice)) for choice in question["choices"]]) == question["answer"])
    print(f"{len(asked)} questions: mlx {ours['correct']} and {ours['correct_norm']} right, lm_eval {right} and {right_by_length}")
    sys.exit(0 if (ours["correct"], ours["correct_norm"]) == (right, right_by_length) else 1)


if __name__ == "__main__":
    main()
