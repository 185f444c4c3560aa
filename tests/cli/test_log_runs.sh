# `mlx log --runs` with conditions, order and state.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=trained.sh
source "$here/trained.sh"
for rate in 0.2 0.001; do
  sed "s/epochs = 2/epochs = 1\nlearning_rate = $rate/" train.toml >other.toml
  mlx train -c other.toml >/dev/null 2>&1
done
mlx eval clf --data data/bars >/dev/null 2>&1
sed 's/batch = 24/batch = 24\nlearning_rate = 1000/' train.toml >bad.toml
mlx train -c bad.toml >/dev/null 2>&1 && fail "a learning rate of 1000 was survived"

listed() { # OPTIONS: "COMMAND RATE" of each run, joined by commas
  expect 0 mlx log --json "$@"
  json "','.join(r['command'] + ' ' + str(r['params'].get('train', {}).get('learning_rate', '')) for r in d['runs'])"
}
same "$(listed --runs)" "train 1000.0,eval ,train 0.001,train 0.2,train 0.05"
same "$(listed --status failed)" "train 1000.0"
same "$(listed --where command=eval)" "eval "
same "$(listed --where 'train.learning_rate<=0.05' --sort train.learning_rate)" "train 0.001,train 0.05"
same "$(listed --where 'train.learning_rate < 1' --where 'train.epochs = 1' --sort train.learning_rate --reverse)" "train 0.2,train 0.001"
same "$(listed --where train.optimizer.name=sgd --status done --sort seconds -n 1 | wc -l)" 1
same "$(listed --where 'train/loss>=0' --status done --sort train.learning_rate)" "train 0.001,train 0.05,train 0.2"
same "$(listed --runs --reverse -n 2)" "train 0.05,train 0.2"
same "$(listed --sort train.batch -n 1)" "train 1000.0"
same "$(listed --where 'loss<-1')" ""
expect 0 mlx log --where 'accuracy>=0' --sort accuracy --reverse
has "$out" "accuracy"

# Settings match as they are written, and a condition does not hide that other runs have a metric.
same "$(listed --where train.optimizer.momentum=0.9)" "train 1000.0,train 0.001,train 0.2,train 0.05"
same "$(listed --where train.optimizer.momentum=0.91)" ""
same "$(listed --status failed --sort loss)" "train 1000.0"

# bug: the name of a table was taken for a metric: it listed nothing, and was offered as a suggestion.
error 2 "no run has 'train'" mlx log --runs --where train=1
error 2 "did you mean" mlx log --runs --sort train.lerning_rate
has "$err" "'train.learning_rate'"

# What was asked for is shown.
expect 0 mlx log --runs --where 'train.learning_rate=0.001'
has "$out" "train.learning_rate 0.001"
expect 0 mlx log --runs --sort train/loss -n 1
has "$out" "train/loss "
expect 0 mlx log clf --runs --json
same "$(json 'len(d["runs"]) > 3')" True
sed 's/name = "clf"/name = "never"/' bad.toml >never.toml
mlx train -c never.toml >/dev/null 2>&1 && fail "a learning rate of 1000 was survived"
same "$(listed never --runs)" "train 1000.0"
error 3 "no artifact is called 'nosuch'" mlx log nosuch --runs
# The rate of a schedule is a metric.
expect 0 mlx log --where 'train/learning_rate>=0' --json
same "$(json 'len(d["runs"]) > 2')" True

# bug: a run that was killed was said to be running for ever. It is not while its process lives, and nobody else can work
# in it then.
sed 's/epochs = 2/epochs = 100000\ncheckpoint_every = "1 h"/; s/batch = 24/batch = 24\nlearning_rate = 0.003/' train.toml >long.toml
"$mlx_binary" train -c long.toml >/dev/null 2>&1 &
process=$!
run=""
for _ in $(seq 400); do
  expect 0 mlx log --status running --json
  run=$(json 'd["runs"][0]["id"] if d["runs"] else ""')
  [ -z "$run" ] || break
  sleep 0.05
done
error 4 "another process is working on it" mlx train -c long.toml --resume "$run"
same "$(listed --status running)" "train 0.003"
kill -KILL "$process"
wait "$process" 2>/dev/null || true
same "$(listed --status running)" ""
expect 0 mlx log --status killed
has "$out" "$run  killed"
expect 0 mlx show "$run" --json
same "$(json 'd["status"]')" killed

# bug: a sweep could not be read: no run named the version that it made, nor could a run be promoted.
expect 0 mlx log --runs --where command=train --reverse -n 1
has "$out" "-> clf@v1"
expect 0 mlx log --runs --where command=train --reverse -n 1 --json
same "$(json 'd["runs"][0]["versions"]')" "['clf@v1']"
trained=$(json 'd["runs"][0]["id"]')
expect 0 mlx promote "$trained" production
has "$out" "clf@production -> clf@v1"
expect 0 mlx log --runs --where command=eval --json
error 3 "made no version" mlx promote "$(json 'd["runs"][0]["id"]')" production
# bug: checkpoints were most of the audit log.
mlx train -c <(sed 's/epochs = 2/epochs = 2\ncheckpoint_every = "1 step"\nseed = 5/' train.toml) >/dev/null 2>&1
expect 0 mlx audit log --kind run
has "$out" "others before it"
same "$(grep -o 'checkpoint of run:[0-9a-f]*' <<<"$out" | sort | uniq -d)" ""
folded=$(wc -l <<<"$out")
expect 0 mlx audit log --kind run --all
[ "$(wc -l <<<"$out")" -gt "$folded" ] || fail "--all shows no more than without"
expect 0 mlx audit log --kind run --json
same "$(json 'len(d["operations"])')" "$(mlx audit log --kind run --all | wc -l)"

# bug: parameters were not found as the config writes them, a list matched nothing, and unknown names were not usage errors.
sed 's/layers = .*/hidden = [8]/; s/"cnn"/"mlp"/; s/batch = 24/batch = 24\nweight_decay = 0.01/' train.toml >mlp.toml
mlx train -c mlp.toml >/dev/null 2>&1
for where in train.weight_decay=0.01 train.optimizer.weight_decay=0.01 model.hidden=8 'model.config.hidden=[8]' 'model.hidden = 8'; do
  expect 0 mlx log --json --where "$where"
  same "$(json 'len(d["runs"])')" 1
done
same "$(json 'd["runs"][0]["params"]["train"]["optimizer"]["weight_decay"]')" 0.01
expect 0 mlx log --where model.hidden=9
same "$out" ""
expect 0 mlx log --where train.optimizer=sgd --json
[ "$(json 'len(d["runs"])')" -gt 1 ] || fail "an optimizer is not found by its name"
error 2 "did you mean 'train.weight_decay'" mlx log --where 'train.weight_decai=0.01'
error 2 "did you mean 'accuracy'" mlx log --where 'acuracy>0.5'
error 2 "did you mean 'train/loss'" mlx log --sort train/lost

# --require: conditions that an evaluation must meet.
expect 0 mlx eval clf@v1 --data data/bars --require 'accuracy >= 0' --require 'loss < 100'
has "$out" "accuracy >= 0: met"
expect 1 mlx eval clf@v1 --data data/bars --require 'accuracy > 1' --json
same "$(json 'd["requirements"][0]["met"], d["unchanged"]')" "(False, True)"
expect 1 mlx eval clf@v1 --data data/bars --require 'accuracy > 1' --require 'loss < 100'
has "$out" "accuracy > 1: not met, it is"
error 2 "expected NAME, an operator and a value" mlx eval clf@v1 --data data/bars --require 'accuracy'
error 2 "is not a number" mlx eval clf@v1 --data data/bars --require 'accuracy = high'
error 2 "did you mean 'accuracy'" mlx eval clf@v1 --data data/bars --require 'acuracy > 0.5'
error 2 "expected NAME, an operator and a value" mlx log --where accuracy
error 2 "expected NAME, an operator and a value" mlx log --where 'accuracy=>1'
error 2 "compares numbers" mlx log --where 'command<eval'
error 2 "--status" mlx log --status broken
