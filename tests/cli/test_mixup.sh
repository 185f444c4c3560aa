# Mixup through the real binary: the same bits with one thread and resumed, another key, bad values refused.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=trained.sh
source "$here/trained.sh"

sed 's,dataset = "data/bars",dataset = "data/bars"\naugment = { shift = 1\, mixup = 0.2 },; s/epochs = 2/epochs = 6/; s/batch = 24/batch = 24\naccumulate = 2/' train.toml >mixed.toml
expect 0 mlx train -c mixed.toml --json
same "$(json "d['unchanged']")" False
id=$(json "d['digest']")
# Right is the label with the larger share; of images that are not mixed the model is right more often.
same "$(json "0.5 < d['summary']['accuracy'] <= 1")" True
expect 0 mlx eval clf --data data/bars --json
same "$(json "d['accuracy'] > 0.9")" True
expect 0 mlx train -c mixed.toml
has "$out" "unchanged"
expect 0 env MLX_THREADS=1 "$mlx_binary" train -c mixed.toml --force --json
same "$(json "d['digest']")" "$id"
killed_training 30 -c mixed.toml --force
expect 0 mlx train -c mixed.toml --resume "$run" --json
same "$(json "d['digest']")" "$id"
sed 's/mixup = 0.2/mixup = 0.3/' mixed.toml >other.toml
expect 0 mlx train -c other.toml --json
same "$(json "d['unchanged'], d['digest'] == '$id'")" "(False, False)"

# Without mixup the key and the bytes do not change.
expect 0 mlx train -c train.toml
has "$out" "unchanged"

for value in 0.01 5 -1 '"much"'; do
  sed "s/mixup = 0.2/mixup = $value/" mixed.toml >bad.toml
  error 2 "mixup" mlx train -c bad.toml
  has "$err" "bad.toml:3"
done
mkdir data/table
printf 'a,b\n1,2\n2,3\n3,4\n' >data/table/train.csv
mlx add data/table >/dev/null 2>&1
printf '[data]\ndataset = "data/table"\ntarget = "b"\naugment = { mixup = 0.2 }\n[model]\nname = "t"\nfamily = "mlp"\nhidden = [4]\n[train]\nepochs = 1\nbatch = 2\n' >rows.toml
error 2 "augment is for images" mlx train -c rows.toml
