#!/usr/bin/env python3
"""Writes the npz and npy files that test_arrays.cpp reads. Needs numpy. Run in this folder."""
import numpy as np

x = np.arange(6, dtype=np.float32).reshape(3, 2) / 4
y = np.array([7, -8, 9], dtype=np.int64)
words = np.array(["a", "b", "c"])
np.savez("stored.npz", x=x, y=y, words=words)
np.savez_compressed("deflated.npz", x=np.asfortranarray(x), y=y, images=np.zeros((3, 4, 4), np.uint8))
np.savez("unequal.npz", x=x, y=y[:2])
np.savez("words.npz", words=words)
# More than one block of 8 MiB. All columns are equal and shorter than the window of deflate, so that they pack well.
rows = 3_000
np.savez_compressed("long.npz", x=np.asfortranarray(np.outer(np.arange(rows), np.ones(400)).astype(np.float64)))
np.save("fortran.npy", np.asfortranarray(np.arange(12, dtype=np.int16).reshape(4, 3)))
