# A graph from outside through the real binary: it enters as a folder, trains on, evaluates, predicts, quantizes and is
# served, for rows, images and text.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
trap '[ -z "${server:-}" ] || kill -9 "$server" 2>/dev/null || true; cleanup' EXIT

bars 5 120 40 6 3
mkdir -p data/ring data/words
python3 - <<'PY'
import random
random.seed(2)
for name, count in (("train", 600), ("test", 120)):
    with open(f"data/ring/{name}.csv", "w") as f:
        f.write("x,y,where\n")
        for i in range(count):
            x, y = random.uniform(-1, 1), random.uniform(-1, 1)
            f.write(f"{x:.4f},{y:.4f},{'in' if x * x + y * y < 0.6 else 'out'}\n")
open("data/words/words.txt", "w").write(" ".join(random.choice(["mill", "stone", "river"]) for _ in range(800)))
PY
python3 "$here/outside.py" rows nets/circle
python3 "$here/outside.py" images nets/bars
mlx init >/dev/null 2>&1
mlx add data/ring data/bars data/words >/dev/null 2>&1
mlx commit -m data >/dev/null
config() { # NAME DATASET DATA-KEYS MODEL-KEYS TRAIN-KEYS
  printf '%s\n' '[data]' "dataset = \"data/$2\"" "$3" '[model]' "name = \"$1\"" "$4" '[train]' 'batch = 20' "$5" >"$1.toml"
}
accuracy() { # MODEL DATASET
  expect 0 mlx eval "$1" -d "data/$2" -s test --json
  json "d['metrics']['accuracy']"
}
above() { python3 -c 'import sys; sys.exit(not float(sys.argv[1]) > float(sys.argv[2]))' "$1" "$2" || fail "expected more than $2, got $1"; }

# Import: nothing by a dry run, the same again unchanged; products and what is added to them are linear layers then.
expect 0 mlx import model nets/circle -n
has "$out" "circle  3 operations, 4 tensors  would be imported"
error 3 "circle" mlx show circle
expect 0 mlx import model nets/circle --json
same "$(json "d['schema'], d['from'], d['model'], d['status']")" "('mlx.import/1', 'model', 'circle@v1', 'imported')"
expect 0 mlx import model nets/circle
has "$out" "unchanged"
expect 0 mlx import model nets/bars --name outside
has "$out" "outside@v1"
same "$(mlx cat outside:model.json | jq -c '[.graph.nodes[].op]')" '["reshape","transpose","linear","relu","reduce","arithmetic","linear"]'
[ -f models/outside.mlx ] || fail "no pointer to the model"

# What it is imported as answers as the folder does.
printf '{"x": 0.9, "y": 0.8}\n{"x": -0.1, "y": 0.2}\n' >two.jsonl
probabilities() { mlx predict "$1" two.jsonl --json | jq -c '[.predictions[] | .label, (.probability * 1e4 | round)]'; }
same "$(probabilities circle)" "$(probabilities ./nets/circle)"

# Rows: from chance to what can be learned, then eight bits that know as much.
above 0.8 "$(accuracy circle ring)"
config ring ring 'target = "where"' 'init = "circle"' $'epochs = 20\nlearning_rate = 0.05'
expect 0 mlx train -c ring.toml
has "$out" "started from circle@v1"
above "$(accuracy ring ring)" 0.93
expect 0 mlx quantize ring --calibrate data/ring
above "$(accuracy ring@v2 ring)" 0.93
same "$(mlx cat ring@v2:model.json | jq -c '[.graph.nodes[].op]')" '["quantize","linear","linear"]'
same "$(mlx cat ring@v2:model.json | jq -r '.signature.outputs[0].name')" "fc2.sum_out"
expect 0 mlx predict ring@v2 two.jsonl
has "$out" "out"
expect 0 mlx diff ring@v1 ring@v2
has "$out" "precision  f32 -> int8"

# Images, with primitive operations between the layers.
config bars bars '' 'init = "outside"' $'epochs = 30\nlearning_rate = 0.05'
expect 0 mlx train -c bars.toml
above "$(accuracy bars bars)" 0.9
expect 0 mlx quantize bars --calibrate data/bars
above "$(accuracy bars@v2 bars)" 0.9
expect 0 mlx report bars
# Other classes: the last product starts anew, with what stands behind it.
printf '[classes]\nnames = ["a", "b"]\n' >data/bars/dataset.toml
mlx add data/bars >/dev/null 2>&1
config fresh bars '' 'init = "outside"' 'epochs = 1'
expect 0 mlx train -c fresh.toml
has "$out" "started from outside@v1; fresh: head"
config fresh ring 'target = "where"' 'init = "outside"' 'epochs = 1'
error 2 "the graph takes 'images' f32[N,6,6,1], the dataset gives 'features' f32[batch,2]" mlx train -c fresh.toml

# Text: a language model's graph that no family has built.
config words words 'tokenizer = "bytes"' $'family = "gpt2"\nlayers = 1\nwidth = 32\nheads = 2\ncontext = 16' 'epochs = 1'
mlx train -c words.toml >/dev/null 2>&1
mlx checkout words --to nets/words >/dev/null
jq -c '.family = "imported" | .config = {context: 16, family: "imported"}' nets/words/model.json >changed && mv changed nets/words/model.json
expect 0 mlx import model nets/words --name foreign
config gpt words '' 'init = "foreign"' 'epochs = 2'
expect 0 mlx train -c gpt.toml
has "$out" "started from foreign@v1"
expect 0 mlx eval gpt -d data/words -s train --json
after=$(json "d['loss']")
expect 0 mlx eval foreign -d data/words -s train --json
above "$(json "d['loss']")" "$after"
expect 0 mlx quantize gpt --calibrate data/words --examples 16
expect 0 mlx predict gpt@v2 --prompt mi --json
config gpt words '' $'init = "foreign"\ncontext = 8' 'epochs = 1'
expect 0 mlx train -c gpt.toml
same "$(mlx cat gpt:model.json | jq .config.context)" 8

# Text, of primitive operations: without a cache of keys and values it writes, too.
python3 "$here/outside.py" text nets/pairs
error 2 "neither images nor rows nor text" mlx import model nets/pairs
mlx cat words:tokenizer.json >nets/pairs/tokenizer.json
expect 0 mlx import model nets/pairs
config pairs words '' 'init = "pairs"' $'epochs = 30\nlearning_rate = 0.05'
expect 0 mlx train -c pairs.toml
expect 0 mlx predict pairs --prompt ston --max-tokens 1 --temperature 0
same "$out" "e"
expect 0 mlx quantize pairs --calibrate data/words --examples 16
expect 0 mlx predict pairs@v3 --prompt mi --max-tokens 4

# All of them from one server, with the answers of predict.
"$mlx_binary" serve ring@v2 bars@v2 words=foreign --listen 127.0.0.1:0 --json >ready.json 2>serve.err &
server=$!
for _ in $(seq 200); do
  if [ -s ready.json ]; then break; fi
  kill -0 "$server" 2>/dev/null || fail "did not start: $(cat serve.err)"
  sleep 0.05
done
mlx predict ring@v2 two.jsonl --json >predicted.json
python3 - <<'PY' || fail "the server did not answer as it should"
import json, urllib.request
ready, predicted = json.load(open("ready.json")), json.load(open("predicted.json"))
def ask(path, body):
    asked = urllib.request.Request(ready["url"] + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(asked))
def column(name, numbers):
    return {"name": name, "datatype": "FP64", "shape": [2], "data": numbers}
answer = ask("/v2/models/ring/infer", {"inputs": [column("x", [0.9, -0.1]), column("y", [0.8, 0.2])]})
labels = next(o["data"] for o in answer["outputs"] if o["name"] == "label")
assert labels == ["out", "in"], answer
image = {"name": "images", "datatype": "UINT8", "shape": [1, 6, 6, 1], "data": [200, 200, 20, 200, 200, 20] * 6}
answer = ask("/v2/models/bars/infer", {"inputs": [image]})
assert next(o["data"] for o in answer["outputs"] if o["name"] == "class") == [0], answer
answer = ask("/v2/models/words/generate", {"text_input": "mi", "parameters": {"max_tokens": 4}})
assert "text_output" in answer, answer
PY
kill -TERM "$server"
wait "$server" || fail "ended with $?"
server=""

# The example of mlx-format-graph(5) can be imported as it stands.
mkdir nets/page
sed -n 's/^    //p' "$here/../../man/prose/format-graph.md" >nets/page/model.json
weigh() { # FOLDER NUMBER: weights that are all this number
  python3 - "$1" "$2" <<'PY'
import json, struct, sys
folder, number = sys.argv[1], float(sys.argv[2])
header, data = {}, b""
for value in sorted(json.load(open(folder + "/model.json"))["graph"]["values"], key=lambda v: v["name"]):
    if value.get("role") not in ("parameter", "constant"):
        continue
    count = 1
    for size in value["dims"]:
        count *= size
    integer = value.get("dtype") == "s32"
    packed = struct.pack(f"<{count}{'i' if integer else 'f'}", *([int(number) if integer else number] * count))
    header[value["name"]] = {"dtype": "I32" if integer else "F32", "shape": value["dims"], "data_offsets": [len(data), len(data) + len(packed)]}
    data += packed
text = json.dumps(header).encode()
open(folder + "/weights.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
PY
}
weigh nets/page 0.5
expect 0 mlx import model nets/page
has "$out" "3 operations, 3 tensors"

# bug: NaN passed in silence, and as "-nan"; eval could not write it.
weigh nets/page nan
expect 0 mlx import model nets/page --name holed
has "$err" "3 of 3 tensors hold NaN or infinity, first 'b1'"
printf '{"rooms": 3, "area": 90, "price": 1}\n' >one.jsonl
expect 0 mlx predict holed one.jsonl
has "$err" "1 of 1 answers are NaN"
lacks "$out" "-nan"
mkdir data/flats
cp one.jsonl data/flats/test.jsonl
expect 0 mlx eval ./nets/page -d data/flats
has "$err" "is NaN"

# bug: an attribute that nothing reads, nodes of one name and keys that come twice were taken; a link led anywhere.
spoiled() { # JQ-CHANGE: nets/spoiled is the example with it
  rm -rf nets/spoiled
  cp -r nets/page nets/spoiled
  jq -c "$1" nets/page/model.json >nets/spoiled/model.json
}
spoiled '.graph.nodes[2].attrs = {axis: 1}'
error 2 "node 'fc2': linear has no attribute 'axis'" mlx import model nets/spoiled
spoiled '.graph.nodes[2].name = "fc1"'
error 2 "two nodes have the name 'fc1'" mlx import model nets/spoiled
spoiled '.graph.nodes[2].inputs[0] = "features"'
error 6 "model.json: graph: node 'fc2'" mlx import model nets/spoiled
lacks "$err" "graph: graph"
has "$err" "mlx help format-graph"
spoiled .
sed -i 's/"precision":"f32"/"precision":"f32","precision":"f32"/' nets/spoiled/model.json
error 6 "the key 'precision' occurs twice" mlx import model nets/spoiled
spoiled .
mv nets/spoiled/weights.safetensors nets/apart.safetensors
ln -s ../apart.safetensors nets/spoiled/weights.safetensors
error 5 "a symbolic link that leaves the folder" mlx import model nets/spoiled

# What is wrong is named, and nothing is made.
error 3 "data: not a model's folder" mlx import model data
error 2 "cannot name a model" mlx import model nets/circle --name 'a@b'
python3 "$here/outside.py" rows nets/bad
jq -c '.graph.nodes[0].op = "spin"' nets/bad/model.json >changed && mv changed nets/bad/model.json
error 6 "spin" mlx import model nets/bad
python3 "$here/outside.py" rows nets/lost
printf 'short' >nets/lost/weights.safetensors
error 6 "weights.safetensors" mlx import model nets/lost
jq -c '.config = {family: "imported"}' nets/words/model.json >changed && mv changed nets/words/model.json
error 6 "'context'" mlx import model nets/words
error 3 "lost" mlx show lost
