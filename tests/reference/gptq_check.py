#!/usr/bin/env python3
"""GPTQ as its paper has it (Frantar et al. 2023, algorithm 1, with static scales of groups and the inputs in the order of
their squares), in numpy and in double: the integers that tests/compress/test_gptq.cpp expects of mlx.

  tests/reference/gptq_check.py [--write]

Prints whether tests/compress/gptq_reference.h has them; writes it with --write. Inverse and factor are numpy's, of H as
it is, where mlx takes a way without the inverse. Needs numpy.
"""
import os
import sys

import numpy as np

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "compress", "gptq_reference.h")
OUTPUTS, INPUTS, TOKENS, GROUP = 6, 192, 160, 32
F = np.float32


def noise(i):
    """A number from -0.5 on, below 0.5, which f32 holds exactly."""
    return F((i * 2654435761 % 2**32 >> 8) / 2**24 - 0.5)


def weights():
    return np.array([[noise(7 + n * INPUTS + k) for k in range(INPUTS)] for n in range(OUTPUTS)], F)


def activations():
    """Each input is like the one before, and every eleventh is large."""
    x = np.zeros((TOKENS, INPUTS), F)
    for t in range(TOKENS):
        last = F(0)
        for k in range(INPUTS):
            last = F(F(0.75) * last) + noise(100003 + t * INPUTS + k)
            x[t, k] = last * F(8 if k % 11 == 0 else 1)
    return x


def scale_of(w, importance, bits):
    largest = w[np.argmax(np.abs(w))]
    if bits == 8:
        return F(np.float16(F(abs(largest) / F(127))))
    best, scale = 0.0, 0.0
    for i in range(-8, 9):
        inverse = F(F(F(-8) + F(F(0.1) * F(i))) / largest)
        q = np.rint(np.clip(w * inverse, F(-8), F(7))).astype(np.float64)
        counted = q * importance.astype(np.float64)
        product, square = np.sum(w.astype(np.float64) * counted), np.sum(q * counted)
        if square > 0 and product * product / square > best:
            best, scale = product * product / square, product / square
    return F(np.float16(F(scale)))


def gptq(w, x, bits):
    x = x.astype(np.float64)
    h = x.T @ x
    squares = np.diag(h).copy()
    importance = ((squares + 0.01 * squares.mean()) / len(x)).astype(F)
    order = np.argsort(-squares, kind="stable")
    h = h[order][:, order] + 0.01 * squares.mean() * np.eye(INPUTS)
    upper = np.linalg.cholesky(np.linalg.inv(h)).T
    integers = np.zeros((OUTPUTS, INPUTS), np.int64)
    for n in range(OUTPUTS):
        scales = [scale_of(w[n, g:g + GROUP], importance[g:g + GROUP], bits) for g in range(0, INPUTS, GROUP)]
        left = w[n].astype(np.float64)[order]
        for at, k in enumerate(order):
            scale = np.float64(scales[k // GROUP])
            q = np.clip(np.rint(left[at] / scale), -8 if bits == 4 else -127, 7 if bits == 4 else 127)
            integers[n, k] = q
            left[at + 1:] -= (left[at] - scale * q) / upper[at, at] * upper[at, at + 1:]
    return integers


def header():
    out = ["// What GPTQ gives in numpy: written by tests/reference/gptq_check.py.", "#pragma once", "", "#include <cstdint>",
           "", "namespace mlx::test {", "", f"inline constexpr int kReferenceOutputs = {OUTPUTS}, kReferenceInputs = {INPUTS}, "
           f"kReferenceTokens = {TOKENS}, kReferenceGroup = {GROUP};", "// clang-format off"]
    for bits in (4, 8):
        out.append(f"inline constexpr std::int8_t kReference{bits}[] = {{")
        numbers = [str(q) for q in gptq(weights(), activations(), bits).ravel()]
        out += ["    " + ", ".join(numbers[i:i + 24]) + "," for i in range(0, len(numbers), 24)]
        out.append("};")
    return "\n".join(out + ["// clang-format on", "", "}  // namespace mlx::test", ""])


text = header()
if "--write" in sys.argv:
    with open(FILE, "w") as out:
        out.write(text)
with open(FILE) as stored:
    same = stored.read() == text
print("the integers are the same" if same else "tests/compress/gptq_reference.h has other integers")
sys.exit(0 if same else 1)
