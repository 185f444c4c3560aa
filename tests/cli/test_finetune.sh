# Fine-tuning through the real binary: `init` starts from a version, `freeze` leaves parameters as they were.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=trained.sh
source "$here/trained.sh"

# Other data of the same kind, with other classes.
python3 - <<'PY'
import os, random, struct
random.seed(11)
os.makedirs("data/spots")
pixels, labels = bytearray(), bytearray()
for i in range(90):
    label = i % 3
    labels.append(label)
    for y in range(6):
        for x in range(6):
            pixels.append((30, 90, 150)[label] * ((x + y) % 2) + random.randrange(60))
open("data/spots/train-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, 90, 6, 6) + pixels)
open("data/spots/train-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, 90) + labels)
PY
mlx add data/spots >/dev/null 2>&1
mlx commit -m spots >/dev/null
config() { # MODEL-LINES: a config that trains spots
  printf '[data]\ndataset = "data/spots"\n[model]\nname = "spots"\n%s\n[train]\nepochs = 2\nbatch = 30\n' "$1" >spots.toml
}
normalization() { mlx show "$1" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["model"]["preprocessing"])'; }

# The family comes from the base, the head is new, frozen parameters keep their bits, and so does the normalization.
config 'init = "clf@v1"
freeze = ["conv1.*"]'
expect 0 mlx train -c spots.toml
has "$out" "started from clf@v1; fresh: classifier.bias, classifier.weight"
same "$(tensors spots | grep conv1)" "$(tensors clf@v1 | grep conv1)"
[ "$(tensors spots | grep classifier)" != "$(tensors clf@v1 | grep classifier)" ] || fail "the classifier was not trained"
same "$(normalization spots)" "$(normalization clf@v1)"
expect 0 mlx show spots
has "$out" "from          clf@v1"
[[ $out =~ trained\ +435\ .*frozen\ +40\  ]] || fail "what is trained and what is frozen is not said: $out"
expect 0 mlx lineage spots
has "$out" "clf@v1"
has "$out" "data/bars@v1"
expect 0 mlx log --oneline
has "$out" "fine-tuned from clf@v1 on data/spots@v1"
expect 0 mlx train -c spots.toml
has "$out" "unchanged"
id=$(mlx show spots --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["digest"])')

# The base is part of the key: another one trains anew. Without freeze everything moves.
sed 's/epochs = 2/epochs = 3/' train.toml >more.toml
mlx train -c more.toml >/dev/null 2>&1
config 'init = "clf@v2"
freeze = ["conv1.*"]'
expect 0 mlx train -c spots.toml --json
same "$(json "d['unchanged'], d['digest'] == '$id'")" "(False, False)"
config 'init = "clf@v1"'
expect 0 mlx train -c spots.toml
[ "$(tensors spots | grep conv1)" != "$(tensors clf@v1 | grep conv1)" ] || fail "nothing was frozen, yet conv1 is as before"

# The same classes: the head is kept. The same bits from one thread, killed and resumed.
printf '[data]\ndataset = "data/bars"\n[model]\nname = "more"\ninit = "clf@v1"\nfreeze = ["conv*"]\n[train]\nepochs = 2\nbatch = 24\n' >more.toml
expect 0 mlx train -c more.toml --json
same "$(json "d['summary']['init']['fresh']")" "[]"
id=$(json "d['digest']")
expect 0 env MLX_THREADS=1 "$mlx_binary" train -c more.toml --force --json
same "$(json "d['digest']")" "$id"
killed_training 16 -c more.toml --force
expect 0 mlx train -c more.toml --resume "$run" --json
same "$(json "d['digest']")" "$id"

# A config with another family takes tensors that match by name; all that do not fit are named with both shapes.
config 'init = "clf@v1"
family = "cnn"
layers = [{ conv = 4, activation = "relu" }, { flatten = true }, { dense = 8 }]'
expect 0 mlx train -c spots.toml
has "$out" "fresh: classifier.bias, classifier.weight, dense1.bias, dense1.weight"
config 'init = "clf@v1"
family = "cnn"
layers = [{ conv = 6, kernel = 5, activation = "relu" }, { flatten = true }]'
error 2 "[model] init = \"clf@v1\": its weights do not fit: 'conv1.bias' is [4] there and [6] here, 'conv1.weight' is [4,3,3,1] there and [6,5,5,1] here" mlx train -c spots.toml
has "$err" "spots.toml:5:"
config 'init = "clf@v1"
family = "mlp"
hidden = [8]'
error 2 "none of this model's tensors" mlx train -c spots.toml
mlx quantize clf@v1 --calibrate data/bars >/dev/null 2>&1
config 'init = "clf@v3"'
error 2 "it is int8 and cannot be trained" mlx train -c spots.toml
config 'init = "clf@v9"'
error 3 "no version 'v9'" mlx train -c spots.toml
config 'init = "data/bars"'
error 2 "is a dataset" mlx train -c spots.toml

# Patterns that name nothing, or everything.
config 'init = "clf@v1"
freeze = ["cnov*"]'
error 2 "did you mean \"conv*\"?" mlx train -c spots.toml
has "$err" "spots.toml:6: [model] freeze: \"cnov*\" names no parameter"
config 'init = "clf@v1"
freeze = ["*"]'
error 2 "it leaves nothing to train" mlx train -c spots.toml
config 'init = "clf@v1"
freeze = "conv1"'
error 2 "spots.toml:6: [model] freeze" mlx train -c spots.toml

# bug: a fine-tuning on rows learned the base's target, whatever the config named; and other features were taken as the base's.
cd "$work" && mkdir rows && cd rows && mlx init -q >/dev/null 2>&1 && mkdir data
python3 -c "
import random
random.seed(3)
print('a,b,kind,other')
for i in range(400):
  a, b = random.random(), random.random()
  print(f'{a:.4f},{b:.4f},{\"hi\" if a > 0.5 else \"lo\"},{\"yes\" if b > 0.5 else \"no\"}')" >data/train.csv
mlx add -q data >/dev/null && mlx commit -q -m rows >/dev/null
config() { printf '[data]\ndataset = "data"\ntarget = "%s"\nfeatures = %s\n[model]\nname = "%s"\n%s\n[train]\nepochs = 40\nbatch = 32\n' "$@" >run.toml; }
config kind '["a", "b"]' base 'family = "mlp"
hidden = [16]'
expect 0 mlx train -c run.toml
config other '["b", "a"]' tuned 'init = "base"'
expect 0 mlx train -c run.toml --json
same "$(json 'd["summary"]["init"]["fresh"], d["summary"]["accuracy"] > 0.9')" "(['classifier.bias', 'classifier.weight'], True)"
printf 'a,b\n0.1,0.9\n0.9,0.1\n' >two.csv
expect 0 mlx predict tuned two.csv --json
same "$(json '[p["label"] for p in d["predictions"]]')" "['yes', 'no']"
config kind '["a"]' less 'init = "base"'
error 2 "the model that it starts from takes others" mlx train -c run.toml
config b '["a"]' number 'init = "base"'
error 2 "takes others" mlx train -c run.toml
