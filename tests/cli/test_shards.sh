# Tar shards of samples as photos: the same model as from class folders, labels beside the photos, names, bad shards.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
git init -q . && mlx init >/dev/null
cat >shards.py <<'PY'
# Photos in class folders, and shards made of them by each way of writing tar files and labels.
import io, json, os, random, struct, tarfile, zlib
def png(height, width, pixel):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + b"".join(bytes(pixel(y, x)) for x in range(width)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
def write(path, members, form=tarfile.USTAR_FORMAT):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tarfile.open(path, "w", format=form) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
PY
python3 - <<'PY'
from shards import *
random.seed(1)
for split, count in (("train", 32), ("test", 8)):
    photos = []
    for label in ("blue", "red"):
        for i in range(count):
            strong, weak = (lambda: random.randrange(160, 256)), (lambda: random.randrange(0, 90))
            colour = (lambda y, x: (strong(), weak(), weak())) if label == "red" else (lambda y, x: (weak(), weak(), strong()))
            data = png(*random.choice([(8, 8), (12, 10), (9, 16)]), colour)
            os.makedirs(f"data/folders/{split}/{label}", exist_ok=True)
            open(f"data/folders/{split}/{label}/{i:03}.png", "wb").write(data)
            photos.append((label, f"{i:03}", data))
    half = len(photos) // 2
    for part in range(2):
        some = photos[part * half:(part + 1) * half]
        write(f"data/cls/{split}-{part:06}.tar", [m for l, i, d in some for m in ((f"{l}{i}.png", d), (f"{l}{i}.cls", l.encode() + b"\n"))])
        # Long names of GNU and of pax, a folder, hidden files, other members of a sample.
        long = "a" * 60 + "/" + "b" * 90
        write(f"data/json/{split}-{part:05}-of-00002.tar", [("README", b"two shards"), ("__info__.json", b"{}")] + [
            m for l, i, d in some for m in ((f"./{long}/{l}/{i}.json", json.dumps({"class": ["blue", "red"].index(l)}).encode()),
                                            (f"./{long}/{l}/{i}.boxes.npy", b"boxes"), (f"./{long}/{l}/{i}.input", d))],
              tarfile.GNU_FORMAT if part else tarfile.PAX_FORMAT)
        write(f"data/classes/shards/{part}-{split}.tar", [(f"photos/{l}/é{i}.PNG", d) for l, i, d in some], tarfile.PAX_FORMAT)
open("data/json/dataset.toml", "w").write('[classes]\nnames = ["blue", "red"]\n')
shards = lambda split: f'[splits.{split}]\nimages = ["shards/0-{split}.tar", "shards/1-{split}.tar"]\n'
open("data/classes/dataset.toml", "w").write(shards("train") + shards("test"))
PY
stored() { mlx add "$@" -q >/dev/null 2>&1 && mlx commit -q -m photos >/dev/null; }
stored data/folders data/cls data/json data/classes
printf '[data]\ndataset = "data/folders"\nvalid = "test"\nsize = 8\nresize = "crop"\naugment = { flip = true, crop = 0.5, brightness = 0.2 }\n[model]\nname = "p"\nfamily = "mlp"\nhidden = [8]\n[train]\nepochs = 6\nbatch = 8\n' >p.toml
expect 0 mlx train -c p.toml -q
weights=$(tensors p)
for form in cls json classes; do
  expect 0 mlx train -c p.toml -q --set "data.dataset=data/$form"
  same "$(tensors p)" "$weights"
done
expect 0 env MLX_THREADS=1 "$mlx_binary" train -c p.toml --force --set data.dataset=data/cls -q
same "$(tensors p)" "$weights"

# All that reads photos reads shards: the same answers under other names.
expect 0 mlx eval p --data data/folders --json
right=$(json "d['correct'], d['metrics']")
for form in cls json classes; do
  expect 0 mlx eval p --data "data/$form" --json
  same "$(json "d['correct'], d['metrics']")" "$right"
done
expect 0 mlx predict p data/folders --json
answers=$(json "[p['probability'] for p in d['predictions']]")
expect 0 mlx predict p data/cls --json
same "$(json "[p['probability'] for p in d['predictions']]")" "$answers"
same "$(json "d['predictions'][0]['image']")" "data/cls@v1:test-000000.tar:blue000.png"
# bug: a shard outside of datasets was no INPUT.
expect 0 mlx predict p data/cls/test-000000.tar data/cls/test-000001.tar --json
same "$(json "[p['probability'] for p in d['predictions']]")" "$answers"
same "$(json "d['predictions'][0]['image']")" "data/cls/test-000000.tar:blue000.png"
python3 - <<'PY'
from shards import *
photo = open("data/folders/train/blue/000.png", "rb").read()
write("./few/good.tar", [("a.png", photo), ("b/no-ending", photo), ("c.txt", b"text"), ("__info__.json", b"{}")])
write("./few/bad.tar", [("a.png", photo), ("x\nmlx: error: all is lost\x1b[2J.png", photo[:60])])
write("./few/none.tar", [("c.txt", b"text")])
import gzip
open("few/packed.tar", "wb").write(gzip.compress(open("few/good.tar", "rb").read()))
PY
expect 0 mlx predict p few/good.tar
same "$(cut -d' ' -f1 <<<"$out" | paste -sd' ')" "few/good.tar:a.png few/good.tar:b/no-ending"
error 3 "few/none.tar: there is no picture" mlx predict p few/none.tar
error 2 "few/packed.tar: the shard is compressed" mlx predict p few/packed.tar
# bug: an end of line in the name of a member made a line of its own in warnings and errors.
expect 6 mlx predict p few/bad.tar
has "$err" 'few/bad.tar:x\x0amlx: error: all is lost\x1b[2J.png: PNG: '
same "$(wc -l <"$work/.err")" 2
mkdir -p data/forged && python3 - <<'PY'
from shards import *
photo = open("data/folders/train/blue/000.png", "rb").read()
write("data/forged/train.tar", [("x\nhint: y\nz.png", photo), ("x\nhint: y\nz.jpg", photo)])
PY
stored data/forged
error 6 'train.tar:x\x0ahint: y\x0az.jpg: the sample has two photos' mlx train -c p.toml --set data.dataset=data/forged
has "$err" "hint: leave one"
expect 0 mlx check data/cls --json
expect 0 mlx describe data/cls --html page.html
[ "$(grep -o 'data:image/png' page.html | wc -l)" -gt 8 ] || fail "the page has no photos"

# A division draws by content: a photo is in the same part, in a folder or in a shard.
divided='split={by = "fraction", test = 0.25, seed = 3}'
for form in folders cls; do
  mkdir -p "data/part-$form" && cp -r data/$form/train* "data/part-$form/"
  stored "data/part-$form"
  expect 0 mlx train -c p.toml -q --set "data.dataset=data/part-$form" --set "data.$divided"
  tensors p >"$form.part"
done
cmp folders.part cls.part || fail "shards are divided in another way than folders"

# What train has in shards, and valid in a class folder, is a leak all the same.
mkdir -p data/leak && cp data/cls/train-000000.tar data/leak/train-0.tar
python3 - <<'PY'
from shards import *
write("data/leak/test.tar", [m for i in range(4) for m in ((f"{i}.png", open(f"data/folders/train/blue/{i:03}.png", "rb").read()), (f"{i}.txt", b"blue"))])
PY
stored data/leak
error 5 "100 % of split 'test' are in split 'train' too" mlx train -c p.toml --set data.dataset=data/leak
# bug: a test split in shards, or beside a training split in shards, was not compared if it was not the validation split.
sed '/^valid/d' p.toml >alone.toml
error 5 "100 % of split 'test' are in split 'train' too" mlx train -c alone.toml --set data.dataset=data/leak
expect 0 mlx train -c alone.toml -q --set data.dataset=data/leak --set data.leaks=100%
mkdir -p data/leak-half/test/blue data/leak-half/test/red && cp data/leak/train-0.tar data/leak-half/ && cp data/folders/train/blue/000.png data/leak-half/test/blue/
cp data/folders/test/red/000.png data/leak-half/test/red/
printf '[splits.train]\nimages = "train-0.tar"\n[splits.test]\nimages = "test/"\n' >data/leak-half/dataset.toml
mkdir -p data/leak-other/shards data/leak-other/train && cp -r data/folders/train/* data/leak-other/train/ && cp data/leak/test.tar data/leak-other/shards/
printf '[splits.train]\nimages = "train/"\n[splits.test]\nimages = "shards/test.tar"\n' >data/leak-other/dataset.toml
stored data/leak-half data/leak-other
error 5 "50 % of split 'test' are in split 'train' too" mlx train -c alone.toml --set data.dataset=data/leak-half
error 5 "100 % of split 'test' are in split 'train' too" mlx train -c alone.toml --set data.dataset=data/leak-other
expect 0 mlx train -c alone.toml -q --set data.dataset=data/cls # none of its test split is in the training split

# A photo that is none stops, and is left out where that is allowed.
python3 - <<'PY'
from shards import *
good = [(f"{i}", open(f"data/folders/train/{c}/{i:03}.png", "rb").read(), c) for c in ("blue", "red") for i in range(20)]
write("data/bad/train-0.tar", [m for i, d, c in good for m in ((f"{c}{i}.png", d[:60] if c + i == "blue7" else d), (f"{c}{i}.cls", c.encode()))])
PY
stored data/bad
sed -i '/^valid/d' p.toml
error 6 "train-0.tar:blue7.png: " mlx train -c p.toml --set data.dataset=data/bad
expect 0 mlx train -c p.toml --set data.dataset=data/bad --set data.skip_bad=1
has "$err" "1 of 40 photos cannot be read and are skipped; the first: train-0.tar:blue7.png"
expect 1 mlx check data/bad --json

# Shards that are refused say which, where and why.
refuses() { # CODE TEXT PYTHON: of members, or of all bytes of the shard
  rm -rf data/wrong
  python3 -c "
from shards import *
photo = open('data/folders/train/blue/000.png', 'rb').read()
good = [('a.png', photo), ('a.cls', b'x'), ('b.png', photo), ('b.cls', b'y')]
def change(of):
    path = 'data/wrong/train.tar'
    write(path, good)
    data = of(bytearray(open(path, 'rb').read()))
    open(path, 'wb').write(data)
$3"
  stored data/wrong
  error "$1" "$2" mlx train -c p.toml --set data.dataset=data/wrong
}
refuses 6 "train.tar: offset 0: member '../a.png': a name is relative" "write('data/wrong/train.tar', [('../a.png', photo)])"
refuses 6 "train.tar: offset 0: this is no header of a tar file: its checksum is another" "change(lambda data: b'A' + data[1:])"
refuses 6 "train.tar: offset 0: member 'a.png' of " "change(lambda data: data[:600])"
refuses 6 "train.tar:a.jpg: the sample has two photos, this and 'a.png'" "write('data/wrong/train.tar', [('a.png', photo), ('a.jpg', photo)])"
refuses 2 "train.tar:b.png: the sample has no label" "write('data/wrong/train.tar', [('a.png', photo), ('a.cls', b'x'), ('b.png', photo)])"
refuses 2 "train.tar.gz: the shard is compressed" "
import gzip
write('data/wrong/train.tar', good)
open('data/wrong/train.tar.gz', 'wb').write(gzip.compress(open('data/wrong/train.tar', 'rb').read()))
os.remove('data/wrong/train.tar')"
# bug: a label in JSON could have a megabyte.
refuses 6 "train.tar:a.json: a label of 5000 bytes is too long" "write('data/wrong/train.tar', [('a.png', photo), ('a.json', b'{\"label\": \"' + b'x' * 5000 + b'\"}')])"
