# Photos as a dataset: class folders, tables of labels, sizes, bad photos, eval, predict and serve.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
git init -q . && mlx init >/dev/null
python3 - <<'PY'
import os, random, struct, zlib
def png(path, height, width, pixel):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + b"".join(bytes(pixel(y, x)) for x in range(width)) for y in range(height))
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
random.seed(1)
table = []
for split, count in (("train", 32), ("test", 8)):
    for i in range(count):
        for label in ("red", "blue"):
            height, width = random.choice([(8, 8), (12, 10), (9, 16)])
            strong, weak = (lambda: random.randrange(160, 256)), (lambda: random.randrange(0, 90))
            colour = (lambda y, x: (strong(), weak(), weak())) if label == "red" else (lambda y, x: (weak(), weak(), strong()))
            png(f"data/photos/{split}/{label}/{i}.png", height, width, colour)
for i in range(24):
    png(f"data/table/pictures/{i}.png", 6, 6, lambda y, x: (200 * (i % 2),) * 3)
    table.append(f"{i}.png,{'light' if i % 2 else 'dark'}\n")
open("data/table/train.csv", "w").write("filename,label\n" + "".join(table))
PY
mlx add data/photos data/table -q && mlx commit -q -m photos
config() { # NAME DATASET KEYS
  printf '[data]\ndataset = "data/%s"\n%s\n[model]\nname = "%s"\nfamily = "mlp"\nhidden = [8]\n[train]\nepochs = 6\nbatch = 8\n' "$2" "$3" "$1" >"$1.toml"
}

# Without a size, photos of different sizes are an error that says what to set.
config p photos 'valid = "test"'
error 2 "photos have different sizes: train/blue/" mlx train -c p.toml
has "$err" "[data] size = [224, 224]"
config p photos $'valid = "test"\nsize = 8\nresize = "crop"\naugment = { flip = true, crop = 0.5, brightness = 0.2 }'
expect 0 mlx train -c p.toml --json
before=$(tensors p@v1)
expect 0 mlx train -c p.toml --json # the key of a run knows size and libraries
same "$(json "d['unchanged']")" True
expect 0 env MLX_THREADS=1 "$mlx_binary" train -c p.toml --force --json
same "$(tensors p)" "$before"
expect 0 mlx cat p@v1:model.json
same "$(json "d['preprocessing']['resize'], d['preprocessing']['height'], d['preprocessing']['channels'], d['labels']")" \
  "('crop', 8, 3, ['blue', 'red'])"

# bug: nothing said that a photo's colour profile is not applied.
mkdir -p data/profile/train/a
cp "$here/../data/pictures/444.jpg" data/profile/train/a/1.jpg
python3 - "$here/../data/pictures/420.jpg" <<'PY'
import struct, sys
photo, profile = open(sys.argv[1], "rb").read(), b"ICC_PROFILE\0\1\1" + bytes(128)
open("data/profile/train/a/2.jpg", "wb").write(photo[:2] + b"\xff\xe2" + struct.pack(">H", 2 + len(profile)) + profile + photo[2:])
PY
expect 0 mlx describe ./data/profile
has "$err" "1 of 2 photos have a colour profile (ICC), which is not applied; the first: train/a/2.jpg"
rm -r data/profile

# Evaluation, prediction from files, folders and the dataset agree.
expect 0 mlx eval p --data data/photos --json
right=$(json "d['correct']")
[ "$right" -ge 14 ] || fail "only $right of 16 right"
expect 0 mlx predict p data/photos --json
same "$(json "sum(p['label'] in p['image'] for p in d['predictions'])")" "$right"
from_dataset=$(json "sorted(p['probability'] for p in d['predictions'])")
expect 0 mlx predict p data/photos/test --json # a folder that is no dataset
same "$(json "sorted(p['probability'] for p in d['predictions'])")" "$from_dataset"
expect 0 mlx predict p data/photos/test/red/0.png data/photos/test/blue --out predictions.csv
same "$(wc -l <predictions.csv)" 10
same "$(sed -n 2p predictions.csv | cut -d, -f1)" data/photos/test/red/0.png
mkdir empty
error 3 "there is no picture in this folder" mlx predict p empty
# bug: in a repository, a path that begins with . or / was taken for a wrong reference.
cp -r data/photos/test/blue loose
for folder in ./loose "$PWD/loose" ./data/photos/test/blue; do
  expect 0 mlx predict p "$folder" --json
  same "$(json "d['predictions'][0]['image'].startswith('$folder/')")" True
done

# A photo as the body of a request: the same answer as predict gives.
"$mlx_binary" serve p --listen 127.0.0.1:0 --json >"$work/served" 2>"$work/serve_err" &
server=$!
for _ in {1..100}; do python3 -c 'import json; json.load(open("served"))' 2>/dev/null && break; kill -0 $server || fail "$(cat "$work/serve_err")"; sleep 0.1; done
url=$(python3 -c 'import json; print(json.load(open("served"))["url"] + "/v2/models/p/infer")')
post() { curl -s -H "Content-Type: $1" --data-binary @"$2" "$url"; }
served=$(post image/png data/photos/test/red/0.png | python3 -c 'import json,sys; print({o["name"]: o["data"] for o in json.load(sys.stdin)["outputs"]}["label"])')
same "$served" "['$(sed -n 2p predictions.csv | cut -d, -f2)']"
has "$(post image/png p.toml)" "the photo"
kill $server && wait $server || true

# A table of labels beside the photos.
config t table 'size = 6'
expect 0 mlx train -c t.toml --json
expect 0 mlx cat t@v1:model.json
same "$(json "d['labels']")" "['dark', 'light']"
echo "0.png,dark" >>data/table/train.csv
mlx add data/table -q && mlx commit -q -m twice
error 6 "train.csv: line 26: '0.png' occurs twice" mlx train -c t.toml

# Bad photos stop, or are skipped up to a bound and named in the run.
head -c 60 data/photos/train/red/0.png >data/photos/train/red/cut.png
mlx add data/photos -q && mlx commit -q -m bad
error 6 "train/red/cut.png" mlx train -c p.toml
has "$err" "skip_bad"
error 2 'skip_bad: expected a count, or a share' mlx train -c p.toml --set 'data.skip_bad=lots'
expect 0 mlx train -c p.toml --set 'data.skip_bad=2%'
has "$err" "train/red/cut.png"
expect 0 mlx log --runs --json
has "$(json "d['runs'][0]['summary']['skipped']['train'][0]")" "train/red/cut.png"
error 6 "skip_bad allows 0" mlx train -c p.toml --set 'data.skip_bad=1%'

# A class that the training lacks.
rm data/photos/train/red/cut.png
mkdir data/photos/test/green && cp data/photos/test/red/0.png data/photos/test/green/
mlx add data/photos -q && mlx commit -q -m green
error 2 "test/green/0.png: class 'green' is none of the 2 classes blue, red" mlx train -c p.toml
error 2 "class 'green'" mlx eval p@v1 --data data/photos

# Class folders without split folders, divided by the config: the model keeps the division.
mkdir -p data/all && cp -r data/photos/train/* data/all/
mlx add data/all -q && mlx commit -q -m all
config s all $'size = 8\nvalid = "valid"\nsplit = { by = "stratified", test = 0.2, valid = 0.2, seed = 3 }'
expect 0 mlx train -c s.toml --json
photos=0
for split in train valid test; do
  expect 0 mlx eval s --data data/all --split $split --json
  photos=$((photos + $(json "d['count']")))
done
tested=$(json "d['count']")
expect 0 mlx predict s data/all --split test --json
same "$(json "len(d['predictions'])")" "$tested"
same "$photos" "$(find data/all -name '*.png' | wc -l)"
expect 0 mlx train -c s.toml --json
same "$(json "d['unchanged']")" True
expect 0 mlx train -c s.toml --json --set data.split.seed=4
same "$(json "d['unchanged']")" False
error 2 "divide by fraction or stratified" mlx train -c s.toml --set 'data.split={by = "group", column = "who", test = 0.2, valid = 0.2}'

# A training refuses a validation or a test split that it has seen, unless told.
mkdir -p data/leaky/valid && cp -r data/all data/leaky/train && cp -r data/all/red data/all/blue data/leaky/valid/
mlx add data/leaky -q && mlx commit -q -m leaky
config l leaky $'size = 8\nvalid = "valid"'
error 5 "100 % of split 'valid' are in split 'train' too, [data] leaks allows 1 %" mlx train -c l.toml
error 2 'leaks: expected a share such as "1%"' mlx train -c l.toml --set data.leaks=lots
expect 0 mlx train -c l.toml --set data.leaks=100%
mv data/leaky/valid data/leaky/test
mlx add data/leaky -q && mlx commit -q -m tested
config l leaky 'size = 8'
error 5 "of split 'test' are in split 'train' too" mlx train -c l.toml

# Photos that look alike are found by what is decoded anyway.
mkdir -p data/alike/valid && cp -r data/all data/alike/train && python3 - <<'P'
import os, zlib, struct
chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
for label in ("red", "blue"):
    os.makedirs(f"data/alike/valid/{label}")
    for name in sorted(os.listdir(f"data/alike/train/{label}"))[:6]:
        data = open(f"data/alike/train/{label}/{name}", "rb").read()
        width, at = struct.unpack(">I", data[16:20])[0], data.index(b"IDAT")
        rows = bytearray(zlib.decompress(data[at + 4 : at + 4 + struct.unpack(">I", data[at - 4 : at])[0]]))
        for i in range(len(rows)):
            if i % (3 * width + 1): rows[i] = min(255, rows[i] + 1)
        out = data[: at - 4] + chunk(b"IDAT", zlib.compress(bytes(rows))) + chunk(b"IEND", b"")
        open(f"data/alike/valid/{label}/{name}", "wb").write(out)
P
mlx add data/alike -q && mlx commit -q -m alike
config a alike $'size = 8\nvalid = "valid"\nnear_leaks = "10%"'
error 5 "100 % of split 'valid' are almost the same as some of split 'train', [data] near_leaks allows 10 %: valid/blue/" mlx train -c a.toml
has "$err" " = train/blue/"
expect 0 mlx train -c a.toml --set data.near_leaks=100%
lacks "$err" "almost"

# A page about photos shows some of them, in the page itself.
expect 0 mlx describe data/all --html all.html
has "$(cat all.html)" 'src="data:image/png;base64,iVBOR'
python3 - <<'P'
import base64, re, struct, zlib
for text in re.findall(r"base64,([^\"]+)", open("all.html").read()):
    png = base64.b64decode(text)
    width, height, depth, colour = struct.unpack(">IIBB", png[16:26])
    size = struct.unpack(">I", png[33:37])[0]
    assert len(zlib.decompress(png[41:41 + size])) == height * (1 + width * (3 if colour == 2 else 1))
P
