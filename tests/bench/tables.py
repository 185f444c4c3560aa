#!/usr/bin/env python3
"""Reads a table of numbers on one thread: mlx (rows by a schema) against pandas, pyarrow and polars, in turns, on one core. The
table is a CSV file, and the same as Parquet files with pages of snappy, zstd and without compression.

    tests/bench/tables.py build/release/bench_tables [--rows 1000000]

mlx makes rows of f32, the others columns. Each reader has a process of its own, which reads the file several times: the first
time, as a program does that needs its data once, and again, when the allocator has the memory that the last result stood in.
The python that runs it needs numpy, pandas, pyarrow and polars.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["POLARS_MAX_THREADS"] = "1"
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # some readers start threads without being asked
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.parquet

READERS = {
    "csv": {
        "pandas": lambda path: pandas.read_csv(path, engine="c"),
        "pyarrow": lambda path: pyarrow.csv.read_csv(path, read_options=pyarrow.csv.ReadOptions(use_threads=False)),
        "polars": polars.read_csv,
    },
    "parquet": {
        "pandas": pandas.read_parquet,
        "pyarrow": lambda path: pyarrow.parquet.read_table(path, use_threads=False),
        "polars": polars.read_parquet,
    },
}


def numbers(rows):
    random = np.random.default_rng(1)
    columns = {}
    for i in range(20):
        columns[f"i{i}"] = random.integers(-9999, 999999, rows) if i % 2 else random.integers(0, 256, rows)
    for i in range(20):
        columns[f"f{i}"] = np.round(random.normal(0, 100, rows), 4) if i % 4 else random.random(rows)
    return pyarrow.table(columns)


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def read_here(name, path, times):
    """What a process of a reader does: prints how long the first reading took, and the best of all."""
    pyarrow.set_cpu_count(1)
    read = READERS[path.rsplit(".", 1)[1]][name]
    taken = [seconds(lambda: read(path)) for _ in range(times)]
    print(json.dumps({"first": taken[0], "best": min(taken)}))


def compare(title, path, options, total):
    """Prints the best rates of each reader, mlx first; the sum of all numbers shows that mlx has read them."""
    size = os.path.getsize(path) / 1e6
    here = [sys.executable, os.path.abspath(__file__), options.program, "--times", str(options.times), "--path", path, "--read"]
    commands = {"mlx": [options.program, path, str(options.times)],
                **{name: [*here, name] for name in READERS[path.rsplit(".", 1)[1]]}}
    told = {name: [] for name in commands}
    for _ in range(options.times):
        for name, command in commands.items():
            told[name].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    mlx = told["mlx"][0]
    assert mlx["rows"] == options.rows and abs(mlx["sum"] - total) <= 1e-9 * abs(total), (mlx, total)
    print(f"{size:.0f} MB of {title}, {options.rows} rows, one core    million rows/s: first    again")
    for name, runs in told.items():
        first, best = (min(run[key] for run in runs) for key in ("first", "best"))
        print(f"  {name:8} {size / first:6.0f} MB/s, again {size / best:6.0f} MB/s {options.rows / first / 1e6:16.2f} "
              f"{options.rows / best / 1e6:8.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        return read_here(options.read, options.path, options.times)
    table = numbers(options.rows)
    total = float(table.to_pandas().to_numpy(dtype=np.float64).sum())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "numbers.csv")
        pyarrow.csv.write_csv(table, path)
        compare("CSV", path, options, total)
        for pages in ("none", "snappy", "zstd"):
            path = os.path.join(folder, "numbers.parquet")
            pyarrow.parquet.write_table(table, path, compression=pages)
            compare(f"Parquet ({pages})", path, options, total)


if __name__ == "__main__":
    main()
