#!/usr/bin/env python3
"""Runs the demo and the benchmarks and writes their figures into tests/bench/README.md: those of one run on one commit.

  tests/bench/readme.py BUILD_FOLDER [--only SECTION]... [--python PYTHON]

This takes about a quarter of an hour on two cores. The worktree must be committed (tests/bench/README.md may differ); the
programs are built from it first. Each section of the page stands between markers of its name. The script writes nothing if
a section fails. It prints the figures instead of writing them if another program kept the machine busy before a section,
or if --only leaves out sections whose figures are of another commit. A missed target is no failure: its figures are
written.

Peers: torch and numpy of --python (default: the interpreter that runs this script), for inference also onnx and
onnxruntime, for the store dvc and oxenai; Debian's git, git-lfs, restic and borgbackup. Training and inference need their
peers. A peer of the store that is missing has no column and is named. The demo needs dataset-fashion-mnist, curl and jq.
"""
import argparse
import ctypes
import dataclasses
import datetime
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from store_table import busy_seconds, wait_for_quiet

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGE = os.path.join(HERE, "README.md")
SHOWN = "tests/bench/README.md"
DEMO_FOLDER = "/tmp/mlx-demo"
CLOSING = "# What came of it"  # the heading of the demo's closing table
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n)(.*?)(<!-- /figures -->\n)", re.S)
COMMIT = re.compile(r"\bcommit ([0-9a-f]{12})\b")
TRAINED = {"mlp": "MLP 784-512-512-10, batch 128", "demo cnn": "CNN 28x28, 4 convolutions, batch 128",
           "resnet-20": "ResNet-20 32x32, batch 128", "gpt2 6x384": "GPT-2 6x384, context 256, batch 32"}
ASKED = {"resnet-20": "ResNet-20 32x32, batch 128", "mobilenet_v2": "MobileNetV2 96x96, batch 32"}
NEEDED = {"training": ["torch", "numpy"], "inference": ["torch", "numpy", "onnx", "onnxruntime"]}
TOOLS = {"mlx": "mlx", "git": "Git", "git-lfs": "Git LFS", "restic": "restic", "borg": "borg", "dvc": "DVC", "oxen": "Oxen"}
FILES, CHECKPOINT_MIB = 20000, 512
# label, step of store.sh, number; seconds of others are shown as multiples of mlx's.
STORED = [
    (f"add {FILES:,} small files", "add small files", "seconds"),
    ("status of them, unchanged", "status unchanged", "seconds"),
    (f"add a checkpoint of {CHECKPOINT_MIB} MiB", "add raw checkpoint", "seconds"),
    ("add its successor, 5 % changed", "add next raw checkpoint", "seconds"),
    ("bytes stored for each that changed", "add next raw checkpoint", "stored / changed"),
    ("add the successor of one in safetensors", "add next safetensors checkpoint", "seconds"),
    ("bytes stored for each that changed", "add next safetensors checkpoint", "stored / changed"),
]


@dataclasses.dataclass
class Run:
    build: str  # the folder, absolute
    python: str
    where: str  # machine, day and commit, as the page says it
    scratch: str  # for what the benchmarks write

    def program(self, name):
        return os.path.join(self.build, name)


def fail(text):
    sys.exit(f"readme.py: {text}")


def say(text):
    print(f"readme.py: {text}", file=sys.stderr, flush=True)


def machine():
    with open("/proc/cpuinfo") as f:
        text = f.read()
    name = re.search(r"model name\s*: (.*)", text)[1]
    widest = next((isa for flag, isa in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in text), "neither AVX2 nor AVX-512")
    return f"{len(os.sched_getaffinity(0))} cores of an {name} with {widest}"


def peers(python, names):
    """Versions of the packages that this Python has."""
    script = ("import importlib.metadata as m, json, sys\nfound = {}\nfor n in sys.argv[1:]:\n"
              "  try: found[n] = m.version(n).split('+')[0]\n  except m.PackageNotFoundError: pass\nprint(json.dumps(found))")
    return json.loads(subprocess.check_output([python, "-c", script, *names]))


def typed(command):
    """The command as a person types it in the repository."""
    words = [os.path.relpath(word, ROOT) if os.path.isabs(word) and word.startswith(ROOT + os.sep) else word for word in command]
    return " ".join(f"'{word}'" if " " in word else word for word in words)


def measure(run, name, command, extra=(), interpreter=()):
    """What the benchmark wrote with --json; it exits with 1 where a target was missed, too."""
    file = os.path.join(run.scratch, f"{name}.json")
    done = subprocess.run([*interpreter, *command, *extra, "--json", file], stdout=sys.stderr)
    try:
        with open(file) as f:
            out = json.load(f)
    except (OSError, ValueError):
        out = None
    if done.returncode not in (0, 1) or out is None:
        fail(f"{typed(command)} failed; {SHOWN} is as it was")
    if done.returncode == 1:
        say(f"{name}: a target was missed; the figures stand as they are")
    return out


def fenced(text):
    return "```\n" + "\n".join(line.rstrip() for line in text.strip("\n").split("\n")) + "\n```\n"


def table(rows):
    """The first row is the head."""
    lines = ["".join(f"| {cell} " if cell else "| " for cell in row) + "|\n" for row in rows]
    return lines[0] + "|---" * len(rows[0]) + "|\n" + "".join(lines[1:])


def demo(run):
    try:
        done = subprocess.run([os.path.join(ROOT, "tests/demo/demo.sh"), run.build, DEMO_FOLDER], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    finally:
        shutil.rmtree(DEMO_FOLDER, ignore_errors=True)
    if done.returncode != 0:
        fail(f"the demo failed; {SHOWN} is as it was\n{done.stdout[-2000:]}")
    closing = done.stdout[done.stdout.index(CLOSING):done.stdout.index("  report: ")]
    return f"The closing table of `./bootstrap demo` ({run.where}):\n\n" + fenced(closing)


def training_table(rows):
    shown = {(row["case"], row["precision"]): row for row in rows}
    out = [["", "f32: samples/s", "to PyTorch's", "memory", "bf16: samples/s", "to PyTorch's", "memory"]]
    for case, label in TRAINED.items():
        cells = [label]
        for precision in ("f32", "bf16"):
            row = shown.get((case, precision))
            cells += [f"{row['mlx_rate']:,.0f}", f"{row['ratio']:.2f}x", f"{row['mlx_mib'] / row['torch_mib']:.2f}"] if row else ["–"] * 3
        out.append(cells)
    return table(out)


def training(run):
    command = [os.path.join(HERE, "train.py"), run.program("bench_train")]
    for case in TRAINED:
        command += ["--only", case]
    rows = measure(run, "training", command, interpreter=[run.python])["rows"]
    apart = [row["case"] for row in rows if not row["same_losses"]]
    if apart:
        fail(f"mlx and PyTorch do not compute the same: {', '.join(apart)}; {SHOWN} is as it was")
    torch = peers(run.python, ["torch"])["torch"]
    return f"PyTorch {torch}, {run.where}; `{typed(command)}`:\n\n" + training_table(rows)


def inference_table(rows):
    names = [(key, label) for key, label in (("onnxruntime", "ONNX Runtime"), ("torchscript", "TorchScript"))
             if any(row.get(key) for row in rows)]
    out = [["", "precision", "threads", "mlx, images/s", *(label for _, label in names), "mlx to the better"]]
    for row in rows:
        rates = [f"{row[key]:,.0f}" if row.get(key) else "–" for key in ("mlx", *(key for key, _ in names))]
        ratio = f"{row['ratio']:.2f}x" if row.get("ratio") else "–"
        out.append([ASKED.get(row["model"], row["model"]), row["precision"], str(row["threads"]), *rates, ratio])
    return table(out)


def inference(run):
    command = [os.path.join(HERE, "infer.py"), run.build]
    rows = measure(run, "inference", command, interpreter=[run.python])
    found = peers(run.python, NEEDED["inference"])
    return (f"ONNX Runtime {found['onnxruntime']}, PyTorch {found['torch']}, {run.where}; `{typed(command)}`:\n\n{inference_table(rows)}")


def duration(seconds):
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def store_table(measured):
    tools = [name for name in TOOLS if name in measured["tools"]]
    out = [["", *(TOOLS[name] for name in tools)]]
    for label, step, number in STORED:
        values = {tool: measured["steps"][step].get(tool, {}).get(number) for tool in tools}
        own = values["mlx"]
        cells = [label]
        for tool, value in values.items():
            if value is None:
                cells.append("")
            elif number != "seconds":
                cells.append(f"{value:.2f}")
            else:
                cells.append(duration(own) if tool == "mlx" else f"{value / own:.{1 if value >= 10 * own else 2}f}x")
        out.append(cells)
    skipped = ", ".join(TOOLS[name] for name in measured["skipped"])
    return table(out) + (f"\nNot installed, so not measured: {skipped}.\n" if skipped else "")


def store(run):
    command = [os.path.join(HERE, "store.sh"), run.program("mlx")]
    for step in ("small", "status", "checkpoint"):
        command += ["--only", step]
    command += ["--size", f"small={FILES}", "--size", f"checkpoint={CHECKPOINT_MIB}"]
    venv = os.path.dirname(os.path.dirname(run.python))
    return f"{run.where}; `{typed(command)}`:\n\n" + store_table(measure(run, "store", command, ["--venv", venv]))


SECTIONS = {"demo": demo, "store": store, "inference": inference, "training": training}


def check_ready(wanted, text, python):
    """What would stop a section later stops the run now."""
    lacking = [name for name in wanted if name not in [match[2] for match in BLOCK.finditer(text)]]
    if lacking:
        fail(f"{SHOWN} has no place for {', '.join(lacking)}")
    if "demo" in wanted and os.path.exists(DEMO_FOLDER):
        fail(f"{DEMO_FOLDER} is in the way")
    for program in ["curl", "jq", "git", "python3"] if "demo" in wanted else []:
        if not shutil.which(program):
            fail(f"{program} is not installed")
    packages = {package for name in wanted for package in NEEDED.get(name, [])}
    missing = packages - set(peers(python, sorted(packages)))
    if missing:
        fail(f"{python} lacks {', '.join(sorted(missing))}\n"
             "install what is missing in a virtual environment and pass its interpreter with --python")


def build_programs(build):
    targets = ["mlx", "bench_serve", "bench_train", "bench_infer", "bench_stat"]
    if subprocess.run(["cmake", "--build", build, "--target", *targets], stdout=sys.stderr).returncode:
        fail(f"{build} does not build")


def adopt_orphans():
    """What children leave running becomes ours, so that own_seconds() counts it (Linux: PR_SET_CHILD_SUBREAPER)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def own_seconds():
    """CPU time of all descendants that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def measure_all(wanted, run):
    """Bodies by name, and whether nothing else kept the machine busy when each of them began."""
    out, quiet = {}, True
    for name in wanted:
        if not wait_for_quiet():
            quiet = False
            say("this machine is busy: what is measured is printed, not written")
        say(f"{name} …")
        started, busy, own = time.monotonic(), busy_seconds(), own_seconds()
        out[name] = SECTIONS[name](run)
        seconds, busy, own = time.monotonic() - started, busy_seconds() - busy, own_seconds() - own
        share = max(0, busy - own) / (seconds * os.cpu_count())
        say(f"{name}: {seconds:.0f} s; others had {100 * share:.0f} % of the machine meanwhile")
    return out, quiet


def commits(text):
    """Those that the figures are of."""
    return set(COMMIT.findall("".join(match[3] for match in BLOCK.finditer(text))))


def replace(text, bodies):
    return BLOCK.sub(lambda match: match[1] + bodies.get(match[2], match[3]) + match[4], text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="the build folder")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the peers")
    args = parser.parse_args()
    wanted = [name for name in SECTIONS if name in (args.only or SECTIONS)]
    python = os.path.abspath(shutil.which(args.python) or fail(f"there is no {args.python}"))
    git = ["git", "-C", ROOT]
    if subprocess.check_output([*git, "status", "--porcelain", "--", ".", f":!{SHOWN}"]):
        fail("commit first, so that the figures are those of a commit")
    commit = subprocess.check_output([*git, "rev-parse", "--short=12", "HEAD"], text=True).strip()[:12]
    with open(PAGE) as f:
        text = f.read()
    check_ready(wanted, text, python)
    build = os.path.realpath(args.build)
    if not build.startswith(ROOT + os.sep):
        fail(f"{args.build} is not in this worktree")
    build_programs(build)
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="mlx-figures.") as scratch:
        where = f"{machine()}, {datetime.date.today()}, commit {commit}"
        bodies, quiet = measure_all(wanted, Run(build, python, where, scratch))
    after = replace(text, bodies)
    others = commits(after) - {commit}
    if others:
        say(f"{SHOWN} has figures of {', '.join(sorted(others))}: run all sections")
    if others or not quiet:
        print("\n".join(bodies.values()), end="")
        return say(f"{SHOWN} is as it was")
    with open(PAGE, "w") as f:
        f.write(after)


if __name__ == "__main__":
    main()
