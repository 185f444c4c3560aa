"""Code compiled for an instruction set must not leak: a weak function (inline, template) of an AVX2 or AVX-512 object could be the
one copy that the linker keeps for the whole program. So the objects of mlx_kernels_avx2 and mlx_kernels_avx512 define no weak
functions.

usage: check_symbols.py SOURCE_FOLDER BUILD_FOLDER
"""
import os
import subprocess
import sys
import tempfile


def weak_functions(objects):
    found = []
    for path in objects:
        listing = subprocess.run(["nm", "-C", "--defined-only", path], check=True, capture_output=True, text=True).stdout
        for line in listing.splitlines():
            kind, name = line.split(None, 2)[1:]
            if kind in ("W", "w", "u"):  # weak function, or unique global
                found.append(f"{path}: {name}")
    return found


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "a.cpp"), os.path.join(folder, "a.o")
        open(source, "w").write("inline int leak(int x) { return x + 1; }\nint (*keep)(int) = leak;\n")
        subprocess.run(["c++", "-c", source, "-o", target], check=True)
        assert weak_functions([target]), "self-test: an inline function was not found"


self_test()
ISAS = ("mlx_kernels_avx2", "mlx_kernels_avx512")
objects = []
for place, _, files in os.walk(os.path.join(sys.argv[2], "kernels")):
    if any(os.sep + isa + ".dir" in place for isa in ISAS):
        objects += [os.path.join(place, file) for file in sorted(files) if file.endswith(".o")]
sources = [name for name in os.listdir(os.path.join(sys.argv[1], "kernels", "simd")) if name.endswith(".cpp")]
for isa in ISAS:
    if sum(os.sep + isa + ".dir" in path for path in objects) < len(sources):
        sys.exit(f"fewer objects of {isa} in the build folder than sources in kernels/simd: build first")
# Sanitizers and unoptimised builds add helpers of their own (asan's constructors are not weak; ubsan's are not functions of ours).
problems = weak_functions(objects)
print("\n".join(problems) or f"{len(objects)} AVX2 and AVX-512 objects define no weak functions")
sys.exit(1 if problems else 0)
