# Drift through the real binary: rows, images and text against what a model was trained on, windows, pages, refusals.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

# rows FILE COUNT SEED SHIFT CITY [KEYS]: offers of houses; a share CITY of them is in Bonn.
rows() {
  python3 - "$@" <<'PY'
import json, random, sys
name, count, seed, shift, bonn = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])
random.seed(seed)
with open(name, "w") as f:
    target = "without" not in sys.argv[6:]
    f.write("id,rooms,area,city" + (",price" if target else "") + "\n")
    for i in range(count):
        rooms, city = random.randrange(1, 8), "Bonn" if random.random() < bonn else random.choice(["Ulm", "Rome"])
        area = 30 * rooms + random.gauss(0, 10) + shift
        hole = "holes" in sys.argv[6:] and i % 5 == 0
        f.write(f"{i},{rooms},{'' if hole else round(area, 1)},{'Oslo' if 'oslo' in sys.argv[6:] and i % 4 == 0 else city}")
        f.write((f",{50 * rooms + area + (100 if city == 'Bonn' else 0):.1f}" if target else "") + "\n")
PY
}
mkdir -p data/houses
rows data/houses/train.csv 1500 1 0 0.5
rows data/houses/test.csv 400 2 0 0.5
mlx init >/dev/null 2>&1
mlx add data/houses >/dev/null 2>&1
mlx commit -m houses >/dev/null
cat >price.toml <<'TOML'
[data]
dataset = "data/houses"
target = "price"
features = ["rooms", "area", "city"]
hold_out = 0.1
[model]
name = "price"
family = "mlp"
hidden = [8]
[train]
epochs = 5
batch = 64
learning_rate = 0.02
TOML
expect 0 mlx train -c price.toml
mlx promote price@v1 production >/dev/null

# The reference is made once, kept with the version, and has the same bytes again.
expect 0 mlx show price --json
digest=$(json "d['digest']")
expect 0 mlx monitor price --json
same "$(json "[(c['name'], c['kind'], c['prediction']) for c in d['reference']['columns']]")" \
  "[('rooms', 'number', False), ('area', 'number', False), ('city', 'category', False), ('prediction of price', 'number', True)]"
same "$(json "d['reference']['data'], d['reference']['predictions'], sum(d['reference']['columns'][0]['counts'])")" \
  "('data/houses@v1:train', 'test', 1500)"
first=$out
expect 0 mlx monitor price --again --json
same "$out" "$first"
expect 0 mlx monitor price
has "$out" "city: category, 3 values, 1,500 items"
expect 0 mlx show price
has "$out" reference
expect 0 mlx show price --json
same "$(json "d['digest']")" "$digest"  # the model is what it was

# The same kind of data is no drift, without the target too; a dataset is as good as a file.
rows new.csv 1000 3 0 0.5 without
expect 0 mlx monitor price --data new.csv --json
same "$(json "d['drift'], d['judged'], d['items'], [c['test'] for c in d['columns']]")" "(False, True, 1000, ['ks', 'ks', 'chi2', 'ks'])"
expect 0 mlx monitor price@production --data data/houses --split test
has "$out" "no drift"
mlx monitor price --data - <new.csv >/dev/null || fail "standard input"
error 6 "it has no rows" mlx monitor price --data -

# A number that moves, a category that is new, values that are missing: drift, and where.
rows moved.csv 1000 4 40 0.5 without
expect 1 mlx monitor price --data moved.csv --json
same "$(json "d['drift'], [c['column'] for c in d['columns'] if c['drift']]")" "(True, ['area', 'prediction of price'])"
rows oslo.csv 1000 5 0 0.5 without oslo
expect 1 mlx monitor price --data oslo.csv --json
same "$(json "[(c['column'], c['new_values']) for c in d['columns'] if c['drift']]")" "[('city', ['(unknown to the model)'])]"
rows holes.csv 1000 6 0 0.5 without holes
expect 1 mlx monitor price --data holes.csv
has "$out" "0.0 -> 20.0"
has "$out" "drift"

# Too few are not judged, and said.
rows few.csv 50 4 150 0.5 without
expect 0 mlx monitor price --data few.csv --json
same "$(json "d['judged'], d['drift']")" "(False, False)"
has "$err" "too few to tell drift"
expect 1 mlx monitor price --data few.csv --min-items 40

# Windows: drift begins where the data does, and one odd window is none.
(cat new.csv && tail -n +2 moved.csv) >stream.csv
expect 1 mlx monitor price --data stream.csv --window 250 --json
same "$(json "[w['first'] for w in d['windows'] if 'area' in w['established']]")" "[1250]"
same "$(json "[w['first'] for w in d['windows'] if 'area' in w['differ']]")" "[1000, 1250, 1500, 1750]"
(cat new.csv && sed -n 2,251p moved.csv && tail -n +2 new.csv) >odd.csv
expect 0 mlx monitor price --data odd.csv --window 250
has "$out" "items 1,000 to 1,249 differ: area"
expect 1 mlx monitor price --data odd.csv --window 250 --persist 1

# A page.
expect 1 mlx monitor price --data oslo.csv --window 250 -o drift.html
grep -q 'Windows' drift.html || fail "the page has no windows"
! grep -qE '<script|https?:' drift.html || fail "the page asks the network"
error 2 "is a folder" mlx monitor price --data oslo.csv -o data

# What the man page says of a script.
status=0
mlx monitor price@production --data moved.csv >/dev/null 2>&1 || status=$?
[ $status = 1 ] || fail "drift has the status $status"

# A quantized model has the data of its original; a folder has none that is known, and can be compared all the same.
expect 0 mlx quantize price@v1 --calibrate data/houses
expect 0 mlx monitor price@v2 --data new.csv
expect 1 mlx monitor price@v2 --data moved.csv
mlx checkout price@v1 --to model >/dev/null
(cd / && expect 2 mlx monitor "$work/model" --data "$work/new.csv" && has "$err" "--against DATA")
(cd / && expect 0 mlx monitor "$work/model" --data "$work/new.csv" --against "$work/data/houses/train.csv")
(cd / && expect 1 mlx monitor "$work/model" --data "$work/moved.csv" --against "$work/data/houses/train.csv")

# Refused.
error 2 "--level 2: expected" mlx monitor price --data new.csv --level 2
error 2 "--min-psi" mlx monitor price --data new.csv --min-psi=-1
error 2 "--min-items 0" mlx monitor price --data new.csv --min-items 0
error 2 "--persist 0" mlx monitor price --data new.csv --persist 0
error 2 "never be judged" mlx monitor price --data new.csv --window 50
error 2 "which is not given" mlx monitor price --window 500
error 2 "--against-split is for" mlx monitor price --data new.csv --against-split test
error 2 "both standard input" mlx monitor price --data - --against -
error 2 "it has no splits" mlx monitor price --data new.csv --split test
error 3 "absent.csv" mlx monitor price --data absent.csv
printf 'rooms,city\n1,Bonn\n' >short.csv
error 2 "area" mlx monitor price --data short.csv
printf 'rooms,area,city\n1,much,Bonn\n' >bad.csv
error 6 "line 2" mlx monitor price --data bad.csv
printf 'rooms,area,city\n' >empty.csv
error 6 "it has no rows" mlx monitor price --data empty.csv

# Images: brighter ones drift.
bars 1 600 300 12 4
mlx add data/bars >/dev/null 2>&1 && mlx commit -m bars >/dev/null
cat >clf.toml <<'TOML'
[data]
dataset = "data/bars"
hold_out = 0.1
[model]
name = "clf"
family = "mlp"
hidden = [8]
[train]
epochs = 2
batch = 64
TOML
expect 0 mlx train -c clf.toml
expect 0 mlx monitor clf --data data/bars --json
same "$(json "[c['column'] for c in d['columns']], d['drift']")" "(['brightness', 'contrast', 'prediction', 'confidence'], False)"
cp -r data/bars bright
python3 - <<'PY'
import glob, gzip
for name in glob.glob("bright/*images*"):
    opened = gzip.open if name.endswith(".gz") else open
    data = bytearray(opened(name, "rb").read())
    data[16:] = bytes(128 + v // 2 for v in data[16:])
    opened(name, "wb").write(bytes(data))
PY
expect 1 mlx monitor clf --data ./bright --json
same "$(json "[c['column'] for c in d['columns'] if c['drift']][:2]")" "['brightness', 'contrast']"
error 2 "is for models of rows" mlx monitor clf --data -

# Text: lines of another kind drift.
mkdir -p data/words
python3 - <<'PY'
import random
random.seed(1)
with open("data/words/train.txt", "w") as f:
    for i in range(600): f.write(" ".join(random.choice(["sun", "moon", "a", "river"]) for _ in range(random.randrange(3, 9))) + "\n")
with open("loud.txt", "w") as f:
    for i in range(300): f.write(" ".join(random.choice(["SUN", "42", "!"]) for _ in range(random.randrange(3, 9))) + "\n")
PY
mlx add data/words >/dev/null 2>&1 && mlx commit -m words >/dev/null
cat >gpt.toml <<'TOML'
[data]
dataset = "data/words"
tokenizer = "chars"
hold_out = 0.2
[model]
name = "gpt"
family = "gpt2"
context = 16
layers = 1
heads = 1
width = 8
[train]
epochs = 1
batch = 32
TOML
expect 0 mlx train -c gpt.toml
expect 0 mlx monitor gpt --data data/words --json
same "$(json "[c['column'] for c in d['columns']], d['drift']")" \
  "(['length', 'words', 'digits', 'capitals', 'punctuation', 'non_ascii'], False)"
expect 1 mlx monitor gpt --data ./loud.txt --json
same "$(json "[c['column'] for c in d['columns'] if c['drift'] and c['column'] in ('digits', 'capitals', 'punctuation')]")" \
  "['digits', 'capitals', 'punctuation']"

# A server counts what it is asked, tells drift, and goes on.
"$mlx_binary" serve price@production --listen 127.0.0.1:0 --monitor 200 --json >ready.json 2>serve.err &
server=$!
trap 'kill -9 "$server" 2>/dev/null || true; cleanup' EXIT
for _ in $(seq 200); do
  jq -e .url ready.json >/dev/null 2>&1 && break
  kill -0 "$server" 2>/dev/null || fail "did not start: $(cat serve.err)"
  sleep 0.05
done
cat >ask.py <<'PY'
import csv, json, sys, time, urllib.request
url = json.load(open("ready.json"))["url"]
metrics = lambda: {k: float(v) for k, v in (line.rsplit(" ", 1) for line in urllib.request.urlopen(url + "/metrics").read().decode().splitlines() if line.startswith("mlx_drift"))}
asked = int(metrics()['mlx_drift_examples_total{model="price"}'])
rows = list(csv.DictReader(open(sys.argv[1])))[:400]
for first in range(0, len(rows), 50):  # several to a window
    part = rows[first:first + 50]
    columns = [("rooms", "FP64", [float(r["rooms"]) for r in part]), ("area", "FP64", [float(r["area"]) for r in part]),
               ("city", "BYTES", [r["city"] for r in part])]
    body = {"inputs": [{"name": n, "shape": [len(d)], "datatype": t, "data": d} for n, t, d in columns]}
    request = urllib.request.Request(url + "/v2/models/price/infer", json.dumps(body).encode(), {"Content-Type": "application/json"})
    assert len(json.load(urllib.request.urlopen(request))["outputs"][0]["data"]) == len(part)
for _ in range(1000):  # a window is judged after its examples are counted
    seen = metrics()
    if seen['mlx_drift_windows_total{model="price"}'] == (asked + len(rows)) // 200: break
    time.sleep(0.02)
drifted = sorted(k.split('feature="')[1][:-2] for k, v in seen.items() if k.startswith("mlx_drift{") and v == 1)
print([name for name in drifted if name in ("rooms", "area", "city")], int(seen['mlx_drift_windows_total{model="price"}']), int(seen['mlx_drift_dropped_total{model="price"}']),
      seen['mlx_drift_psi{model="price",feature="area"}'] > 0.25)
PY
same "$(python3 ask.py new.csv)" "[] 2 0 False"
same "$(python3 ask.py moved.csv)" "['area'] 4 0 True"
for _ in $(seq 40); do grep -q "drift in" serve.err && break || sleep 0.05; done
has "$(cat serve.err)" "price@v1: drift in area"
same "$(python3 ask.py oslo.csv)" "['city'] 6 0 False"
kill -TERM "$server"
wait "$server" || fail "the server ended with $?"
error 2 "--monitor 50: expected 100" mlx serve price --monitor 50
error 2 "a model of text" mlx serve gpt --monitor 200
(cd / && error 2 "not known what data" mlx serve "$work/model" --monitor 200)
