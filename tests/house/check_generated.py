"""Man pages and completions in the source tree are what the binary generates from its declarations.

usage: check_generated.py SOURCE_FOLDER BUILD_FOLDER. To bring them up to date: `mlx help --generate .` in the source folder.
"""
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile

source, build = sys.argv[1:3]
binary = os.path.join(build, "mlx")
problems = []
with tempfile.TemporaryDirectory() as fresh:
    shutil.copytree(os.path.join(source, "man", "prose"), os.path.join(fresh, "man", "prose"))
    subprocess.run([binary, "help", "--generate", fresh, "-q"], check=True)
    made = [os.path.join("man", name) for name in os.listdir(os.path.join(fresh, "man")) if name.endswith((".1", ".5"))]
    made += [os.path.join("completions", name) for name in os.listdir(os.path.join(fresh, "completions"))]
    for name in sorted(made):
        if not os.path.exists(os.path.join(source, name)):
            problems.append(f"{name} is missing")
        elif not filecmp.cmp(os.path.join(source, name), os.path.join(fresh, name), shallow=False):
            problems.append(f"{name} is not what the binary generates")
        elif name.startswith("man" + os.sep + "mlx-"):
            prose = os.path.join("man", "prose", os.path.basename(name)[4:-2] + ".md")
            if not os.path.exists(os.path.join(source, prose)):
                problems.append(f"{prose} is missing: a command's man page needs its DESCRIPTION")
    for name in os.listdir(os.path.join(source, "man")):
        if name.endswith(".1") and os.path.join("man", name) not in made:
            problems.append(f"man/{name} belongs to no command")
print("\n".join(problems) or f"{len(made)} generated files are up to date")
if problems:
    print("run `mlx help --generate .` in the source folder")
sys.exit(1 if problems else 0)
