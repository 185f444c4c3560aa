#!/usr/bin/env python3
"""Reads a CSV file of numbers on one thread: mlx (rows by a schema) against pandas, pyarrow and polars, one after the other, on one core.

    tests/bench/tables.py build/release/bench_tables [--rows 1000000]

The python that runs it needs numpy, pandas, pyarrow and polars.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

os.environ["POLARS_MAX_THREADS"] = "1"
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # some readers start threads without being asked
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.csv


def write(path, rows):
    random = np.random.default_rng(1)
    columns = {}
    for i in range(20):
        columns[f"i{i}"] = random.integers(-9999, 999999, rows) if i % 2 else random.integers(0, 256, rows)
    for i in range(20):
        columns[f"f{i}"] = np.round(random.normal(0, 100, rows), 4) if i % 4 else random.random(rows)
    pyarrow.csv.write_csv(pyarrow.table(columns), path)


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    pyarrow.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "numbers.csv")
        write(path, options.rows)
        size = os.path.getsize(path) / 1e6
        read = pyarrow.csv.ReadOptions(use_threads=False)
        told = {}

        def mlx():
            out = subprocess.run([options.program, path, "1"], check=True, capture_output=True, text=True).stdout
            told.update(json.loads(out))
            return told["seconds"]

        readers = {
            "mlx": mlx,
            "pandas": lambda: seconds(lambda: pandas.read_csv(path, engine="c")),
            "pyarrow": lambda: seconds(lambda: pyarrow.csv.read_csv(path, read_options=read)),
            "polars": lambda: seconds(lambda: polars.read_csv(path)),
        }
        best = {name: min(run() for _ in range(options.times)) for name, run in readers.items()}
        total = float(pandas.read_csv(path, engine="c").to_numpy(dtype=np.float64).sum())
        assert told["rows"] == options.rows and abs(told["sum"] - total) <= 1e-9 * abs(total), (told, total)
        print(f"{size:.0f} MB of CSV, {options.rows} rows, one core")
        for name, taken in best.items():
            print(f"  {name:8} {size / taken:6.0f} MB/s")


if __name__ == "__main__":
    main()
