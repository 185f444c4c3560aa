# Golden outputs through the real binary: kept for images, rows and text, checked by other kernels, bad input refused.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

mlx init >/dev/null 2>&1
bars 4 16 12 6 6
mkdir -p data/words data/prices
for i in $(seq 40); do echo "mill stone river $i wind wheel"; done | tee data/words/train.txt >data/words/test.txt
python3 - <<'PY'
import random
random.seed(2)
for split in ("train", "test"):
    rows = [f"{i % 9},{'ab'[i % 2]},{i % 9 * 2 + random.random():.3f}" for i in range(60)]
    open(f"data/prices/{split}.csv", "w").write("\n".join(["rooms,city,price"] + rows) + "\n")
PY
mlx add data/bars data/words data/prices >/dev/null 2>&1
mlx commit -m data >/dev/null
config() { printf '[data]\ndataset = "data/%s"\n%s\n[model]\nname = "%s"\n%s\n[train]\nepochs = 1\nbatch = 16\n' "$@" >train.toml; }
config bars "" clf 'family = "mlp"
hidden = [16]'
expect 0 mlx train
config prices 'target = "price"' price 'family = "mlp"
hidden = [8]'
expect 0 mlx train
config words "" lm 'family = "llama"
layers = 1
width = 32
heads = 2
context = 16'
expect 0 mlx train

error 3 "clf@v1 has no golden outputs" mlx golden clf
before=$(mlx show clf@v1 --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["digest"])')
expect 0 mlx golden clf --data data/bars -n
has "$out" "would be kept"
error 3 "clf@v1 has no golden outputs" mlx golden clf
for name in clf:data/bars:8 price:data/prices:8 lm:data/words:16; do
  IFS=: read -r model data count <<<"$name"
  expect 0 mlx golden "$model" --data "$data" --json
  same "$(json "d['golden'][0]['name'], d['golden'][0]['status'], d['golden'][0].get('examples', d['golden'][0].get('tokens'))")" "('$data@v1 test', 'kept', $count)"
  for kernels in avx2 ref; do
    MLX_KERNELS=$kernels expect 0 mlx golden "$model@v1" --json
    same "$(json "d['golden'][0]['status'], d['golden'][0]['difference'] <= d['golden'][0]['allowed']")" "('equal', True)"
  done
done
same "$(mlx show clf@v1 --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["digest"])')" "$before"
# Others are kept beside them; the same one again records nothing.
expect 0 mlx golden clf --data data/bars --split train --examples 3
expect 0 mlx golden clf
same "$(grep -c equal <<<"$out")" 2
history=$(mlx audit log --json | wc -c)
expect 0 mlx golden clf --data data/bars --split train --examples 3
same "$(mlx audit log --json | wc -c)" "$history"

# Weights that are integers, and outputs of another version, which differ.
expect 0 mlx quantize lm --to int8
expect 0 mlx golden lm@v2 --data data/words
config bars "" clf 'family = "mlp"
hidden = [16]'
sed -i 's/^epochs = 1$/epochs = 2/' train.toml
expect 0 mlx train
expect 0 mlx golden clf@v2 --data data/bars
python3 - <<'PY'
import sqlite3
db = sqlite3.connect(".mlx/meta.db")
first, last = (db.execute(f"SELECT seq, blob FROM attachments WHERE kind = 'golden' ORDER BY seq {way} LIMIT 1").fetchone() for way in ("ASC", "DESC"))
db.execute("UPDATE attachments SET blob = ? WHERE seq = ?", (first[1], last[0]))
db.commit()
PY
expect 1 mlx golden clf@v2
has "$out" "differs"
expect 1 mlx golden clf@v2 --json
same "$(json "d['golden'][0]['status'], d['golden'][0]['difference'] > 0.001")" "('differs', True)"

error 2 "--examples: expected 1 to 1024" mlx golden clf --data data/bars --examples 0
error 2 "--tokens: expected 1 to 4096" mlx golden lm --data data/words --tokens 5000
error 3 "none" mlx golden clf --data data/bars --split none
error 2 "the model takes images, the data holds text" mlx golden clf --data data/words
error 2 "is a dataset" mlx golden data/bars
error 3 "no-such" mlx golden no-such
mlx checkout clf@v1 --to box >/dev/null
error 2 "golden outputs are kept with versions" mlx golden ./box
