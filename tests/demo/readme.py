"""Runs the demo and puts what it printed into README.md, with the day, the commit and the machine: the README's figures are
those of one run.

usage: readme.py BUILD_FOLDER      in a quiet moment; the worktree has nothing uncommitted
"""
import datetime
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
README = os.path.join(HERE, "../../README.md")
FOLDER = "/tmp/mlx-demo"
BLOCK = re.compile(r"What `\./bootstrap demo` prints \(.*?\):\n\n```\n.*?\n```\n", re.S)

PROGRESS = re.compile(r"\w+ +\d+ %  ")


def machine():
    with open("/proc/cpuinfo") as f:
        text = f.read()
    name = re.search(r"model name\s*: (.*)", text)[1]
    widest = next((isa for flag, isa in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in text), "neither AVX2 nor AVX-512")
    return f"{len(os.sched_getaffinity(0))} cores of an {name} with {widest}"


def main(build):
    git = ["git", "-C", HERE]
    if subprocess.check_output([*git, "status", "--porcelain"]):
        sys.exit("readme.py: commit first, so that the figures are those of a commit")
    commit = subprocess.check_output([*git, "rev-parse", "--short=12", "HEAD"], text=True).strip()
    if os.path.exists(FOLDER):
        sys.exit(f"readme.py: {FOLDER} is in the way")
    try:
        printed = subprocess.check_output([os.path.join(HERE, "demo.sh"), build, FOLDER], text=True, stderr=subprocess.STDOUT)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    with open(README) as f:
        text = f.read()
    heading = f"What `./bootstrap demo` prints ({machine()}, {datetime.date.today()}, commit {commit}; the figures are the demo's own):"
    lines = [line.rstrip() for line in printed.strip("\n").split("\n") if not PROGRESS.match(line)]
    text, count = BLOCK.subn(lambda _: heading + "\n\n```\n" + "\n".join(lines) + "\n```\n", text)
    if count != 1:
        sys.exit("readme.py: README.md has no place for it")
    with open(README, "w") as f:
        f.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
