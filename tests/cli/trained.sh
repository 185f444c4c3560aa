# A repository with a small dataset, a trained model clf@v1 and its evaluation; sourced after lib.sh. Class names are hostile.
bars 5 120 40 6 3
printf '[classes]\nnames = ["<b>upright</b> & \\"more\\"", "level"]\n' >data/bars/dataset.toml
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
