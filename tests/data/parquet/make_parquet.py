#!/usr/bin/env python3
"""Writes the Parquet files that test_parquet.cpp reads, and beside each the rows that it must find, as JSON lines.

Needs pyarrow. Run in this folder."""
import datetime as dt
import decimal
import json
import math

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 40


def every(n, value):
    return [None if i % n == n - 1 else value(i) for i in range(ROWS)]


def table():
    day = dt.date(2024, 2, 27)
    at = dt.datetime(1969, 12, 31, 23, 59, 58)
    columns = {
        "i8": pa.array(every(5, lambda i: i - 20), pa.int8()),
        "u32": pa.array(every(7, lambda i: 2**32 - 1 - i), pa.uint32()),
        "i64": pa.array([(-1) ** i * (2**62 + i) for i in range(ROWS)], pa.int64()),
        "u64": pa.array([2**64 - 2**12 * (i + 1) if i % 2 else i for i in range(ROWS)], pa.uint64()),
        "f32": pa.array(every(6, lambda i: i / 8), pa.float32()),
        "f64": pa.array([math.nan if i == 3 else i * 0.1 for i in range(ROWS)], pa.float64()),
        "yes": pa.array(every(4, lambda i: i % 3 == 0), pa.bool_()),
        "city": pa.array(every(9, lambda i: ["Zürich", "Oslo", "", "東京"][i % 4]), pa.string()),
        "id": pa.array([f"row-{i:04}" for i in range(ROWS)], pa.string()),
        "price": pa.array(every(8, lambda i: decimal.Decimal(i * 12345 - 99999).scaleb(-2)), pa.decimal128(9, 2)),
        "large": pa.array([decimal.Decimal((-1) ** i * (10**30 + i)).scaleb(-10) for i in range(ROWS)], pa.decimal128(38, 10)),
        "day": pa.array([day + dt.timedelta(days=i) for i in range(ROWS)], pa.date32()),
        "ms": pa.array([at + dt.timedelta(milliseconds=i * 250) for i in range(ROWS)], pa.timestamp("ms")),
        "us": pa.array(every(3, lambda i: at + dt.timedelta(microseconds=i)), pa.timestamp("us")),
        "clock": pa.array([dt.time(i % 24, i, 0, i * 1000) for i in range(ROWS)], pa.time32("ms")),
        "none": pa.array([None] * ROWS, pa.null()),
        "list": pa.array([[i, i + 1] for i in range(ROWS)], pa.list_(pa.int32())),
    }
    fields = [pa.field(name, values.type, nullable=name not in ("i64", "id", "u64")) for name, values in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def clock(value):
    return value.strftime("%H:%M:%S") + (f".{value.microsecond // 1000:03}" if value.microsecond else "")


def plain(name, value, digits):
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        fraction = f".{value.microsecond:06}" + ("000" if digits == 9 else "")
        return value.strftime("%Y-%m-%dT%H:%M:%S") + (fraction[: digits + 1] if value.microsecond else "")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dt.time):
        return clock(value)
    return value


def write(name, data, stamps=None, **options):
    pq.write_table(data, f"{name}.parquet", **options)
    digits = {"ms": 3, "us": 6, **(stamps or {})}
    with open(f"{name}.jsonl", "w", encoding="utf-8") as out:
        for row in data.drop_columns(["list"]).to_pylist():
            out.write(json.dumps({k: plain(k, v, digits.get(k, 0)) for k, v in row.items()}, ensure_ascii=False) + "\n")


data = table()
write("snappy", data)
write("plain_v2_zstd", data, use_dictionary=False, compression="zstd", data_page_version="2.0",
      column_encoding={n: "PLAIN" for n in data.column_names if n not in ("list", "none", "yes")})
write("groups_gzip", data, compression="gzip", row_group_size=7)
write("pages_none", data, compression="none", data_page_size=64, write_batch_size=3, store_decimal_as_integer=True)
write("int96", data, {"ms": 9, "us": 9}, use_deprecated_int96_timestamps=True)
write("empty", data.slice(0, 0))
pq.write_table(data, "brotli.parquet", compression="brotli")
SPLIT = {"i8", "u32", "f32", "f64", "large", "i64"}
DELTA = {"u64", "us", "ms", "day", "clock"}
encodings = {n: "BYTE_STREAM_SPLIT" if n in SPLIT else "DELTA_BINARY_PACKED" if n in DELTA else "PLAIN"
             for n in data.column_names if n not in ("list", "none", "yes")}
write("delta", data, use_dictionary=False, column_encoding={**encodings, "city": "DELTA_LENGTH_BYTE_ARRAY", "id": "DELTA_BYTE_ARRAY",
                                                           "price": "DELTA_BYTE_ARRAY"})
# The same columns the other way round, over more than one block of differences, in pages of both versions.
long = pa.table({
    "i32": pa.array([(i * 2654435761) % 2**32 - 2**31 for i in range(700)], pa.int32()),
    "i64": pa.array([(-1) ** i * (2**62 + i * i) for i in range(700)], pa.int64()),
    "step": pa.array([None if i % 50 == 7 else 5 * i for i in range(700)], pa.int64()),
    "text": pa.array(["x" * (i * i % 91) + str(i) for i in range(700)], pa.string()),
    "path": pa.array([None if i % 31 == 3 else f"photos/{i // 100}/{i:05}.jpg" for i in range(700)], pa.string()),
    "list": pa.array([[i] for i in range(700)], pa.list_(pa.int32())),
})
write("delta_long", long, use_dictionary=False, data_page_version="2.0", compression="zstd",
      column_encoding={"i32": "DELTA_BINARY_PACKED", "i64": "DELTA_BINARY_PACKED", "step": "DELTA_BINARY_PACKED",
                       "text": "DELTA_LENGTH_BYTE_ARRAY", "path": "DELTA_BYTE_ARRAY"})
# More rows than a batch has, in groups and pages that end at odd places; dictionaries that become too large on the way.
N = 2500
blocks = pa.table({
    "i": pa.array([None if i % 11 == 3 else (i * 7919) % 1000 - 500 for i in range(N)], pa.int32()),
    "wide": pa.array([i * i * 1000003 for i in range(N)], pa.int64()),
    "f": pa.array([None if i % 700 > 600 else math.nan if i % 13 == 5 else i * 0.37 for i in range(N)], pa.float64()),
    "half": pa.array([i / 8 for i in range(N)], pa.float32()),
    "city": pa.array([None if i % 17 == 2 else ["Ulm", "Oslo", "NA", "Bonn"][i % 4] for i in range(N)], pa.string()),
    "yes": pa.array([i % 3 == 0 for i in range(N)], pa.bool_()),
    "class": pa.array([i % 7 for i in range(N)], pa.uint8()),
})
for version in ("1.0", "2.0"):
    pq.write_table(blocks.select(["wide", "f"]), f"direct_v{version[0]}.parquet", row_group_size=1100, data_page_size=3000,
                   write_batch_size=90, use_dictionary=False, compression="none", data_page_version=version)
pq.write_table(blocks, "blocks.parquet", row_group_size=1100, data_page_size=900, write_batch_size=90,
               dictionary_pagesize_limit=1500)
