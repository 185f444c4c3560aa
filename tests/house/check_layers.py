"""The layers of DESIGN 4: a file includes only its own layer and the layers below it, and nobody includes cmd/.

usage: check_layers.py SOURCE_FOLDER [BUILD_FOLDER]. Prints every include that breaks the rule; exits with 1 where there is one.
The check is first tried on a made-up tree, so that a rule that matches nothing does not pass.
"""
import os
import re
import sys
import tempfile


# What CMakeLists.txt declares: layer → the layers below it, layer → folder, layer → its floors, lowest first.
def declared(path):
    below, folders, floors = {}, {}, {}
    for line in open(path, encoding="utf-8").read().splitlines():
        name, second, *rest = line.split(" ")
        if second == "floors":
            floors[name] = rest
        else:
            folders[name] = second
            below[name] = set(rest) - {""}
            for one in sorted(below[name]):
                below[name] |= below[one]
    return below, folders, floors


BELOW, FOLDERS, FLOORS = declared(os.path.join(sys.argv[2], "layers.txt"))
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
GENERATED = re.compile(r"(\w+)_sources\.h")  # of a layer's own (CMakeLists.txt)
HASHED = re.compile(r"made by kernels/sources_digest\.cmake of: (.*)", re.I)


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
                        generated = GENERATED.fullmatch(include)
                        if generated and generated[1] != layer:
                            found.append(f'{shown}: "{include}" hashes the sources of another layer')
                        elif not generated and include != "compiled_by.h":
                            found.append(f'{shown}: "{include}" names no layer: write "layer/file.h"')
                    elif target not in BELOW:
                        found.append(f'{shown}: "{include}" is of no known layer')
                    elif target != layer and target not in BELOW[layer]:
                        found.append(f'{shown}: {layer} may not include "{include}"')
                    elif target == layer and floor_of(layer, path, root) < floor_of(layer, include_path(root, include), root):
                        found.append(f'{shown}: "{include}" stands on a floor above it')
    return found


def include_path(root, include):
    return os.path.join(root, os.path.dirname(FOLDERS[include.split("/")[0]]), include)


# The place of a file's folder in its layer's floors; 0 where the layer declares none.
def floor_of(layer, path, root):
    place = os.path.relpath(os.path.dirname(path), os.path.join(root, FOLDERS[layer]))
    while layer in FLOORS:
        if place in FLOORS[layer]:
            return FLOORS[layer].index(place)
        if place in ("", "."):
            break
        place = os.path.dirname(place) or "."
    return 0


# The key of a cached answer covers every source that its body links: the hash covers the layer and all layers below it.
# bug: the key of a quantization did not cover src/compress and src/formats, so changed code answered `unchanged`.
def unhashed(root, build):
    found = []
    for layer, folder in FOLDERS.items():
        header = os.path.join(build, "generated", f"{layer}_sources.h")
        texts = {
            os.path.relpath(os.path.join(place, file), root): open(os.path.join(place, file), encoding="utf-8").read()
            for place, _, files in os.walk(os.path.join(root, folder)) for file in files if file.endswith((".cpp", ".h"))
        }
        asking = sorted(name for name, text in texts.items() if re.search(r"\b(run_key|numerics_id)\(", text))
        if not asking:
            continue
        own = f'#include "{layer}_sources.h"'
        if not any(own in text for text in texts.values()):
            found.append(f"{asking[0]}: makes the key of a run, and {layer} has no {own}")
            continue
        for name in asking:
            if layer != "train" and "train_sources()" in texts[name]:
                found.append(f"{name}: its key hashes the sources of train, not those of {layer}")
        if not os.path.exists(header):
            found.append(f"{asking[0]}: {header} is not there: build mlx first")
            continue
        hashed = set(HASHED.search(open(header, encoding="utf-8").read())[1].split())
        linked = {FOLDERS[one] for one in BELOW[layer] | {layer}}
        for missing in sorted(linked - hashed):
            found.append(f"{asking[0]}: {layer} links {missing}, which is not in the keys of its runs")
    return found


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for folder in FOLDERS.values():
            os.makedirs(os.path.join(root, folder))
        files = {
            "src/base/a.h": '#include "base/b.h"\n#include <vector>\n',
            "store/good.cpp": '#include "base/a.h"\n#include "formats/x.h"\n',
            "store/bad.cpp": '#include "registry/versions/runs.h"\n',
            "kernels/onednn/bad.cpp": '  #  include "store/pack/store.h"\n',
            "src/train/bad.h": '#include "cmd/cli/cli.h"\n',
            "src/graph/bad.cpp": '#include "session.h"\n',
        }
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            open(os.path.join(root, name), "w").write(text)
        broken = {line.split(":")[0] for line in violations(root)}
        expected = {name for name in files if "bad" in name}
        assert broken == expected, f"self-test: found {sorted(broken)}, expected {sorted(expected)}"
    with tempfile.TemporaryDirectory() as root:
        for folder in [*FOLDERS.values(), "generated"]:
            os.makedirs(os.path.join(root, folder))
        for name in ("train", "compress"):
            hashed = FOLDERS.values() if name == "train" else [FOLDERS[one] for one in BELOW["train"]]
            open(os.path.join(root, f"generated/{name}_sources.h"), "w").write(
                f"// Made by kernels/sources_digest.cmake of: {' '.join(hashed)}\n")
            open(os.path.join(root, f"src/{name}/a.cpp"), "w").write(f'#include "{name}_sources.h"\nrun_key(numerics_id());\n')
        open(os.path.join(root, "src/serve/a.cpp"), "w").write("numerics_id(train_sources())\n")
        told = [line.split(":")[0] for line in unhashed(root, root)]
        expected = ["src/compress/a.cpp"] * 2 + ["src/serve/a.cpp"]
        assert told == expected, f"self-test: found {told}, expected {expected}"


self_test()
problems = violations(sys.argv[1]) + (unhashed(*sys.argv[1:3]) if len(sys.argv) > 2 else [])
print("\n".join(problems) or "layers hold")
sys.exit(1 if problems else 0)
