# Measures one command for store.sh, and prints what was measured as tables of medians and ratios.
#   store_table.py measure RESULTS STEP TOOL COMMAND...     appends seconds, CPU seconds and peak memory
#   store_table.py note RESULTS STEP TOOL NAME VALUE        appends a number that another program told
#   store_table.py json RESULTS TOOLS SKIPPED               prints the medians as JSON, and which tools there were
#   store_table.py print RESULTS                            prints the tables; exit 1 where a target is missed
import collections
import json
import os
import statistics
import subprocess
import sys
import time

# What DESIGN 9 asks: step, peer, how many times faster mlx must be.
FASTER = [
    ("add small files", "borg", 3), ("add small files", "restic", 3), ("add small files", "git-lfs", 10),
    ("add small files", "dvc", 20), ("status unchanged", "git", 1.2), ("add next raw checkpoint", "restic", 3),
    ("add next safetensors checkpoint", "restic", 3),
]
LIMIT_SHARE = 0.85  # of the floor, where one was measured: then a peer may be as near to it (DESIGN 9)
# Step, number, limit.
AT_MOST = [
    ("add next raw checkpoint", "stored / changed", 1.05),
    ("add next safetensors checkpoint", "stored / changed", 1.05), ("add large file", "peak MiB", 300),
    ("million: status", "seconds", 3),
]


def busy_seconds():
    """CPU time of all processes since boot, as user and system."""
    with open("/proc/stat") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:]]
    return (sum(ticks[:3]) + sum(ticks[5:7])) / os.sysconf("SC_CLK_TCK")


def wait_for_quiet(most=60):
    """Until what tools have left running behind their backs (git's gc, say) has ended: less than a tenth of a core.
    False where that never was."""
    span, end = 0.3, time.monotonic() + most
    while time.monotonic() < end:
        before = busy_seconds()
        time.sleep(span)
        if busy_seconds() - before < span / 10:
            return True
    print(f"warning: this machine is not quiet after {most} s", file=sys.stderr)
    return False


def measure(results, step, tool, command):
    wait_for_quiet()
    begin = time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{tool}: {' '.join(command)}: exit {child.returncode}\n{errors.decode(errors='replace')[-2000:]}")
    with open(results, "a") as out:
        for name, value in (("seconds", seconds), ("CPU seconds", usage.ru_utime + usage.ru_stime),
                            ("peak MiB", usage.ru_maxrss / 1024)):
            print(step, tool, name, value, sep="\t", file=out)


def read(results):
    table = collections.OrderedDict()
    with open(results) as lines:
        for line in lines:
            step, tool, name, value = line.rstrip("\n").split("\t")
            table.setdefault(step, {}).setdefault(tool, {}).setdefault(name, []).append(float(value))
    return {step: {tool: {name: (statistics.median(values), len(values)) for name, values in names.items()}
                   for tool, names in tools.items()} for step, tools in table.items()}


def print_steps(table):
    for step, tools in table.items():
        print(f"\n{step}")
        own = tools.get("mlx", {}).get("seconds", (0, 0))[0]
        own_cpu = tools.get("mlx", {}).get("CPU seconds", (0, 0))[0]
        for tool, names in tools.items():
            seconds, runs = names.get("seconds", (0, 0))
            line = f"  {tool:<10}{seconds:9.3f} s"
            line += f"  ({runs} run{'s' if runs > 1 else ''}), CPU {names['CPU seconds'][0]:8.3f} s"
            line += f", peak {names['peak MiB'][0]:6.0f} MiB"
            for name, (value, _) in names.items():
                if name not in ("seconds", "CPU seconds", "peak MiB"):
                    line += f", {name} {value:.3f}"
            if tool != "mlx" and own > 0:
                line += f"   mlx: {seconds / own:.2f}x as fast"
            if tool != "mlx" and own_cpu > 0:
                line += f", {names['CPU seconds'][0] / own_cpu:.2f}x by CPU time"
            print(line)


def print_json(table, tools, skipped):
    """Steps by name, in each a tool's medians: seconds, CPU seconds, peak MiB, and what was noted."""
    medians = {step: {tool: {name: value for name, (value, _) in names.items()} for tool, names in measured.items()}
               for step, measured in table.items()}
    print(json.dumps({"tools": tools.split(), "skipped": skipped.split(), "steps": medians}, indent=1))


def print_targets(table):
    print("\ntargets")
    missed = 0
    for step, peer, factor in FASTER:
        tools = table.get(step, {})
        if "mlx" not in tools or peer not in tools:
            print(f"  not measured  {step}: {factor}x {peer}")
            continue
        ratio = tools[peer]["seconds"][0] / tools["mlx"]["seconds"][0]
        line, met = f"{step}: {ratio:.2f}x {peer}, wanted {factor}x (share {ratio / factor:.2f})", ratio >= factor
        if "floor" in tools:
            share = tools["floor"]["seconds"][0] / tools["mlx"]["seconds"][0]
            line += f", or {LIMIT_SHARE} of the floor: {share:.2f}"
            met |= share >= LIMIT_SHARE
        missed += not met
        print(f"  {'met' if met else 'MISSED':<13} {line}")
    for step, name, limit in AT_MOST:
        if name not in table.get(step, {}).get("mlx", {}):
            print(f"  not measured  {step}: {name} at most {limit}")
            continue
        value = table[step]["mlx"][name][0]
        missed += value > limit
        print(f"  {'met' if value <= limit else 'MISSED':<13} {step}: {name} {value:.3f}, at most {limit}")
    return missed


if __name__ == "__main__":
    action, results = sys.argv[1], sys.argv[2]
    if action == "measure":
        measure(results, sys.argv[3], sys.argv[4], sys.argv[5:])
    elif action == "note":
        with open(results, "a") as out:
            print(*sys.argv[3:], sep="\t", file=out)
    elif action == "json":
        print_json(read(results), sys.argv[3], sys.argv[4])
    else:
        measured = read(results)
        print_steps(measured)
        sys.exit(1 if print_targets(measured) else 0)
