#!/usr/bin/env bash
# The peak of memory that `mlx train` says before its first step, against the one that it comes to: small networks of every
# family, on images, rows and text, with and without checkpoints, with a profile, and with many classes to evaluate.
#   tests/bench/memory.sh MLX
# Exits with 1 where one is off by more than 5 % and 8 MiB.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
mlx=$(readlink -f "${1:?usage: memory.sh MLX}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# shellcheck source=../cli/memory_configs.sh
source "$here/../cli/memory_configs.sh"
python3 - <<'PY'
import os, random
random.seed(6)
def rows(name, count, classes):
    os.makedirs(f"data/{name}")
    with open(f"data/{name}/train.csv", "w") as out:
        out.write("a,b,c,d,class\n")
        for i in range(count):
            out.write(",".join(f"{random.gauss(0, 1):.3f}" for _ in range(4)) + f",c{i % classes}\n")
rows("rows", 400, 3)
rows("classes", 30000, 300)
PY
"$mlx" init >/dev/null 2>&1
"$mlx" add data/words data/noise data/rows data/classes >/dev/null 2>&1
"$mlx" commit -m data >/dev/null

table() { # NAME DATASET HOLD-OUT
  printf '[data]\ndataset = "data/%s"\ntarget = "class"\nhold_out = %s\n[model]\nname = "%s"\nfamily = "mlp"\nhidden = [16]\n[train]\nepochs = 3\nbatch = 32\n' "$2" "$3" "$1" >"$1.toml"
}
text gpt2-1x16 gpt2 1 16 32 8 ''
text gpt2-4x128 gpt2 4 128 128 48 ''
text gpt2-4x256 gpt2 4 256 32 8 ''
text llama-2x32 llama 2 32 64 32 ''
for width in 64 256 512 1024 2048 3072; do images "mlp-$width" "family = \"mlp\"
hidden = [$width, $width]"; done
images cnn 'family = "cnn"
layers = [{ conv = 16, norm = "batch" }, { conv = 16, norm = "batch" }, { pool = "max", size = 2 }, { conv = 16, norm = "batch" }, { conv = 16 }, { pool = "global" }]'
images resnet-20 'family = "resnet"
depth = 20
width = 0.5'
images mobilenet 'family = "mobilenet_v2"
halvings = 2
width = 0.25'
table rows rows 0.1
table classes classes 0.8

off=0
measure() { # CASE HOW OPTIONS...
  local line
  line=$("$mlx" train -c run.toml --force --json "${@:3}" 2>/dev/null | python3 -c '
import json, sys
summary = json.load(sys.stdin)["summary"]
said, took = summary["memory"]["peak"] / 2**20, summary["peak_memory"] / 2**20
good = abs(said - took) <= max(8, 0.05 * took)
print(f"{sys.argv[1]:<12} {sys.argv[2]:<24} said {said:7.1f} MiB   took {took:7.1f} MiB   {said - took:+6.1f}   " + ("ok" if good else "OFF"))
' "$1" "$2")
  echo "$line"
  [[ $line == *ok ]] || off=$((off + 1))
}
echo "memory of trainings  $(date -u '+%Y-%m-%d %H:%M UTC')  tests/bench/memory.sh $1"
echo "machine: $(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
for config in *.toml; do
  name=${config%.toml}
  cp "$config" run.toml
  measure "$name" "checkpoints by epoch"
  echo 'checkpoint_every = "100 epochs"' >>run.toml
  measure "$name" "no checkpoint"
  measure "$name" "no checkpoint, profile" --profile
  rm run.toml
done
printf '%s\n' "$(cat rows.toml)" 'checkpoint_every = "1 steps"' >run.toml
measure rows "a checkpoint a step"
echo "$off off by more than 5 % and 8 MiB"
[ "$off" -eq 0 ]
