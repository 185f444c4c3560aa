# shellcheck shell=bash
# Bad data through the real binary: every command names the file and the place, in bounded time and memory, and nothing
# half done is left behind.
. "$(dirname "$0")/lib.sh"
mlx init -q . >/dev/null
seconds=20 && ! sanitized || seconds=120
bounded() { (address_space 2000000 && timeout "$seconds" "$mlx_binary" "$@"); }
config() { # NAME KEYS: m.toml for data/NAME
  printf '[data]\ndataset = "data/%s"\n%b\n[model]\nname = "m_%s"\nfamily = "mlp"\nhidden = [4]\n[train]\nepochs = 1\n' "$1" "$2" "$1" >m.toml
}
keep() { mlx add -q "data/$1" >/dev/null && mlx commit -q -m "$1" >/dev/null; }

# Tables. A sound model, to ask about the bad ones.
mkdir -p data/sound && printf 'x,z,y\n1,2,a\n2,3,b\n3,4,a\n' | tee data/sound/train.csv >data/sound/test.csv
keep sound && config sound 'target = "y"\nleaks = "100%"' && expect 0 mlx train -c m.toml
# bad NAME FILE TEXT: check, describe, train, predict and eval all refuse standard input as the training split, with
# TEXT.
bad() {
  mkdir -p "data/$1" && cat >"data/$1/$2" && keep "$1" && config "$1" 'target = "y"'
  error 6 "$3" bounded check "data/$1"
  error 6 "$3" bounded describe "data/$1"
  error 6 "$3" bounded train -c m.toml
  error 6 "$3" bounded predict m_sound "data/$1/$2"
  error 6 "$2" bounded eval m_sound --data "data/$1" --split train
}
printf 'x,z,y\n1,2,a\n1,2\n' | bad ragged train.csv "train.csv: line 3: 2 cells, 3 columns"
printf 'x,z,y\n1,\0002,a\n' | bad zero train.csv "train.csv: line 2: a zero byte"
printf 'x,z,y\n1,2,a\n3,4,\x81a\n' | bad bytes train.csv "train.csv: line 3: text that is neither UTF-8 nor Latin-1"
printf '\xff\xfex\0,\0z\0,\0y\0\n\0001\0,\0001\0,\0a' | bad odd train.csv "train.csv: offset 22: UTF-16: the text is cut off"
printf '{"x":1,"z":2,"y":"a"}\n{"x":1,"z":2,"y":\n' | bad json train.jsonl "train.jsonl: line 2: not JSON"
python3 -c 'print(",".join(f"c{i}" for i in range(1_000_000)), 1, sep="\n")' | bad wide train.csv "line 1: more than the 16384 columns"
# A line of 2 GB: zstd says it in 60 KB; gzip streams may follow one another, so one of 20 MB serves a hundred times.
head -c 2000000000 /dev/zero | zstd -q | bad zeros train.csv.zst "train.csv.zst: line 1: a"
head -c 20000000 /dev/zero | tr '\0' a | gzip -9 >letters.gz
for _ in {1..100}; do cat letters.gz; done | bad letters train.csv.gz "train.csv.gz: line 1: a row of more than 16 MiB"
{ printf 'x,z,y\n1,2,"' | gzip && for _ in {1..100}; do cat letters.gz; done; } | bad quoted train.csv.gz "line 2: a row of more than 16 MiB"
{ printf '{"y":"' | gzip && for _ in {1..100}; do cat letters.gz; done; } | bad member train.jsonl.gz "line 1: a row of more than 16 MiB"
# An archive that says that it holds 250 million rows, and holds fewer.
python3 - <<'P' | bad archive train.npz "the file is cut off, 250000000 rows are declared"
import io, struct, sys, zipfile
header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (250000000,), }"
header += b" " * (-(11 + len(header)) % 64) + b"\n"
out = io.BytesIO()
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
    for name in "xzy":
        archive.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(1 << 20))
sys.stdout.buffer.write(out.getvalue())
P
# Sound to read, but nothing to learn from.
useless() {
  mkdir -p "data/$1" && printf '%b' "$2" >"data/$1/train.csv" && keep "$1" && config "$1" 'target = "y"'
  error 6 "$3" mlx train -c m.toml
}
useless nan 'x,z,y\n1,2,1.5\n1,2,nan\n' "train.csv: line 3: column 'y' has no value"
useless infinite 'x,z,y\n1,2,1.5\n1,2,inf\n' "train.csv: line 3: column 'y': inf is not a finite number"
useless empty '' "train.csv: it has no rows"
useless names 'x,z,y\n' "train.csv: it has no rows"
error 6 "train.csv: it has no rows" mlx predict m_sound data/empty/train.csv
# A class that only the test split has.
mkdir data/late && cp data/sound/train.csv data/late/ && printf 'x,z,y\n9,9,a\n8,8,c\n' >data/late/test.csv
keep late && config late 'target = "y"\nvalid = "test"'
error 6 "test.csv: line 3: column 'y': 'c' is not among the classes of the training split" mlx train -c m.toml
error 6 "test.csv: line 3: column 'y': 'c'" mlx eval m_sound --data data/late

# bug: a model's name that a dataset has was refused only after the training.
config sound 'target = "y"\nleaks = "100%"'
cp -r data/sound twin && mlx add -q twin >/dev/null && mlx commit -q -m twin >/dev/null
error 4 "'twin' is a dataset already, not a model" timeout 20 "$mlx_binary" train -c m.toml --set model.name=twin --set train.epochs=1000000

# Photos: 20 good ones of each class.
pictures=$here/../data/pictures
for class in a b; do
  mkdir -p data/photos/{train,test}/$class
  for i in {1..20}; do cp "$pictures/420.jpg" data/photos/train/$class/$i.jpg && echo "$class$i" >>data/photos/train/$class/$i.jpg; done
  cp "$pictures/444.jpg" data/photos/test/$class/
done
photos='size = 8\nleaks = "100%"'
keep photos && config photos "$photos" && expect 0 mlx train -c m.toml
with() { cp -r data/photos "data/$1"; }
with cut && head -c 200 "$pictures/420.jpg" >data/cut/train/a/bad.jpg && cp data/cut/train/a/bad.jpg data/cut/train/b/
keep cut && config cut "$photos"
error 6 "train/a/bad.jpg: JPEG: Premature end of JPEG file (and 1 more of 42 photos" mlx train -c m.toml
error 6 "skip_bad allows 0" mlx train -c m.toml --set 'data.skip_bad=1%'
expect 0 mlx train -c m.toml --set 'data.skip_bad=5%'
has "$err" "2 of 42 photos cannot be read and are skipped; the first: train/a/bad.jpg"
# bug: a model that was trained with skip_bad could not be evaluated on the same data.
expect 0 mlx eval m_cut --data data/cut --split train --json
same "$(json "d['count'], len(d['skipped'])")" "(40, 2)"
error 6 "train/a/bad.jpg" mlx eval m_photos --data data/cut --split train
# bug: check and describe stopped at the first bad photo.
expect 1 mlx check data/cut --junit photos.xml
has "$out" "photos: 2 of 42 photos cannot be read"
has "$out" "train/b/bad.jpg: JPEG: Premature end"
python3 -c 'import xml.etree.ElementTree as e; assert e.parse("photos.xml").getroot()[0].get("failures") == "1"'
expect 0 mlx describe data/cut --html photos.html
expect 0 mlx describe data/cut
has "$out" "2 photos cannot be read, the first: train/a/bad.jpg"
expect 0 mlx describe data/cut --json # as kept with the version
same "$(json 'd["splits"]["train"]["items"], len(d["splits"]["train"]["unread"])')" "(40, 2)"
# bug: a folder with one bad photo got no predictions at all.
expect 6 mlx predict m_photos data/cut/train --out labels.csv
has "$err" "data/cut/train/a/bad.jpg: JPEG: Premature end"
has "$err" "2 of 42 images cannot be read and have no prediction"
same "$(wc -l <labels.csv)" 41
lacks "$(cat labels.csv)" bad.jpg
expect 6 mlx predict m_photos data/cut/train/b data/photos/test/a/444.jpg --json
same "$(json "len(d['predictions']), [f['image'] for f in d['failed']], d['predictions'][-1]['image']")" \
  "(21, ['data/cut/train/b/bad.jpg'], 'data/photos/test/a/444.jpg')"
error 6 "bad.jpg: JPEG: Premature end" mlx predict m_photos data/cut/train/a/bad.jpg --out none.csv
[ ! -e none.csv ] || fail "a table without predictions was written"
# bug: a file too large for a photo ended the predictions of its whole folder, once all of it was read.
mkdir large && cp data/photos/test/a/444.jpg large/ && truncate -s 600M large/huge.jpg
expect 6 mlx predict m_photos ./large --json
has "$err" "./large/huge.jpg: 600.0 MiB are too much for a photo"
same "$(json "[p['image'] for p in d['predictions']], [f['image'] for f in d['failed']]")" "(['./large/444.jpg'], ['./large/huge.jpg'])"

# Pictures that claim or hold too much.
python3 - <<'P'
import struct, zlib
def png(path, height, width, data):
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
                  + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))
png("bomb.png", 30000, 30000, bytes(50_000_000))
png("more.png", 1, 1, bytes(50_000_000))
png("wide.png", 1, 100000, bytes(100001))
png("high.png", 100000, 1, bytes(200000))
# A TIFF of one piece: 16,384 x 16,384 grey pixels, deflated.
part = zlib.compressobj(9)
strip = b"".join(part.compress(bytes(1 << 20)) for _ in range(256)) + part.flush()
tags = [(256, 16384), (257, 16384), (258, 8), (259, 8), (262, 1), (273, 8), (277, 1), (278, 16384), (279, len(strip))]
strip += b"\0" * (len(strip) % 2)
ifd = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
open("bomb.tif", "wb").write(b"II*\0" + struct.pack("<I", 8 + len(strip)) + strip + ifd + bytes(4))
P
: >empty.jpg
small() { (address_space 1000000 && MLX_THREADS=1 timeout "$seconds" "$mlx_binary" "$@"); }
error 2 "bomb.png: PNG: 30000 x 30000 pixels are more than the" small predict m_photos bomb.png
# bug: a TIFF of 261 KB needed 1.6 GB.
error 2 "bomb.tif: TIFF: its strips or tiles hold more than" small predict m_photos bomb.tif
error 6 "empty.jpg: it is empty" small predict m_photos empty.jpg
expect 0 small predict m_photos wide.png high.png more.png
