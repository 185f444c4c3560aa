#!/usr/bin/env python3
"""Reads a table of numbers on one thread: mlx (rows by a schema) against pandas, pyarrow and polars, one after the other, on
one core. The table is a CSV file, and the same as Parquet files with pages of snappy, zstd and without compression.

    tests/bench/tables.py build/release/bench_tables [--rows 1000000]

mlx makes rows of f32, the others columns. The python that runs it needs numpy, pandas, pyarrow and polars.
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
import pyarrow.parquet


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


def compare(title, path, options, others, total):
    """Prints the best rate of each reader, mlx first; the sum of all numbers shows that mlx has read them."""
    size = os.path.getsize(path) / 1e6
    told = {}

    def mlx():
        out = subprocess.run([options.program, path, "1"], check=True, capture_output=True, text=True).stdout
        told.update(json.loads(out))
        return told["seconds"]

    readers = {"mlx": mlx, **{name: lambda read=read: seconds(lambda: read(path)) for name, read in others.items()}}
    times = {name: [] for name in readers}
    for _ in range(options.times):
        for name, run in readers.items():
            times[name].append(run())
    assert told["rows"] == options.rows and abs(told["sum"] - total) <= 1e-9 * abs(total), (told, total)
    print(f"{size:.0f} MB of {title}, {options.rows} rows, one core")
    for name, taken in times.items():
        print(f"  {name:8} {size / min(taken):6.0f} MB/s {options.rows / min(taken) / 1e6:6.2f} million rows/s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    pyarrow.set_cpu_count(1)
    read = pyarrow.csv.ReadOptions(use_threads=False)
    table = numbers(options.rows)
    total = float(table.to_pandas().to_numpy(dtype=np.float64).sum())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "numbers.csv")
        pyarrow.csv.write_csv(table, path)
        compare("CSV", path, options, {
            "pandas": lambda path: pandas.read_csv(path, engine="c"),
            "pyarrow": lambda path: pyarrow.csv.read_csv(path, read_options=read),
            "polars": polars.read_csv,
        }, total)
        for pages in ("none", "snappy", "zstd"):
            path = os.path.join(folder, "numbers.parquet")
            pyarrow.parquet.write_table(table, path, compression=pages)
            compare(f"Parquet ({pages})", path, options, {
                "pandas": pandas.read_parquet,
                "pyarrow": lambda path: pyarrow.parquet.read_table(path, use_threads=False),
                "polars": polars.read_parquet,
            }, total)


if __name__ == "__main__":
    main()
