# A repository with a small dataset, a trained model clf@v1 and its evaluation; sourced after lib.sh. Class names are hostile.
python3 - <<'PY'
import os, random, struct
random.seed(5)
os.makedirs("data/bars")
for name, count in (("train", 120), ("t10k", 40)):
    pixels, labels = bytearray(), bytearray()
    for i in range(count):
        label = i % 2
        labels.append(label)
        for y in range(6):
            for x in range(6):
                pixels.append((150 if (x, y)[label] % 3 < 2 else 10) + random.randrange(90))
    open(f"data/bars/{name}-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 0x803, count, 6, 6) + pixels)
    open(f"data/bars/{name}-labels-idx1-ubyte", "wb").write(struct.pack(">II", 0x801, count) + labels)
open("data/bars/dataset.toml", "w").write('[classes]\nnames = ["<b>upright</b> & \\"more\\"", "level"]\n')
PY
cat > train.toml <<'TOML'
[data]
dataset = "data/bars"
[model]
name = "clf"
family = "cnn"
layers = [{ conv = 4, activation = "relu" }, { flatten = true }]
[train]
epochs = 2
batch = 24
TOML
mlx init >/dev/null 2>&1
mlx add data/bars >/dev/null 2>&1
mlx commit -m bars >/dev/null
mlx train >/dev/null 2>&1
