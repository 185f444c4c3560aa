"""Rules that files keep: at most 500 lines, an opening comment, one owner for each C library and for the kinds of datasets,
and above kernels/ no question for a certain backend.

usage: check_files.py SOURCE_FOLDER [BUILD_FOLDER]
"""
import os
import re
import sys
import tempfile

SUFFIXES = (".cpp", ".h", ".py", ".sh", ".cu")
OPENING = ("//", "/*", "#", '"""')
# header → the only files or folders that may include it
OWNERS = {
    r"sqlite3\.h": ("store/sqlite.", "store/sqlite_copy.", "store/sqlite_table."),
    r"git2(\.h|/.*)": ("src/base/git.", "src/base/git_open."),
    r"(oneapi/)?dnnl.*": ("kernels/onednn/",),
    r"mpi\.h": ("src/dist/mpi/",),
    r"CLI/.*": ("cmd/cli/cli.cpp",),
    r"zstd\.h": ("store/format/codec.", "src/data/readers/byte_stream.", "tests/data/test_tables.", "tests/fuzz/seeds."),
    r"curl/.*": ("store/remote/curl/",),
    r"jpeglib\.h|png\.h|tiffio\.h|webp/.*": ("src/data/images/codecs/",),
    r"toml\+\+/.*": ("src/base/toml",),
    r"(cuda|cublas|cudnn).*": ("kernels/cuda/", "kernels/cuda_emulation/"),
    r"openssl/.*": ("src/base/",),
}
# What the code may name only in these folders; tests name it anywhere. Above src/data nothing asks which kind a dataset is: it
# asks the kind's row (data/kind.h), so that a new kind is one file and one row.
NAMES = {
    r"\b(images|rows|text)_kind\b": ("src/data/",),
    r"\bKind::k(Images|Features|Tokens|Rows|Text)\b": ("src/data/",),
    r"\bForm::k\w+": ("src/data/", "src/nn/"),
}

# Code above kernels/ asks what a backend can do (kernels/backend.h). bug: what chose or described one named its library.
ABOVE_KERNELS = ("src/", "cmd/")
CERTAIN_BACKEND = re.compile(r'\b(backend_named|cuda_\w+|onednn_\w+)\(|"(cuda|onednn)"')


def problems_of(root):
    found = []
    for top in ("src", "store", "kernels", "cmd", "tests"):
        for place, _, files in sorted(os.walk(os.path.join(root, top))):
            for file in sorted(files):
                if not file.endswith(SUFFIXES):
                    continue
                path = os.path.join(place, file)
                shown = os.path.relpath(path, root)
                text = open(path, encoding="utf-8").read()
                lines = text.count("\n")
                if lines > 500:
                    found.append(f"{shown}: {lines} lines; find the seam (at most 500)")
                if not text.startswith(OPENING):
                    found.append(f"{shown}: does not open with what it is, who uses it, what it guarantees")
                if shown.startswith(ABOVE_KERNELS) and CERTAIN_BACKEND.search(text):
                    found.append(f"{shown}: names a backend; ask for what it can do (kernels/backend.h)")
                for include in re.findall(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', text, re.M):
                    for header, owners in OWNERS.items():
                        if re.fullmatch(header, include) and not shown.startswith(owners):
                            found.append(f"{shown}: <{include}> belongs to {' and '.join(owners)}")
                for name, owners in NAMES.items():
                    if re.search(name, text) and not shown.startswith(("tests/", *owners)):
                        found.append(f"{shown}: names one kind of dataset ({name}): ask its row (data/kind.h)")
    return found + missing_fuzz_sources(root)


def missing_fuzz_sources(root):
    """The fuzz targets name their sources, and only CI configures them."""
    lists = os.path.join(root, "tests/fuzz/CMakeLists.txt")
    if not os.path.exists(lists):
        return []
    text = open(lists, encoding="utf-8").read()
    folders = {"base": "src/base", "store": "store", "registry": "src/registry"}
    named = [f"{folder}/{name}.cpp" for group, folder in folders.items()
             for sources in re.findall(rf"set\({group} ([^)]*)\)", text) for name in sources.split()]
    return [f"tests/fuzz/CMakeLists.txt: there is no {source}" for source in named
            if not os.path.exists(os.path.join(root, source))]


def self_test():
    with tempfile.TemporaryDirectory() as root:
        files = {
            "src/base/long.cpp": "// long\n" * 501,
            "src/base/bare.cpp": "int x;\n",
            "src/data/owner.cpp": "// a\n#include <sqlite3.h>\n",
            "store/sqlite.cpp": "// a\n#include <sqlite3.h>\n",
            "kernels/x.cpp": "// a\n#include <oneapi/dnnl/dnnl.hpp>\n",
            "kernels/x.cu": "// a\n#include <curl/curl.h>\n",
            "src/graph/x.h": "// a\n#include <cuda_runtime.h>\n",
            "src/train/device.cpp": "// a\nif (backend == kernels::cuda_backend()) return;\n",
            "cmd/backend.cpp": "// a\nreturn kernels::cuda_backend();\n",
            "src/work/numerics.cpp": "// a\nout[\"onednn\"] = kernels::library_of(backend);\n",
            "src/nn/x.h": "// a\n#include <cublasLt.h>\n",
            "src/train/kinds.cpp": "// a\nif (about.kind == data::Kind::kTokens) {}\n",
            "src/train/rows.cpp": "// a\nif (about.kind == &data::text_kind) {}\n",
            "cmd/form.cpp": "// a\nif (form == data::Form::kImages) {}\n",
            "src/nn/form.cpp": "// a\nif (form == data::Form::kImages || kind == InputKind::kImages) {}\n",
            "src/data/kind.cpp": "// a\nconst Kind* kKinds[] = {&text_kind};\n",
        }
        for name, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            open(os.path.join(root, name), "w").write(text)
        broken = {line.split(":")[0] for line in problems_of(root)}
        expected = set(files) - {"store/sqlite.cpp", "src/nn/form.cpp", "src/data/kind.cpp"}
        assert broken == expected, f"self-test: found {sorted(broken)}, expected {sorted(expected)}"


self_test()
problems = problems_of(sys.argv[1])
print("\n".join(problems) or "files hold to the rules")
sys.exit(1 if problems else 0)
