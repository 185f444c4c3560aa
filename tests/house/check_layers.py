"""The layers of DESIGN 4: a file includes only its own layer and the layers below it, and nobody includes cmd/.

usage: check_layers.py SOURCE_FOLDER [BUILD_FOLDER]. Prints every include that breaks the rule; exits with 1 where there is one.
The check is first tried on a made-up tree, so that a rule that matches nothing does not pass.
"""
import os
import re
import sys
import tempfile

BELOW = {
    "base": set(),
    "formats": {"base"},
    "store": {"formats", "base"},
    "kernels": {"base"},
    "data": {"store", "kernels", "formats", "base"},
    "graph": {"kernels", "formats", "base"},
    "registry": {"store", "formats", "base"},
}
BELOW["nn"] = {"data", "graph", "registry"} | BELOW["data"] | BELOW["graph"] | BELOW["registry"]
BELOW["train"] = {"nn"} | BELOW["nn"]
BELOW["compress"] = {"train"} | BELOW["train"]
BELOW["report"] = {"train"} | BELOW["train"]
BELOW["serve"] = {"train"} | BELOW["train"]
BELOW["cmd"] = set(BELOW)

FOLDERS = {name: name if name in ("store", "kernels", "cmd") else os.path.join("src", name) for name in BELOW}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
GENERATED = ("kernels_sources.h", "numerics_sources.h")


def violations(root):
    found = []
    known = {os.path.normpath(folder) for folder in FOLDERS.values()}
    for name in sorted(os.listdir(os.path.join(root, "src"))):
        if os.path.isdir(os.path.join(root, "src", name)) and os.path.join("src", name) not in known:
            found.append(f"src/{name}: a layer that check_layers.py does not know")
    for layer, folder in FOLDERS.items():
        for place, _, files in sorted(os.walk(os.path.join(root, folder))):
            for file in sorted(files):
                if not file.endswith((".cpp", ".h", ".cu")):
                    continue
                path = os.path.join(place, file)
                shown = os.path.relpath(path, root)
                for include in INCLUDE.findall(open(path, encoding="utf-8").read()):
                    target = include.split("/")[0]
                    if "/" not in include:
                        if include not in GENERATED:
                            found.append(f'{shown}: "{include}" names no layer: write "layer/file.h"')
                    elif target not in BELOW:
                        found.append(f'{shown}: "{include}" is of no known layer')
                    elif target != layer and target not in BELOW[layer]:
                        found.append(f'{shown}: {layer} may not include "{include}"')
    return found


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for folder in FOLDERS.values():
            os.makedirs(os.path.join(root, folder))
        files = {
            "src/base/a.h": '#include "base/b.h"\n#include <vector>\n',
            "store/good.cpp": '#include "base/a.h"\n#include "formats/x.h"\n',
            "store/bad.cpp": '#include "registry/runs.h"\n',
            "kernels/onednn/bad.cpp": '  #  include "store/store.h"\n',
            "src/train/bad.h": '#include "cmd/cli.h"\n',
            "src/graph/bad.cpp": '#include "session.h"\n',
        }
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            open(os.path.join(root, name), "w").write(text)
        broken = {line.split(":")[0] for line in violations(root)}
        expected = {name for name in files if "bad" in name}
        assert broken == expected, f"self-test: found {sorted(broken)}, expected {sorted(expected)}"


self_test()
problems = violations(sys.argv[1])
print("\n".join(problems) or "layers hold")
sys.exit(1 if problems else 0)
