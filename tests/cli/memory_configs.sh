# shellcheck shell=bash
# Small data and configs of trainings whose memory is looked at, in the current folder; sourced by test_memory.sh and
# tests/bench/memory.sh.
python3 - <<'PY'
import os, random, struct
random.seed(6)
os.makedirs("data/words")
open("data/words/words.txt", "w").write(" ".join(random.choice(["mill", "stone", "river", "wheel"]) for _ in range(6000)))
os.makedirs("data/noise")
open("data/noise/train-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, 128, 24, 24) + random.randbytes(128 * 576))
open("data/noise/train-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, 128) + bytes(i % 4 for i in range(128)))
PY
text() { # NAME FAMILY LAYERS WIDTH CONTEXT BATCH EXTRA-TRAIN-LINES
  printf '[data]\ndataset = "data/words"\n[model]\nname = "%s"\nfamily = "%s"\nlayers = %s\nwidth = %s\nheads = 2\ncontext = %s\ndropout = 0.1\n[train]\nepochs = 2\nbatch = %s\noptimizer = "adamw"\n%s\n' "$@" >"$1.toml"
}
images() { # NAME MODEL-LINES
  printf '[data]\ndataset = "data/noise"\naugment = { shift = 1 }\n[model]\nname = "%s"\n%s\n[train]\nepochs = 2\nbatch = 64\n' "$@" >"$1.toml"
}
