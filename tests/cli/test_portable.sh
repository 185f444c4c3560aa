# `mlx train --numerics portable` through the real binary: every family gives the same version by AVX2 and by AVX-512.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

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

for level in avx2 avx512; do
  said=$(MLX_KERNELS=$level mlx train -c missing.toml 2>&1 || true)
  if [[ $said != *missing.toml* ]]; then
    echo "skipped: $said"
    exit 77
  fi
done
for name in cnn resnet mobile gpt2 llama mlp; do
  MLX_KERNELS=avx2 expect 0 mlx train -c "$name.toml" --numerics portable --json
  digest=$(json "d['digest']")
  MLX_KERNELS=avx512 expect 0 mlx train -c "$name.toml" --numerics portable --force --json
  same "$name $(json "d['digest']")" "$name $digest"
  MLX_KERNELS=avx512 expect 0 mlx train -c "$name.toml" --numerics portable --json # one key for all kernels
  same "$(json "d['unchanged']")" True
done

# It stands in the model; the config may say it; native numerics are another run. Evaluated with any kernels.
expect 0 mlx cat cnn:model.json
has "$out" '"numerics":"portable"'
sed 's/batch = 20/batch = 20\nnumerics = "portable"/' cnn.toml >said.toml
expect 0 mlx train -c said.toml
has "$out" unchanged
MLX_KERNELS=avx512 expect 0 mlx train -c said.toml --numerics native --json
same "$(json "d['unchanged']")" False
expect 0 mlx cat cnn:model.json
lacks "$out" numerics
MLX_KERNELS=ref expect 0 mlx eval cnn@v1 --data data/bars --split train
MLX_KERNELS=ref error 2 "not 'ref'" mlx train -c cnn.toml --numerics portable
error 2 "portable numerics are f32" mlx train -c cnn.toml --numerics portable --precision bf16
error 2 "expected one of native, portable" mlx train -c cnn.toml --numerics exact
sed 's/batch = 20/batch = 20\nnumerics = "exact"/' cnn.toml >said.toml
error 2 "said.toml:10: [train] numerics" mlx train -c said.toml
