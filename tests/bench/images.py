#!/usr/bin/env python3
"""Makes JPEGs of 500x375 and reads them in batches of 224x224 on two cores: mlx (bench_images) against torchvision with a DataLoader
of two workers, one after the other, in turns. `--simd PYTHON` adds torchvision on Pillow-SIMD (another python that has it).

    tests/bench/images.py build/release/bench_images [--photos 2000] [--simd PYTHON]

The python that runs it needs numpy, Pillow, torch and torchvision.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

# Random resized crop and flip; the same with RandAugment and colour jitter; scaled to cover the size, the middle, flip.
CHANGES = ("crop", "colours", "middle")


def write_photos(folder, count):
    """Noise with the spectrum of photographs (amplitude 1/f), its own in each file, with some 85 KB at quality 90."""
    random = np.random.default_rng(1)
    height, width = 375, 500
    y, x = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    amplitude = 1 / np.maximum(np.hypot(y, x), 1 / width) ** 1.2
    for i in range(count):
        waves = amplitude * np.exp(2j * np.pi * random.random((4, height, width // 2 + 1)))
        planes = np.fft.irfft2(waves, (height, width))
        planes /= planes.std(axis=(1, 2), keepdims=True)
        pixels = 120 + 45 * planes[0][..., None] + 12 * np.moveaxis(planes[1:], 0, -1)
        where = os.path.join(folder, f"class{i % 10}")
        os.makedirs(where, exist_ok=True)
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(os.path.join(where, f"{i}.jpg"), quality=90)


def torchvision_seconds(folder, change):
    import torch
    import torchvision
    from torchvision import transforms as t
    torch.set_num_threads(1)
    crop = [t.Resize(224), t.CenterCrop(224)] if change == "middle" else [t.RandomResizedCrop(224)]
    colours = [t.RandAugment(2, 9), t.ColorJitter(0.4, 0.4, 0.4, 0.1)] if change == "colours" else []
    normalize = t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    images = torchvision.datasets.ImageFolder(folder, t.Compose([*crop, t.RandomHorizontalFlip(), *colours, t.ToTensor(), normalize]))
    loader = torch.utils.data.DataLoader(images, batch_size=64, shuffle=True, num_workers=2, persistent_workers=True)
    best = {"seconds": float("inf"), "processor": float("inf")}
    for _ in range(3):
        begin, before = time.perf_counter(), processor_seconds()
        assert sum(len(labels) for _, labels in loader) == len(images)
        taken = {"seconds": time.perf_counter() - begin, "processor": processor_seconds() - before}
        best = {key: min(best[key], taken[key]) for key in best}
    return best


def processor_seconds():
    """Of this process and its children, which may live on."""
    import multiprocessing
    ticks = 0
    for process in [os.getpid(), *(child.pid for child in multiprocessing.active_children())]:
        with open(f"/proc/{process}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def told(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("--photos", type=int, default=2000)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--simd")
    parser.add_argument("--loader", nargs=2, metavar=("FOLDER", "CHANGE"), help="measure torchvision alone, in this python")
    options = parser.parse_args()
    if options.loader:
        print(json.dumps(torchvision_seconds(*options.loader)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_photos(folder, options.photos)
        for change in CHANGES:
            loaders = {"mlx": [options.program, folder, change, "3"]}
            for name, python in (("torchvision", sys.executable), ("on Pillow-SIMD", options.simd)):
                if python:
                    loaders[name] = [python, __file__, "--loader", folder, change]
            best = {}
            for _ in range(options.times):
                for name, command in loaders.items():
                    taken = told(command)
                    best[name] = {key: min(taken[key], best.get(name, taken)[key]) for key in ("seconds", "processor")}
            print(f"{options.photos} JPEGs of 500x375, {change}:")
            for name, taken in best.items():
                seconds, processor = taken["seconds"], taken["processor"]
                print(f"  {name:14} {options.photos / seconds:6.0f} photos/s ({seconds / best['mlx']['seconds']:.2f}x mlx's time), "
                      f"processor {1000 * processor / options.photos:.2f} ms each ({processor / best['mlx']['processor']:.2f}x)")


if __name__ == "__main__":
    main()
