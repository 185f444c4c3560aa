# LoRA through the real binary: adapters beside a frozen base, small in the store, merged on demand.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

python3 - <<'PY'
import os, random
for seed, words in ((6, ["mill", "stone", "river", "wheel"]), (7, ["stone", "bread", "water", "field"])):
    random.seed(seed)
    os.makedirs(f"data/words{seed}")
    open(f"data/words{seed}/words.txt", "w").write(" ".join(random.choice(words) for _ in range(1200)))
PY
mlx init >/dev/null 2>&1
mlx add data/words6 data/words7 >/dev/null 2>&1
mlx commit -m words >/dev/null
base() { # FAMILY: trains FAMILY@v1
  printf '[data]\ndataset = "data/words6"\n[model]\nname = "%s"\nfamily = "%s"\nlayers = 2\nwidth = 64\nheads = 2\ncontext = 16\n[train]\nepochs = 2\nbatch = 16\noptimizer = "adamw"\n' "$1" "$1" >"$1.toml"
  mlx train -c "$1.toml" >/dev/null 2>&1
}
tune() { # MODEL-LINES: a config that fine-tunes
  printf '[data]\ndataset = "data/words7"\nhold_out = 500\n[model]\nname = "tuned"\n%s\n[train]\nepochs = 2\nbatch = 16\noptimizer = "adamw"\nlearning_rate = 1e-2\n' "$1" >tune.toml
}

for family in gpt2 llama; do
  base "$family"
  tune "init = \"$family@v1\"
lora = { rank = 4, alpha = 8 }"
  expect 0 mlx train -c tune.toml --json
  same "$(json "d['summary']['init']['fresh']")" "[]"
  tuned=$(json "d['model']") id=$(json "d['digest']")

  # Every tensor of the base is there bit for bit; each block has two more for each of its two attention matrices.
  same "$(tensors "$tuned" | grep -v lora_)" "$(tensors "$family@v1")"
  same "$(tensors "$tuned" | grep -c lora_)" 8
  [ "$(tensors "$tuned" | grep lora_b | awk '{print $2}' | sort -u | wc -l)" = 4 ] || fail "the adapters were not trained"
  expect 0 mlx show "$tuned" --stat --json
  python3 - "$out" <<'PY' || fail "what is stored, or what is said of it: $out"
import json, sys
d = json.loads(sys.argv[1])
adapters = sum(l["parameters"] for l in d["layers"] if ".lora_" in l["name"])
assert d["totals"]["parameters"] - d["totals"]["frozen"] == adapters > 0, d["totals"]
assert d["storage"]["own_bytes"] < 4 * adapters + 40000 < d["storage"]["logical_bytes"] / 2, d["storage"]
PY

  # It is used as any other version, and learns more than the base knew.
  expect 0 mlx eval "$tuned" --data data/words7 --split train --json
  after=$(json "d['metrics']['bits_per_byte']")
  expect 0 mlx eval "$family@v1" --data data/words7 --split train --json
  python3 -c "import sys; sys.exit($after > 0.9 * $(json "d['metrics']['bits_per_byte']"))" || fail "$family: nothing was learned"
  expect 0 mlx predict "$tuned" --prompt "sto" --max-tokens 12 --temperature 0
  said=$out

  # The same bits with one thread, killed and resumed.
  expect 0 env MLX_THREADS=1 "$mlx_binary" train -c tune.toml --force --json
  same "$(json "d['digest']")" "$id"
  killed_training 16 -c tune.toml --force
  expect 0 mlx train -c tune.toml --resume "$run" --json
  same "$(json "d['digest']")" "$id"

  # Merged on demand, without training again: the base's tensors by name and shape, the same figures and words.
  expect 0 mlx train -c tune.toml --merge --json
  same "$(json "d['unchanged'], d['adapters'] == '$tuned', d['digest'] == '$id'")" "(False, True, False)"
  merged=$(json "d['model']")
  grep -q "$(json "d['digest']")" models/tuned.mlx || fail "the pointer does not name the merged version"
  same "$(tensors "$merged" | awk '{print $1}')" "$(tensors "$family@v1" | awk '{print $1}')"
  same "$(tensors "$merged" | grep mlp)" "$(tensors "$family@v1" | grep mlp)"
  expect 0 mlx eval "$merged" --data data/words7 --split train --json
  python3 -c "import sys; sys.exit(abs($after - $(json "d['metrics']['bits_per_byte']")) > 1e-5)" || fail "$family: merging changed the figures"
  expect 0 mlx predict "$merged" --prompt "sto" --max-tokens 12 --temperature 0
  same "$out" "$said"
  expect 0 mlx train -c tune.toml --merge
  has "$out" "unchanged"
  has "$out" "the weights of $tuned with its adapters merged"
done

# Training from a version with adapters merges them first, with new adapters or without.
tune "init = \"$tuned\"
lora = { rank = 2, targets = [\"*.mlp.up.*\"], dropout = 0.1 }"
expect 0 mlx train -c tune.toml --json
again=$(json "d['model']")
same "$(tensors "$again" | grep -v lora_)" "$(tensors "$merged")"
same "$(tensors "$again" | grep lora_ | awk '{print $1}' | tr '\n' ' ')" \
  "block0.mlp.up.weight.lora_a block0.mlp.up.weight.lora_b block1.mlp.up.weight.lora_a block1.mlp.up.weight.lora_b "

# What does not fit is said with file and line.
bad() { # MODEL-LINES MESSAGE
  tune "$1"
  error 2 "$2" mlx train -c tune.toml
  has "$err" "tune.toml:"
}
bad 'init = "gpt2@v1"
lora = { rank = 0 }' "rank"
bad 'init = "gpt2@v1"
lora = { rank = 65 }' "65 is more than 'block0.attention.qkv.weight' has, which is 192x64"
has "$err" "tune.toml:7:"
bad 'init = "gpt2@v1"
lora = { alpha = -1 }' "alpha"
bad 'init = "gpt2@v1"
lora = { rnak = 4 }' "did you mean 'rank'"
bad 'init = "gpt2@v1"
lora = { targets = ["*.atention.*"] }' "names no weights of a layer"
bad 'init = "gpt2@v1"
lora = { targets = [] }' "at least one pattern"
bad 'init = "gpt2@v1"
lora = 4' "lora"
bad 'init = "gpt2@v1"
freeze = ["tokens.*"]
lora = { rank = 4 }' "with lora only the adapters are trained"
sed 's/heads = 2/heads = 2\nlora = { rank = 4 }/' gpt2.toml >bad.toml
error 2 "name one with init" mlx train -c bad.toml
tune 'init = "gpt2@v1"
layers = 3
lora = { rank = 4 }'
error 2 "lora trains adapters only" mlx train -c tune.toml
error 2 "--merge is for models with adapters" mlx train -c gpt2.toml --merge

# QLoRA: the base's integers stay as they are, bit for bit, beside adapters that learn; the same bits with one thread, killed and
# resumed, and less memory than beside the f32 base.
for bits in 8 4; do
  expect 0 mlx quantize llama@v1 --to int$bits --json
  small=$(json "d['model']")
  tune "init = \"$small\"
lora = { rank = 4, alpha = 8 }"
  expect 0 mlx train -c tune.toml --json
  tuned=$(json "d['model']") id=$(json "d['digest']") needs=$(json "d['summary']['memory']['weights']")
  same "$(tensors "$tuned" | grep -v lora_)" "$(tensors "$small")"
  same "$(tensors "$tuned" | grep -c lora_)" 8
  expect 0 mlx show "$tuned" --json
  has "$out" "int$bits"
  expect 0 mlx eval "$tuned" --data data/words7 --split train --json
  after=$(json "d['metrics']['bits_per_byte']")
  expect 0 mlx eval "$small" --data data/words7 --split train --json
  python3 -c "import sys; sys.exit($after > 0.9 * $(json "d['metrics']['bits_per_byte']"))" || fail "int$bits: nothing was learned"
  expect 0 env MLX_THREADS=1 "$mlx_binary" train -c tune.toml --force --json
  same "$(json "d['digest']")" "$id"
  tune "init = \"llama@v1\"
lora = { rank = 4, alpha = 8 }"
  expect 0 mlx train -c tune.toml --json
  python3 -c "import sys; sys.exit($needs > 0.8 * $(json "d['summary']['memory']['weights']"))" || fail "int$bits: no memory was saved"
  tune "init = \"$small\"
lora = { rank = 4, alpha = 8 }"
done
killed_training 16 -c tune.toml --force
expect 0 mlx train -c tune.toml --resume "$run" --json
same "$(json "d['digest']")" "$id"
expect 0 mlx predict "$tuned" --prompt "sto" --max-tokens 12 --temperature 0
error 2 "adapters cannot be merged into them" mlx train -c tune.toml --merge
bad "init = \"$tuned\"
lora = { rank = 4 }" "adapters cannot be merged into them"
bad "init = \"$small\"" "it is int4 and cannot be trained"
has "$err" "lora = {}"
