# Residual networks and MobileNetV2 through the real binary: trained, evaluated, quantized; mistakes are named.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

bars 3 240 60 10 4
mlx init >/dev/null
mlx add data/bars >/dev/null
mlx commit -m bars >/dev/null

config() { # NAME MODEL...: writes NAME.toml, a line a key
  local name=$1
  shift
  printf '%s\n' '[data]' 'dataset = "data/bars"' '[model]' "name = \"$name\"" "$@" '[train]' 'epochs = 3' 'batch = 24' >"$name.toml"
}
config small 'family = "resnet"' 'depth = 20' 'width = 0.25' 'stochastic_depth = 0.1'
config mobile 'family = "mobilenet_v2"' 'width = 0.25' 'halvings = 2' 'dropout = 0.0'
for name in small mobile; do
  expect 0 mlx train -c "$name.toml" --json
  digest=$(json "d['digest']")
  MLX_THREADS=1 expect 0 mlx train -c "$name.toml" --force --json
  same "$(json "d['digest']")" "$digest"
  expect 0 mlx eval "$name" --data data/bars --json
  same "$(json "d['accuracy'] > 0.8")" True
  expect 0 mlx quantize "$name" --calibrate data/bars --json
  same "$(json "d['model']")" "$name@v2"
  expect 0 mlx eval "$name@v2" --data data/bars --json
  same "$(json "d['accuracy'] > 0.8")" True
done

# Configs that are wrong, with file and line; nothing is trained.
config bad 'family = "resnet"' 'depth = 21'
error 2 'bad.toml:6: [model] depth: expected one of 18, 20' mlx train -c bad.toml
config bad 'family = "resnet"' 'depth = 50'
error 2 'bad.toml:6: [model] depth: the images are too small' mlx train -c bad.toml
config bad 'family = "mobilenet_v2"' 'halvings = 2' 'widht = 0.5'
error 2 "did you mean 'width'" mlx train -c bad.toml
config bad 'family = "mobilenet_v3"'
error 2 'did you mean "mobilenet_v2"' mlx train -c bad.toml
expect 0 mlx ls
lacks "$out" "bad"
