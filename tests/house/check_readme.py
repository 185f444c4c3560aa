"""Figures stand in tests/bench/README.md, where tests/bench/readme.py writes them between its markers; all are of one commit.
README.md has at most 150 lines and no figures but those that its session prints (tests/cli/test_pages.sh runs that).

usage: check_readme.py SOURCE_FOLDER [BUILD_FOLDER]
"""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(sys.argv[1], "tests/bench"))
import readme  # noqa: E402  the script's own markers and tables

FENCED = re.compile(r"^```.*?^```$", re.S | re.M)
RATIO = re.compile(r"\b\d+(\.\d+)?x(?!\w)|\d (images|samples|req|requests)/s")


def figures(text):
    """Lines outside of fenced blocks with a figure that somebody typed."""
    for line in FENCED.sub("", text).splitlines():
        cells = line.split("|")[1:] if line.startswith("|") else []
        if RATIO.search(line) or any(re.match(r"\s*[<>~]?\s*\d", cell) for cell in cells):
            yield line


def problems_of_page(text):
    """README.md's."""
    found = [f"README.md: {line}: a figure; these stand in {readme.SHOWN}" for line in figures(text)]
    if text.count("\n") > 150:
        found.append(f"README.md: {text.count(chr(10))} lines; at most 150")
    return found


def problems_of_figures(text):
    """Those of the benchmarks' page."""
    found = []
    names = [match[2] for match in readme.BLOCK.finditer(text)]
    if sorted(names) != sorted(readme.SECTIONS):
        found.append(f"{readme.SHOWN}: its markers are {names}, the sections of tests/bench/readme.py {list(readme.SECTIONS)}")
    if len(readme.commits(text)) > 1:
        found.append(f"{readme.SHOWN}: figures are of more than one commit: {', '.join(sorted(readme.commits(text)))}")
    rest = readme.BLOCK.sub("", text)
    for block in FENCED.findall(rest):
        if re.search(r"^\$ mlx ", block, re.M):
            found.append(f"{readme.SHOWN}: {block.splitlines()[1]}: what mlx printed stands outside the markers")
    for line in figures(rest):
        found.append(f"{readme.SHOWN}: {line}: a figure written by hand; tests/bench/readme.py writes them between its markers")
    return found


def self_test():
    section = "<!-- figures: {} -->\n{}<!-- /figures -->\n"
    good = "| to add | touch |\n|---|---|\n| x, 28x28 | y |\n" + "".join(
        section.format(name, "of commit 0123456789ab\n| a | 1.5x |\n```\n$ mlx status\n```\n") for name in readme.SECTIONS)
    assert not problems_of_figures(good), problems_of_figures(good)
    for bad in ("| CNN | 92.92 % |\n", "It is 1.5x as fast.\n", "It does 3,000 images/s.\n", "```\n$ mlx log\n```\n",
                section.format("other", ""), section.format("other", "commit ba9876543210\n")):
        assert problems_of_figures(good + bad), bad
    assert problems_of_figures(good.replace("0123456789ab", "ba9876543210", 1))
    assert readme.replace(good, {"store": "new\n"}).count("new") == 1
    page = "| works | a cap |\n```\n$ mlx train\n1359 steps, 68526 images/s\n```\n"
    assert not problems_of_page(page), problems_of_page(page)
    for bad in ("| CNN | 92.92 % |\n", "It is 1.5x as fast.\n", "\n" * 150):
        assert problems_of_page(page + bad), bad

    # A peer that is missing has no column and is named; nothing measured is no figure.
    rows = [{"case": "mlp", "precision": "f32", "mlx_rate": 3000, "ratio": 1.5, "mlx_mib": 1, "torch_mib": 4}]
    assert "| 3,000 | 1.50x | 0.25 | – | – | – |\n" in readme.training_table(rows)
    rows = [{"model": "X", "precision": "int8", "threads": 1, "mlx": 30, "onnxruntime": 20, "ratio": 1.5}]
    assert readme.inference_table(rows).splitlines()[::2] == [
        "| | precision | threads | mlx, images/s | ONNX Runtime | mlx to the better |", "| X | int8 | 1 | 30 | 20 | 1.50x |"]
    steps = {step: {"mlx": {number: 2.0}, "git": {number: 3.0}} for _, step, number in readme.STORED}
    steps |= {step: {"mlx": {"seconds": 2, "stored / changed": 1.01}} for step in steps if "next" in step}
    shown = readme.store_table({"tools": ["mlx", "git"], "skipped": ["borg"], "steps": steps})
    assert "| | mlx | Git |\n" in shown and "small files | 2.00 s | 1.50x |\n" in shown and "changed | 1.01 | |\n" in shown
    assert shown.endswith("\nNot installed, so not measured: borg.\n")


self_test()
problems = []
for name, problems_of in (("README.md", problems_of_page), (readme.SHOWN, problems_of_figures)):
    with open(os.path.join(sys.argv[1], name), encoding="utf-8") as page:
        problems += problems_of(page.read())
print("\n".join(problems) or "figures stand in one place and are those of one run")
sys.exit(1 if problems else 0)
