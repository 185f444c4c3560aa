"""Prints the demo's closing table from what the demo measured, and fails where a promise of the README is not met.

usage: summary.py FOLDER TRAIN_SECONDS UNCHANGED_SECONDS LOAD1_JSON LOAD16_JSON REPORT
"""
import json
import os
import sys

folder, train_seconds, unchanged, load, loaded, report = sys.argv[1:]
read = lambda name: json.load(open(os.path.join(folder, name)))
ours, ours8, theirs, theirs8 = (read(n) for n in ("ours.json", "ours8.json", "theirs.json", "theirs8.json"))
f32, int8 = read("f32.json"), read("int8.json")
load, loaded = json.loads(load), json.loads(loaded)



def row(name, a, b="", c=""):
    print(f"  {name:<28}{a:>14}{b:>14}{c:>12}")


ratio = int8["bytes"] / f32["bytes"]
speed = ours8["images_per_second"] / ours["images_per_second"]
row("", "f32", "int8", "int8/f32")
row("test accuracy", f"{100 * ours['accuracy']:.2f} %", f"{100 * ours8['accuracy']:.2f} %",
    f"{100 * (ours8['accuracy'] - ours['accuracy']):+.2f}")
row("size", f"{f32['bytes'] / 1e6:.3f} MB", f"{int8['bytes'] / 1e6:.3f} MB", f"{ratio:.3f}")
row("evaluation, images/s", f"{ours['images_per_second']:,.0f}", f"{ours8['images_per_second']:,.0f}", f"{speed:.2f}")
row("on a colleague's machine", f"{100 * theirs['accuracy']:.2f} %", f"{100 * theirs8['accuracy']:.2f} %")
print()
row("training", f"{float(train_seconds):.1f} s")
row("training again, unchanged", f"{1000 * float(unchanged):.0f} ms")
row("serving, 1 client", f"{load['requests_per_second']:,.0f} req/s", f"p50 {load['p50_ms']:.2f} ms", f"p99 {load['p99_ms']:.2f} ms")
row("serving, 16 clients", f"{loaded['requests_per_second']:,.0f} req/s", f"p50 {loaded['p50_ms']:.2f} ms",
    f"p99 {loaded['p99_ms']:.2f} ms")
print(f"\n  report: {report}")

promises = [
    ("f32 accuracy at least 92.5 %", ours["accuracy"] >= 0.925),
    ("training within 120 s", float(train_seconds) <= 120),
    ("int8 within 0.3 points of f32", ours["accuracy"] - ours8["accuracy"] <= 0.003 + 1e-12),
    ("int8 at most 0.28 of the size", ratio <= 0.28),
    ("int8 at least 1.5x as fast", speed >= 1.5),
    ("unchanged within 100 ms", float(unchanged) <= 0.1),
    ("a colleague's figures are ours", theirs["accuracy"] == ours["accuracy"] and theirs["loss"] == ours["loss"]
     and theirs8["accuracy"] == ours8["accuracy"] and theirs8["loss"] == ours8["loss"]),
]
if os.environ.get("MLX_DEMO_UNTIMED"):  # a test: what the machine is doing beside must not decide
    promises = [p for p in promises if "within 1" not in p[0] and "as fast" not in p[0]]
broken = [name for name, kept in promises if not kept]
for name in broken:
    print(f"  NOT MET: {name}")
sys.exit(1 if broken else 0)
