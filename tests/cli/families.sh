# shellcheck shell=bash
# A repository with small images, text and rows, and a config for each family: cnn, resnet, mobile, gpt2, llama and mlp
# .toml, with several optimizers between them. Sourced after lib.sh.
bars 8 60 20 10 4
mkdir data/words data/table
python3 - <<'PY'
import random
random.seed(9)
open("data/words/words.txt", "w").write(" ".join(random.choice(["mill", "stone", "river"]) for _ in range(300)))
rows = ["a,b,y"] + [f"{a},{b},{a - 2 * b}" for a, b in ((random.randrange(9), random.randrange(9)) for _ in range(80))]
open("data/table/train.csv", "w").write("\n".join(rows) + "\n")
PY
mlx init >/dev/null 2>&1
mlx add data/bars data/words data/table >/dev/null 2>&1
mlx commit -m data >/dev/null

config() { # NAME DATASET MODEL-LINE...: writes NAME.toml, a line a key
  local name=$1 dataset=$2
  shift 2
  printf '%s\n' '[data]' "dataset = \"data/$dataset\"" "${data[@]}" '[model]' "name = \"$name\"" "$@" '[train]' 'epochs = 2' 'batch = 20' "${train[@]}" >"$name.toml"
}
data=() train=()
config cnn bars 'family = "cnn"' 'layers = [{ conv = 8, norm = "batch", activation = "gelu" }, { conv = 20, activation = "relu" }, { pool = "max", size = 2 }, { norm = "batch" }, { flatten = true }, { dense = 17 }]'
config resnet bars 'family = "resnet"' 'depth = 20' 'width = 0.5' 'stochastic_depth = 0.2'
config mobile bars 'family = "mobilenet_v2"' 'width = 0.25' 'halvings = 2' 'dropout = 0.1'
train=('optimizer = "muon"' 'clip = 1.0')
config gpt2 words 'family = "gpt2"' 'layers = 1' 'width = 24' 'heads = 2' 'context = 40'
train=('optimizer = "adamw"' 'clip = 1.0' 'ema = 0.9')
config llama words 'family = "llama"' 'layers = 1' 'width = 24' 'heads = 4' 'kv_heads = 2' 'context = 40'
data=('target = "y"') train=('loss = "huber"' 'optimizer = "lion"')
config mlp table 'family = "mlp"' 'hidden = [19, 8]'
