# Sounds (WAV) as a dataset: class folders, shards, tables, eval, check, predict and serve; a small cnn learns tones.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
git init -q . && mlx init >/dev/null
python3 - <<'PY'
# Two kinds of sounds in noise: a tone that rises and one that falls, at three rates, mono and stereo.
import io, math, os, random, struct, tarfile, wave
random.seed(1)
def sound(rising, rate, channels):
    start, seconds, loud = random.uniform(500, 900), random.uniform(0.18, 0.3), random.uniform(0.1, 0.5)
    out = io.BytesIO()
    with wave.open(out, "wb") as to:
        to.setnchannels(channels), to.setsampwidth(2), to.setframerate(rate)
        frames = []
        for i in range(int(seconds * rate)):
            t = i / rate
            phase = start * t + 4000 * t * t if rising else (start + 1600) * t - 4000 * t * t
            value = loud * math.sin(2 * math.pi * phase) + random.gauss(0, 0.01)
            frames.append(struct.pack("<h", int(20000 * value)) * channels)
        to.writeframes(b"".join(frames))
    return out.getvalue()
for split, count in (("train", 24), ("test", 8)):
    os.makedirs("data/shards", exist_ok=True)
    with tarfile.open(f"data/shards/{split}-0.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for label in ("down", "up"):
            os.makedirs(f"data/tones/{split}/{label}")
            for i in range(count):
                data = sound(label == "up", (16000, 8000, 44100)[i % 3], 1 + i % 2)
                open(f"data/tones/{split}/{label}/{i:02}.wav", "wb").write(data)
                for name, body in ((f"{label}{i}.wav", data), (f"{label}{i}.cls", label.encode())):
                    info = tarfile.TarInfo(name)
                    info.size = len(body)
                    tar.addfile(info, io.BytesIO(body))
PY
stored() { mlx add "$@" -q >/dev/null 2>&1 && mlx commit -q -m sounds >/dev/null; }
stored data/tones data/shards
printf '[data]\ndataset = "data/tones"\nvalid = "test"\nsize = [32, 24]\naugment = { shift = 1 }\n[model]\nname = "h"\nfamily = "cnn"\nlayers = [{ conv = 8, norm = "batch", activation = "relu" }, { pool = "max", size = 2 }, { conv = 8, activation = "relu" }, { pool = "max", size = 2 }, { flatten = true }]\n[train]\nepochs = 8\nbatch = 8\n' >h.toml
expect 0 mlx train -c h.toml --json
weights=$(tensors h)
expect 0 mlx cat h@v1:model.json
same "$(json "[d['preprocessing'][k] for k in ('resize', 'height', 'width', 'channels')], d['labels']")" \
  "(['spectrogram', 32, 24, 1], ['down', 'up'])"
expect 0 env MLX_THREADS=1 "$mlx_binary" train -c h.toml --force --json
same "$(tensors h)" "$weights"
expect 0 mlx train -c h.toml --force -q --set data.dataset=data/shards
same "$(tensors h)" "$weights"

# Evaluation, and prediction from the dataset, from shards, from a folder and from a file, agree.
expect 0 mlx eval h --data data/tones --json
right=$(json "d['correct']")
[ "$right" -ge 15 ] || fail "only $right of 16 right"
expect 0 mlx eval h --data data/shards --json
same "$(json "d['correct']")" "$right"
expect 0 mlx predict h data/tones --json
same "$(json "sum('/%s/' % p['label'] in p['image'] for p in d['predictions'])")" "$right"
answers=$(json "[p['probability'] for p in d['predictions']]")
expect 0 mlx predict h ./data/tones/test --json
same "$(json "[p['probability'] for p in d['predictions']]")" "$answers"
expect 0 mlx predict h data/tones/test/up/03.wav --json
same "$(json "d['predictions'][0]['label']")" up
one=$(json "d['predictions'][0]['probability']")
cp data/tones/test/up/03.wav nameless
expect 0 mlx predict h nameless --json
same "$(json "d['predictions'][0]['probability']")" "$one"
printf 'P5 2 2 255\nabcd' >picture.pgm
error 2 "picture.pgm: it is no WAV file, and the model takes sounds" mlx predict h picture.pgm
head -c 999 nameless >cut.wav
error 6 "cut.wav: offset 36: it is cut off: the chunk has" mlx predict h cut.wav

# A sound as the body of a request: the same answer as predict gives.
"$mlx_binary" serve h --listen 127.0.0.1:0 --json >served 2>"$work/serve_err" &
server=$!
for _ in {1..100}; do python3 -c 'import json; json.load(open("served"))' 2>/dev/null && break; kill -0 $server || fail "$(cat "$work/serve_err")"; sleep 0.1; done
url=$(python3 -c 'import json; print(json.load(open("served"))["url"] + "/v2/models/h/infer")')
post() { curl -s -H "Content-Type: $1" --data-binary @"$2" "$url"; }
served=$(post audio/wav nameless | python3 -c 'import json,sys; print(max({o["name"]: o["data"] for o in json.load(sys.stdin)["outputs"]}["probabilities"]))')
same "$(python3 -c "print(abs($served - $one) < 1e-6)")" True
has "$(post audio/wav cut.wav)" "it is cut off"
has "$(post image/x-portable-graymap picture.pgm)" "it is no WAV file, and the model takes sounds"
kill $server && wait $server || true

# A table of labels, and sounds that are compared as a whole: equal, alike, and a page that shows them.
mkdir -p data/table/clips
cp data/tones/train/up/0[0-5].wav data/table/clips/
cp data/table/clips/00.wav data/table/clips/copy.wav
{ echo audio,label; for i in 0 1 2 3 4 5; do echo "0$i.wav,$((i % 2))"; done; echo copy.wav,0; } >data/table/train.csv
stored data/table
sed /^valid/d h.toml >t.toml
expect 0 mlx train -c t.toml -q --set data.dataset=data/table --set model.name=t --set train.batch=4
expect 0 mlx cat t@v1:model.json
same "$(json "d['labels']")" "['0', '1']"
expect 0 mlx describe data/table --json
same "$(json "d['splits']['train']['duplicates'], d['splits']['train']['near_duplicates']['items']")" "({'items': 1, 'examples': [[0, 6]]}, 0)"
expect 0 mlx describe data/table --html page.html
has "$(cat page.html)" 'src="data:image/png;base64,iVBOR'

# What is refused.
mkdir -p data/pictures/test/{down,up} && cp picture.pgm data/pictures/test/up/ && printf 'P5 2 2 255\nefgh' >data/pictures/test/down/1.pgm
stored data/pictures
error 2 "test/down/1.pgm: it is a picture, and the model takes sounds" mlx eval h --data data/pictures
error 2 "[data] resize is for photos" mlx train -c h.toml --set data.resize=crop
error 2 "augment: crop is for photos" mlx train -c h.toml --set 'data.augment={crop = 0.5}'
error 2 "300 mel bands are more than 192" mlx train -c h.toml --set 'data.size=[300, 24]'
sed -i /^size/d h.toml
error 2 "sounds have different sizes: train/down/00.wav is 64x" mlx train -c h.toml
has "$err" "[data] size = [64, 100]"
cp picture.pgm data/tones/train/up/picture.pgm
stored data/tones
error 6 "train/up/picture.pgm: it is no WAV file in a split of sounds" mlx train -c h.toml --set 'data.size=[32, 24]'
rm data/tones/train/up/picture.pgm
cp cut.wav data/tones/train/up/cut.wav
stored data/tones
error 6 "train/up/cut.wav: " mlx train -c h.toml --set 'data.size=[32, 24]'
has "$err" "mend or remove the sound"
expect 0 mlx train -c h.toml --set 'data.size=[32, 24]' --set data.skip_bad=1
# bug: messages about sounds spoke of photos.
has "$err" "1 of 49 sounds cannot be read and are skipped"
expect 1 mlx check data/tones
has "$out" "train: sounds: 1 of 49 sounds cannot be read"
has "$out" "cut.wav"
