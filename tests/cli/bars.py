"""bars.py SEED TRAIN TEST SIZE PERIOD: writes data/bars, IDX images of upright (0) and level (1) bars with noise."""
import os
import random
import struct
import sys

seed, train, test, size, period = map(int, sys.argv[1:])
random.seed(seed)
os.makedirs("data/bars")
for name, count in (("train", train), ("t10k", test)):
    pixels, labels = bytearray(), bytearray()
    for i in range(count):
        label = i % 2
        labels.append(label)
        for y in range(size):
            for x in range(size):
                pixels.append((150 if (x, y)[label] % period < 2 else 10) + random.randrange(90))
    open(f"data/bars/{name}-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, count, size, size) + pixels)
    open(f"data/bars/{name}-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, count) + labels)
