# Training on several hosts over SSH, with real sshds in network namespaces: workers have no repository, the model has the
# bits of one rank, and what stands in the way is said before anything is started.
here=$(dirname "$0")
# shellcheck source=hosts.sh
source "$here/hosts.sh"
# shellcheck source=lib.sh
source "$here/lib.sh"
trap 'hosts_end; cleanup' EXIT
[ -f "$(dirname "$mlx_binary")/lib/mlx/mlx_mpi.so" ] || { echo "skipped: mlx was built without Open MPI"; exit 77; }
start_hosts a b
# shellcheck source=families.sh
source "$here/families.sh"
digest() { json "d['digest']"; }

# -n says what would be, and changes nothing.
expect 0 mlx train -c cnn.toml --set train.accumulate=4 --hosts localhost,a:2,b -n
has "$out" 'on 4 ranks, a batch in 4 parts'
has "$out" '  a  2 ranks of 1 thread'
lacks "$(grep '^  a' <<<"$out")" ' 0 B to send'
[ ! -e home_a/cache ] || fail "-n has written on a host"
expect 0 mlx train -c cnn.toml --set train.accumulate=4 --hosts localhost,a:2,b -n --json
same "$(json "[(h['host'], h['ranks']) for h in d['hosts']]")" "[('localhost', 1), ('a', 2), ('b', 1)]"
same "$(json "d['hosts'][1]['bytes_to_send'] > 0")" True

for name in cnn gpt2 mlp; do
  expect 0 mlx train -c $name.toml --set train.accumulate=4 --hosts localhost,a:2,b --json
  many=$(digest)
  same "$(json "d['summary']['ranks']")" 4
  expect 0 mlx train -c $name.toml --set train.accumulate=4 --force --json
  same "$name: $many" "$name: $(digest)"
  expect 0 mlx train -c $name.toml --set train.accumulate=4 --hosts localhost,a:2,b --json
  same "$(json "d['unchanged']")" True
done
[ ! -e home_a/.mlx ] || fail "a worker has got a repository"
# What is there is not sent again.
printf 'localhost  # this machine\n\na slots=2\nb:1\n' >hostfile
expect 0 mlx train -c cnn.toml --set train.seed=5 --set train.accumulate=4 --hostfile hostfile -n --json
same "$(json "[h['bytes_to_send'] for h in d['hosts']]")" "[0, 0, 0]"
# A base's description is enough for workers.
sed 's/name = "cnn"/name = "tuned"\ninit = "cnn"/' cnn.toml >tuned.toml
expect 0 mlx train -c tuned.toml --set train.accumulate=2 --hosts localhost,b --json
tuned=$(digest)
expect 0 mlx train -c tuned.toml --set train.accumulate=2 --force --json
same "$tuned" "$(digest)"
# This machine only records what others train; also from a base, whose weights it has.
expect 0 mlx train -c tuned.toml --set train.accumulate=2 --hosts a,b --force --json
same "$tuned" "$(digest)"
for others in a,b b; do
  expect 0 mlx train -c cnn.toml --set data.hold_out=12 --set train.accumulate=4 --hosts $others --force --json
  many=$(digest)
  same "$(json "d['summary']['ranks']")" "$(tr , '\n' <<<$others | grep -c .)"
  expect 0 mlx show "run:$(json "d['run']")" --metric valid/loss --csv
  same "$(grep -c , <<<"$out")" 3
  expect 0 mlx train -c cnn.toml --set data.hold_out=12 --set train.accumulate=4 --force --json
  same "$others: $many" "$others: $(digest)"
done
# A profile and a trace of hosts, and figures of each, where none of them is this machine.
expect 0 mlx train -c cnn.toml --set train.accumulate=2 --hosts a,b --force --profile --trace hosts.json --json
same "$(json "[r['name'] for r in d['profile']['ranks']]")" "['rank 1 on a', 'rank 2 on b']"
same "$(json "d['profile']['steps'] > 1 and len(d['profile']['operations']) > 5 and d['profile']['peak'] is None")" True
same "$(json "[(r['rank'], r['host']) for r in d['summary']['communication']['ranks']]")" "[(1, 'a'), (2, 'b')]"
same "$(json "[h['host'] for h in d['summary']['communication']['hosts']]")" "['a', 'b']"
has "$err" 'the ranks are on other hosts'
same "$(python3 -c 'import json; print([e["args"]["name"] for e in json.load(open("hosts.json")) if e["name"] == "process_name"])')" "['rank 1 on a', 'rank 2 on b']"
error 9 'at step' mlx train -c mlp.toml --set train.learning_rate=1000 --set train.optimizer=sgd --set train.loss=mse --hosts b
none_left

# A long training that is ended in every way goes on from its checkpoint.
sed 's/^epochs = 2/epochs = 5000\naccumulate = 4\ncheckpoint_every = "100 steps"/' cnn.toml >long.toml
worker() { for process in $(runs_on b); do [ "$(cat "/proc/$process/comm")" != mlx ] || { echo "$process"; break; }; done; }
stopped() { # WHAT CODE COMMAND...: runs the command once ranks train on a and b
  local what=$1 expected=$2 code=0
  shift 2
  "$mlx_binary" train -c long.toml --hosts ${hosts:-localhost,a,b:2} ${more:-} >/dev/null 2>"$work/.err" &
  launcher=$!
  for _ in {1..200}; do
    mlx log --runs --json | python3 -c 'import json,sys; sys.exit(all(r["status"] != "running" for r in json.load(sys.stdin)["runs"]))' && [ -n "$(worker)" ] && break
    sleep 0.05
  done
  sleep 1
  "$@"
  wait $launcher || code=$?
  same "$what: $code" "$what: $expected"
  none_left
}
stopped TERM 143 eval 'kill -TERM $launcher'
has "$(cat .err)" 'a checkpoint is kept'
hosts=a,b more='--set train.epochs=50000' stopped 'TERM from afar' 143 eval 'kill -TERM $launcher'
has "$(cat .err)" 'a checkpoint is kept'
stopped KILL 137 eval 'kill -KILL $launcher'
stopped 'rank killed' 7 eval 'kill -KILL $(worker)'
has "$(cat .err)" 'the same command continues from the last checkpoint'
has "$(cat .err)" ' on b was ended by signal 9'
stopped 'link cut' 7 eval 'ip link set to_a down'
has "$(cat .err)" 'rank 1 on a has said nothing for 8 s; at step '
ip link set to_a up
# A host is lost: the training goes on with those that are left, as many ranks as share a batch.
"$mlx_binary" train -c long.toml --hosts localhost,a,b:2 --min-ranks 2 --json >"$work/.out" 2>"$work/.err" &
launcher=$!
until [ -n "$(worker)" ]; do sleep 0.05; done
sleep 1
ip link set to_b down
code=0; wait $launcher || code=$?
ip link set to_b up
same "$code" 0
out=$(cat .out)
has "$(cat .err)" ' on b has said nothing for 8 s; at step '
has "$(cat .err)" 'going on from the last checkpoint on 2 ranks of 2 hosts'
same "$(json "d['summary']['ranks']")" 2
left=$(digest)
expect 0 mlx train -c long.toml --force --json
same "$left" "$(digest)"
none_left

# What cannot be is said before anything is started.
train() { mlx train -c mlp.toml --set train.seed=9 --set train.accumulate=4 "$@"; }
error 2 'the host a stands there twice' train --hosts localhost,a,a
error 2 "'0' is no number of ranks from 1 to 4096" train --hosts localhost,a:0
error 2 "'-oProxyCommand=x' is no name of a host" train --hosts localhost,-oProxyCommand=x
error 2 "'me@a' is no name of a host" train --hosts localhost,me@a
error 2 'exclude each other' train --hosts localhost,a --ranks 2
printf 'localhost\na 2\n' >hostfile
error 2 "hostfile:2: expected slots=N, found '2'" train --hostfile hostfile
: >hostfile
error 2 'hostfile: it names no host' train --hostfile hostfile
error 2 'accumulate = 4 micro-batches cannot be shared among 3 ranks' train --hosts localhost,a:2
# All problems of all hosts at once.
rm home_a/bin/mlx
expect 8 train --hosts localhost,a,b,nowhere
has "$err" '2 of 4 hosts cannot take part; nothing was started'
has "$err" 'a: '
has "$err" '--ship sends this mlx there; or install it, or name it with MLX_REMOTE_MLX=PATH'
has "$err" 'nowhere: '
has "$err" 'Could not resolve hostname'
# --ship sends it, once.
expect 0 train --hosts localhost,a:2,b --ship -n
has "$out" '  a  2 ranks, after mlx is sent there'
[ ! -e home_a/cache/mlx/programs ] || fail "-n has written on a host"
expect 0 train --hosts localhost,a:2,b --ship --json
has "$err" 'a: mlx sent, '
lacks "$err" 'b: mlx sent'
many=$(digest)
expect 0 train --force --json
same "$many" "$(digest)"
expect 0 train --hosts a --ship --force
lacks "$err" 'mlx sent'
error 2 '--ship is for --hosts and --hostfile' train --ranks 2 --ship
none_left
train() { mlx train -c mlp.toml --set train.seed=10 --set train.accumulate=4 "$@"; }  # is not known yet
printf '#!/bin/sh\n[ "$1" != rank ] && exec "%s" "$@"\n"%s" rank --facts | sed %s\n' "$mlx_binary" "$mlx_binary" "'s/\"sources\":\"..../\"sources\":\"0000/'" >home_a/bin/mlx
chmod +x home_a/bin/mlx
error 8 'a: its mlx is 0.1.0, built from other sources than this one' train --hosts localhost,a:2,b
printf '#!/bin/sh\n"%s" rank --facts | sed %s\n' "$mlx_binary" "'s/\"native\":\"..../\"native\":\"0000/'" >home_a/bin/mlx
error 8 'libraries would make other bits' train --hosts localhost,a:2,b
has "$err" '--numerics portable gives the same bits on all of them'
printf '#!/bin/sh\n"%s" rank --facts | sed %s\n' "$mlx_binary" "'s/\"memory\":[0-9]*/\"memory\":1000000/'" >home_a/bin/mlx
error 8 'a: its ranks need ' train --hosts localhost,a:2,b
printf '#!/bin/sh\necho hello\n' >home_a/bin/mlx
error 8 'a: it does not answer as mlx does: hello' train --hosts localhost,a:2,b
none_left
