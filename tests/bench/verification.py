"""What verification and signatures cost: two binaries side by side, CPU seconds (user and system) of add, push, pull and
clone of many small files and of a few large ones, medians of alternating rounds.

    python3 tests/bench/verification.py OLD NEW [ROUNDS]
"""
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

OLD, NEW = (os.path.abspath(path) for path in sys.argv[1:3])
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
SMALL, LARGE, LARGE_SIZE = 10000, 4, 64 << 20


def cpu(binary, *args, cwd):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([binary, *args], cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def data(folder, kind):
    rng = random.Random(kind)
    os.makedirs(folder)
    count, size = (SMALL, 2000) if kind == "small" else (LARGE, LARGE_SIZE)
    for i in range(count):
        with open(os.path.join(folder, f"{i:05}"), "wb") as file:
            file.write(rng.randbytes(size))


def one_round(binary, kind, work):
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    project = os.path.join(work, "project")
    os.makedirs(project)
    shutil.copytree(os.path.join(BASE, kind), os.path.join(project, "d"))
    times = {}
    cpu(binary, "init", cwd=project)
    times["add"] = cpu(binary, "add", "d", cwd=project)
    times["commit"] = cpu(binary, "commit", "-m", "x", cwd=project)
    cpu(binary, "remote", "add", "origin", "../remote", cwd=project)
    times["push"] = cpu(binary, "push", cwd=project)
    times["clone"] = cpu(binary, "clone", "remote", "clone", cwd=work)
    with open(os.path.join(project, "d", "one more"), "wb") as file:
        file.write(b"more")
    cpu(binary, "add", "d", cwd=project)
    cpu(binary, "commit", "-m", "y", cwd=project)
    cpu(binary, "push", cwd=project)
    times["pull"] = cpu(binary, "pull", cwd=os.path.join(work, "clone"))
    return times


with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as BASE:
    os.environ["HOME"] = BASE
    print(f"{'':8}{'':8}{'before':>9}{'now':>9}{'ratio':>8}   CPU seconds, median of {ROUNDS}")
    for kind in ("small", "large"):
        data(os.path.join(BASE, kind), kind)
        runs = {OLD: [], NEW: []}
        for _ in range(ROUNDS):
            for binary in runs:
                runs[binary].append(one_round(binary, kind, os.path.join(BASE, "work")))
        for what in runs[OLD][0]:
            old, new = (statistics.median(run[what] for run in runs[binary]) for binary in (OLD, NEW))
            print(f"{kind:8}{what:8}{old:9.3f}{new:9.3f}{new / old:8.2f}")
