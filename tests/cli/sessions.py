#!/usr/bin/env python3
"""Runs the commands that a page shows and compares what they print with what the page says they print.

usage: sessions.py MLX PAGE [--write]        --write puts the output of this run into the page

PAGE is Markdown (``` blocks) or mdoc (.Bd -literal blocks). All blocks of a page are one session in one shell:
- A block whose first line is "# NAME.toml" is the content of that file, which is written at this point.
- A line "$ COMMAND" is typed. Lines "> …" continue it.
- The other lines of that block are what it prints, on stdout and stderr. A last line "…" stands for the rest.
Digits of ids, dates, decimal fractions, times, rates and percentages differ between machines and are not compared. The
session runs in an empty folder, which the page calls /home/ada. 8080 in a command stands for a port that is free.
"""
import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

FOLDER, PORT, REST = "/home/ada", "8080", "…"
FENCE = {".md": (re.compile(r"```\w*"), re.compile("```")), ".7": (re.compile(r"\.Bd -literal.*"), re.compile(r"\.Ed"))}
MARK = "\x1e"
PROGRESS = re.compile(r"\w+ +\d+ %  ")  # a line that only a slow machine prints


class Step:
    """One command of the page with what follows it, or one file (its name in `file`)."""

    def __init__(self, first, command=None, file=None):
        self.first, self.command, self.file, self.lines = first, command, file, []


def plain(line, kind):
    """A line of the page as the reader sees it."""
    return line.removeprefix("\\&").replace("\\e", "\\") if kind == ".7" else line


def escaped(line, kind):
    if kind != ".7":
        return line
    line = line.replace("\\", "\\e")
    return "\\&" + line if line.startswith((".", "'")) else line


def steps_of(lines, kind):
    """The page's steps; `first` is the index of the line behind the command."""
    opens, closes = FENCE[kind]
    steps, inside, block = [], False, None
    for index, line in enumerate(lines):
        if not inside:
            inside, block = bool(opens.fullmatch(line)), None
            continue
        if closes.fullmatch(line):
            inside = False
            continue
        text = plain(line, kind)
        if block is None:
            name = re.fullmatch(r"# (\w+\.toml)", text)
            block = "file" if name else "session" if text.startswith("$ ") else "other"
            if name:
                steps.append(Step(index + 1, file=name[1]))
        if block == "session" and text.startswith("$ "):
            steps.append(Step(index + 1, command=[text[2:]]))
        elif block == "session" and text.startswith("> ") and not steps[-1].lines:
            steps[-1].command.append(text[2:])
            steps[-1].first = index + 1
        elif block in ("session", "file"):
            steps[-1].lines.append(text)
    return steps


def script_of(steps):
    parts = []
    for number, step in enumerate(steps):
        if step.file:
            parts.append(f"cat >{step.file} <<'END-OF-FILE'\n# {step.file}\n" + "\n".join(step.lines) + "\nEND-OF-FILE\n")
        else:
            parts.append(f"printf '\\n{MARK}%d\\n' {number}\n" + "\n".join(step.command) + "\n")
    return "".join(parts)


def run(mlx, steps):
    """What each command printed, by its number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="mlx-page.") as folder:
        folder = os.path.realpath(folder)
        tools = os.path.join(folder, ".bin")
        os.mkdir(tools)
        os.symlink(os.path.realpath(mlx), os.path.join(tools, "mlx"))
        work = os.path.join(folder, "ada")
        os.mkdir(work)
        environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", NO_COLOR="1")
        script = os.path.join(tools, "session.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write(script_of(steps).replace(PORT, port) + "kill $(jobs -p) 2>/dev/null\nwait\n")
        shell = subprocess.Popen(["bash", script], cwd=work, env=environment, text=True, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            printed = shell.communicate(timeout=500)[0]
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            printed = shell.communicate()[0]
        printed = printed.replace(work, FOLDER).replace(port, PORT)
    outputs = {}
    for part in printed.split("\n" + MARK)[1:]:
        number, _, text = part.partition("\n")
        printed = [line.rstrip() for line in text.rstrip("\n").split("\n") if not PROGRESS.match(line)]
        outputs[int(number)] = printed if printed != [""] else []
    return outputs


def comparable(line):
    line = re.sub(r"\b[0-9a-f]{8,64}\b", "ID", line)
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", line)
    line = re.sub(r"(seconds|per_second) [\d.]+(e[-+]?\d+)?", r"\1 N", line)
    line = re.sub(r"\b[\d.]+ (d|h|min|s|ms)( \d+ (h|min|s))?\b", "TIME", line)
    line = re.sub(r"\d[\d,]*\.\d+(e[-+]?\d+)?", "N", line)
    line = re.sub(r"\b\d[\d,]*(?= (%|images/s|rows/s|tokens/s)(\W|$))", "N", line)
    return re.sub(r"\s+", " ", line).strip()


def shortened(expected, printed):
    """What the page shows of the output: as many lines as now, where it leaves out the rest."""
    if expected[-1:] == [REST] and len(printed) >= len(expected):
        return printed[:len(expected) - 1] + [REST]
    return printed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mlx")
    parser.add_argument("page")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    kind = os.path.splitext(args.page)[1]
    with open(args.page, encoding="utf-8") as page:
        lines = page.read().split("\n")
    steps = steps_of(lines, kind)
    if not any(step.command for step in steps):
        sys.exit(f"{args.page}: shows no commands")
    outputs = run(args.mlx, steps)
    problems = []
    for number, step in reversed(list(enumerate(steps))):
        if step.file:
            continue
        expected = step.lines
        while expected and not expected[-1]:
            expected = expected[:-1]  # an empty line before the next command is the page's own
        printed = shortened(expected, outputs.get(number, ["(the session ended before this command)"]))
        if args.write:
            lines[step.first:step.first + len(expected)] = [escaped(line, kind) for line in printed]
        elif [comparable(line) for line in expected] != [comparable(line) for line in printed]:
            command = "\n> ".join(step.command)
            problems.append(f"{args.page}:{step.first}: $ {command}\nthe page says:\n" + "\n".join(expected) +
                            "\nit printed:\n" + "\n".join(printed) + "\n")
    if args.write:
        with open(args.page, "w", encoding="utf-8") as page:
            page.write("\n".join(lines))
    print("\n".join(reversed(problems)) or f"{args.page}: {len(outputs)} commands print what it says")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
