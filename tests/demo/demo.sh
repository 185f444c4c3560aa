#!/usr/bin/env bash
# The main job, end to end, on Fashion-MNIST: every command is shown, then run. usage: demo.sh BUILD_FOLDER [FOLDER]
# What it prints in the closing table is what it measured.
set -euo pipefail

build=$(readlink -f "$1")
here=$(cd "$(dirname "$0")" && pwd)
images=/usr/share/datasets/fashion-mnist
folder=${2:-}
if [ -n "$folder" ]; then
  mkdir -p "$folder"
  folder=$(readlink -f "$folder")
  [ -z "$(ls -A "$folder")" ] || { echo "demo: $folder is not empty" >&2; exit 2; }
else
  folder=$(mktemp -d "${TMPDIR:-/tmp}/mlx-demo.XXXXXX")
fi
export PATH="$build:$PATH" GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@example.com GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@example.com
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT

if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold="" plain=""; fi
heading() { printf '\n%s# %s%s\n' "$bold" "$1" "$plain"; }
shown() { printf '%s$ %s%s\n' "$bold" "$1" "$plain"; }
# Shows a command as a person would type it, then runs it.
run() {
  local words=()
  for word in "$@"; do
    case $word in *[!A-Za-z0-9_./:@=,+%-]*) words+=("\"$word\"") ;; *) words+=("$word") ;; esac
  done
  shown "${words[*]}"
  "$@"
}
seconds() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(seconds)" 'BEGIN { printf "%.3f", b - a }'; }

heading "A new repository with real data"
mkdir "$folder/project" && cd "$folder/project"
run git init -q -b main
run mlx init
mkdir -p data/fashion && cp "$images"/*.gz data/fashion/
cp "$here/dataset.toml" data/fashion/
cp "$here/train.toml" .
run mlx add data/fashion
run mlx commit -m "Fashion-MNIST"

heading "Train, evaluate"
run cat train.toml
started=$(seconds)
run mlx train -c train.toml
train_seconds=$(since "$started")
run git add .
run git commit -q -m "A classifier for Fashion-MNIST"
run mlx eval clf --data data/fashion --split test

heading "Quantize to int8, evaluate again"
run mlx quantize clf --to int8 --calibrate data/fashion --split train
shown "mlx eval clf@latest --data data/fashion --split test --json | jq '{model, accuracy, loss, images_per_second}'"
mlx eval clf@latest --data data/fashion --split test --json | jq '{model, accuracy, loss, images_per_second}'

heading "What made what"
run mlx log
run mlx lineage clf@latest
run mlx report --out report.html

heading "Serve it, ask it"
exec 3< <(exec mlx serve clf@latest --listen 127.0.0.1:0 --json 2>"$folder/serve.log")
server=$!
shown "mlx serve clf@latest --listen 127.0.0.1:0 --json &"
ready=""
while read -r -t 20 text <&3; do
  ready+=$text
  jq -e . >/dev/null 2>&1 <<<"$ready" && break
done
url=$(jq -r .url <<<"$ready") || { cat "$folder/serve.log" >&2; exit 1; }
python3 -c 'import gzip, json, sys
pixels = gzip.open(sys.argv[1]).read(16 + 784)[16:]
print(json.dumps({"inputs": [{"name": "images", "shape": [1, 28, 28, 1], "datatype": "UINT8", "data": list(pixels)}]}))' \
  data/fashion/t10k-images-idx3-ubyte.gz >request.json
run curl -sS --fail-with-body -H "Content-Type: application/json" -d @request.json "$url/v2/models/clf/infer"
echo
heading "How fast it answers: one client, then sixteen, for three seconds each"
load=$("$build/bench_serve" --url "$url" --model clf --request request.json --seconds 3 --connections 1)
loaded=$("$build/bench_serve" --url "$url" --model clf --request request.json --seconds 3 --connections 16)
echo "$load"
echo "$loaded"
kill -TERM "$server" && wait "$server" || true
server=""

heading "Again: nothing changed, nothing is done"
run mlx train -c train.toml
best=999
for _ in 1 2 3; do
  started=$(seconds)
  mlx train -c train.toml -q >/dev/null
  best=$(awk -v a="$best" -v b="$(since "$started")" 'BEGIN { print (b < a) ? b : a }')
done

heading "A colleague's machine"
run mlx remote add origin ../remote
run mlx push
run git add .
run git commit -q -m "Name the remote"
run git clone -q . ../colleague
cd ../colleague
run mlx pull
run mlx eval clf --data data/fashion --split test --force
run mlx fetch --all
mlx eval clf --data data/fashion --split test --force --json >"$folder/theirs.json"
mlx eval clf@latest --data data/fashion --split test --force --json >"$folder/theirs8.json"
cd ../project
mlx eval clf --data data/fashion --split test --json >"$folder/ours.json"
mlx eval clf@latest --data data/fashion --split test --json >"$folder/ours8.json"

heading "What came of it"
mlx show clf@v1 --json >"$folder/f32.json"
mlx show clf@v2 --json >"$folder/int8.json"
python3 "$here/summary.py" "$folder" "$train_seconds" "$best" "$load" "$loaded" "$PWD/report.html"
