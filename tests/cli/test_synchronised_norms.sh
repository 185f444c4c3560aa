# Batch norm over the micro-batches of all ranks, with the real MPI: ranks follow one that has the whole batch.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=own_ranks.sh
source "$here/own_ranks.sh"
# shellcheck source=families.sh
source "$here/families.sh"
sed -i 's/, "stochastic_depth.*//; /stochastic_depth/d; s/^dropout = 0.1$/dropout = 0/' resnet.toml mobile.toml
joined=(--set 'train.batch_norm="synchronised"' --set train.learning_rate=0.01)
relative() { python3 -c "import sys; sys.exit(abs($2 / $3 - 1) > $4)" || fail "$1: the loss is $2, and $3 on one rank"; }
losses() { mlx show "run:$(json "d['run']")" --metric train/loss --csv; }

for name in cnn resnet mobile; do
  expect 0 mlx train -c $name.toml --set train.learning_rate=0.01 --json
  whole=$(json "d['summary']['loss']") steps=$(losses)
  for ranks in 2 4; do
    expect 0 mlx train -c $name.toml "${joined[@]}" --ranks $ranks --verify-every 1 --json
    many=$(digest)
    relative "step 1 of $name on $ranks" "$(losses | sed -n '2s/.*,//p')" "$(sed -n '2s/.*,//p' <<<"$steps")" 1e-5
    # In the many blocks of mobilenet_v2 rounding decides whether some gradient passes a relu6.
    [ $name = mobile ] || relative "$name on $ranks" "$(json "d['summary']['loss']")" "$whole" 1e-4
    sent=$(json "d['summary']['communication']['bytes_sent'] // d['summary']['steps']")
    expect 0 mlx train -c $name.toml "${joined[@]}" --ranks $ranks --zero 1 --force --json
    same "$name on $ranks: $(digest)" "$name on $ranks: $many"
    expect 0 mlx train -c $name.toml "${joined[@]}" --set train.seed=9 --ranks $ranks -n --json
    # That of the rank that sends most, which of two both do.
    [ $ranks != 2 ] || same "$(json "d['step_traffic']['bytes']")" "$sent"
  done
done
expect 0 mlx train -c cnn.toml "${joined[@]}" --set train.seed=9 --ranks 2 -n
has "$out" ' of gradients and for batch norms in '
# It is part of the key, and so is the number of ranks.
expect 0 mlx train -c cnn.toml "${joined[@]}" --ranks 2 --json
same "$(json "d['unchanged']")" True
expect 0 mlx train -c cnn.toml --set train.learning_rate=0.01 --ranks 2 --json
same "$(json "d['unchanged']")" False
# A rank alone has the whole batch in any case.
expect 0 mlx train -c cnn.toml "${joined[@]}" --json
alone=$(digest)
expect 0 mlx train -c cnn.toml --set train.learning_rate=0.01 --json
same "$alone" "$(digest)"
# Stopped and resumed it has the bits of one that was not.
sed 's/^epochs = 2/epochs = 400/' cnn.toml >long.toml
"$mlx_binary" train -c long.toml "${joined[@]}" --ranks 2 >/dev/null 2>.err &
launcher=$!
until mlx log --runs --json | grep -q '"running"'; do sleep 0.05; done
sleep 1
kill -TERM $launcher
code=0; wait $launcher || code=$?
same "$code" 143
has "$(cat .err)" 'a checkpoint is kept'
expect 0 mlx train -c long.toml "${joined[@]}" --ranks 2 --json
has "$(json "'resumed_from' in d['summary']")" True
resumed=$(digest)
expect 0 mlx train -c long.toml "${joined[@]}" --ranks 2 --force --json
same "$resumed" "$(digest)"

error 2 'each of 1 rank must have one micro-batch, and there are 4' mlx train -c cnn.toml "${joined[@]}" --set train.accumulate=4
has "$err" 'train with --ranks 4, or leave accumulate out'
error 2 'each of 2 ranks must have one micro-batch, and there are 4' mlx train -c cnn.toml "${joined[@]}" --set train.accumulate=4 --ranks 2
error 2 'the model trains no batch norm' mlx train -c mlp.toml "${joined[@]}"
error 2 'the workers of local SGD do not wait for each other' mlx train -c cnn.toml "${joined[@]}" --ranks 2 --sync-every 4
error 2 'continues only on as many' mlx train -c cnn.toml "${joined[@]}" --ranks 2 --min-ranks 1
error 2 'batch_norm' mlx train -c cnn.toml --set 'train.batch_norm="all"'
all_gone
