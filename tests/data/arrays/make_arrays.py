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

# Tensors as the safetensors package writes them: the largest types first. Needs safetensors.
from safetensors import TensorSpec, serialize_file

numbers = np.array([[0.5, -2], [1, np.nan], [3, 4]])
bfloat16 = (numbers[:, 0].astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
tensors = {
    "x": ("float32", numbers.astype(np.float32)),
    "wide": ("float64", numbers[:, 1]),
    "half": ("float16", numbers.astype(np.float16)[:, 0]),
    "brain": ("bfloat16", bfloat16),
    "y": ("int64", y),
    "yes": ("bool", np.array([True, False, True])),
    "far": ("uint64", np.array([1 << 63, 1, 2], dtype=np.uint64)),
    "images": ("uint8", np.zeros((3, 2, 2), np.uint8)),
    "tiny": ("float8_e4m3fn", np.zeros(3, np.uint8)),
}
tensors = {name: (dtype, np.ascontiguousarray(array)) for name, (dtype, array) in tensors.items()}  # stays alive
serialize_file({name: TensorSpec(dtype=dtype, shape=list(array.shape), data_ptr=array.ctypes.data, data_len=array.nbytes)
                for name, (dtype, array) in tensors.items()}, "tensors.safetensors", {"made": "by hand"})
