# `mlx predict` for models of images: PGM, IDX and datasets, labels with probabilities, sizes that do not fit.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=trained.sh
source "$here/trained.sh"

# The first two test images as files: one of each class.
python3 - <<'PY'
data = open("data/bars/t10k-images-idx3-ubyte", "rb").read()[16:]
for i in range(2):
    open(f"image{i}.pgm", "wb").write(b"P5\n# a comment\n6 6\n255\n" + data[36 * i:36 * i + 36])
open("color.ppm", "wb").write(b"P6 6 6 255\n" + bytes(108))
open("small.pgm", "wb").write(b"P5 5 6 255 " + bytes(30))
open("cut.pgm", "wb").write(b"P5 6 6 255 " + bytes(30))
open("deep.pgm", "wb").write(b"P5 6 6 65535 " + bytes(72))
open("text.txt", "w").write("no image\n")
PY
expect 0 mlx predict clf image0.pgm image1.pgm
same "$(wc -l <<<"$out")" 2
[[ $out =~ ^image0\.pgm\ \ .*\ [01]\.[0-9]{4} ]] || fail "not NAME LABEL PROBABILITY: $out"
expect 0 mlx predict clf image0.pgm --top 2 --json
same "$(json "d['model'], len(d['predictions']), len(d['predictions'][0]['top'])")" "('clf@v1', 1, 2)"
same "$(json "abs(sum(t['probability'] for t in d['predictions'][0]['top']) - 1) < 1e-9")" True
label=$(json "d['predictions'][0]['label']")
same "$(json "d['predictions'][0]['probability'] == d['predictions'][0]['top'][0]['probability'] >= 0.5")" True

# The same image out of an IDX file, plain and gzip, and out of the dataset.
cp data/bars/t10k-images-idx3-ubyte many.idx && gzip -k many.idx
for what in many.idx many.idx.gz data/bars@v1; do
  expect 0 mlx predict clf "$what" --json
  same "$(json "len(d['predictions'])")" 40
  same "$(json "d['predictions'][0]['label']")" "$label"
done
same "$(json "d['predictions'][3]['image']")" "data/bars@v1:test[3]"
expect 0 mlx predict clf data/bars --split train --json
same "$(json "len(d['predictions'])")" 120
# As right as `mlx eval` says.
accuracy=$(mlx eval clf --data data/bars --json 2>/dev/null | python3 -c 'import json,sys; print(json.load(sys.stdin)["correct"])')
expect 0 mlx predict clf data/bars --json
same "$(json "sum(p['class'] == i % 2 for i, p in enumerate(d['predictions']))")" "$accuracy"

# A table in a file, and a list on standard input.
expect 0 mlx predict clf image0.pgm image1.pgm --top 2 --out out.csv
same "$out" ""
same "$(sed -n 1p out.csv)" "image,label,probability,label_2,probability_2"
same "$(python3 -c 'import csv; print([r["image"] for r in csv.DictReader(open("out.csv"))])')" "['image0.pgm', 'image1.pgm']"
same "$(python3 -c 'import csv; print(next(csv.DictReader(open("out.csv")))["label"])')" "$label"
listed=$(ls image?.pgm | mlx predict clf - --top 2 --out - -q)
same "$listed" "$(cat out.csv)"
expect 0 mlx predict clf image0.pgm --out out.jsonl
same "$(python3 -c 'import json; print(json.loads(open("out.jsonl").read())["label"])')" "$label"
before=$(cat out.csv)
error 6 "cut.pgm" mlx predict clf cut.pgm --out out.csv
same "$(cat out.csv)" "$before"
# bug: one bad photo took the answers of all others with it.
expect 6 mlx predict clf image0.pgm cut.pgm --out some.csv
has "$err" "cut.pgm"
same "$(cut -d, -f1 some.csv | paste -sd' ')" "image image0.pgm"
error 2 "--out out.xlsx: not a table by its name" mlx predict clf image0.pgm --out out.xlsx
error 3 "there is no folder none" mlx predict clf image0.pgm --out none/out.csv
error 2 "both want standard output" mlx predict clf image0.pgm --out - --json

# bug: one signal did not end the wait for a list on standard input.
mkfifo list && exec 4<>list
"$mlx_binary" predict clf - <list 2>"$work/err" &
waiting=$! code=0
# Until its handlers are installed. bug: those of bash, which the child has until it becomes mlx, were taken for them.
until [ "/proc/$waiting/exe" -ef "$mlx_binary" ] && grep -q '^SigCgt:.*[4-7c-f]...$' "/proc/$waiting/status"; do
  sleep 0.02
done
kill -TERM $waiting
for _ in {1..100}; do kill -0 $waiting 2>/dev/null && sleep 0.1; done
kill -KILL $waiting 2>/dev/null || true
wait $waiting || code=$?
exec 4>&-
same "$code" 143
has "$(cat "$work/err")" "terminated"

# bug: a folder with a model's files was no MODEL, and nothing outside of a repository.
outside=$work.outside && mkdir "$outside"
mlx checkout clf@v1 --to "$outside/box" >/dev/null
cp -r data image0.pgm "$outside"
expect 0 mlx predict ./box image0.pgm -C "$outside" --json
same "$(json "d['predictions'][0]['label']")" "$label"
expect 0 mlx eval box --data data/bars -C "$outside" --json
same "$(json "d['correct'], d['recorded']")" "($accuracy, False)"
error 3 "no such folder" mlx eval box --data data/none -C "$outside"
mv "$outside/box" box
expect 0 mlx eval ./box --data data/bars --json # the version that it is, which was measured
same "$(json "d['unchanged'], d['model'], d['recorded']")" "(True, 'clf@v1', True)"
truncate -s -4 box/weights.safetensors
error 6 "box/weights.safetensors" mlx predict box image0.pgm
error 3 "data: not a model's folder" mlx predict ./data image0.pgm

error 2 "small.pgm: 6x5x1, but the model takes images of 6x6x1" mlx predict clf small.pgm
error 2 "color.ppm: 6x6x3" mlx predict clf color.ppm
error 6 "6x6x1 pixels are 36 bytes, the file has 30" mlx predict clf cut.pgm
error 2 "a largest value of 65535 is not read" mlx predict clf deep.pgm
error 2 "text.txt: none of PGM, PPM, IDX" mlx predict clf text.txt
error 3 "no such file, and no dataset" mlx predict clf missing.pgm
error 3 "no split 'valid'" mlx predict clf data/bars --split valid
error 2 "name some" mlx predict clf
error 2 "--top 0" mlx predict clf image0.pgm --top 0
