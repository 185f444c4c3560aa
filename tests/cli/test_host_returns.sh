# A host that was lost is taken back by a training that goes on without it, when it can be reached again: with real sshds
# in network namespaces. It takes the ten seconds after which the launcher asks.
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
sed 's/^epochs = 2/epochs = 3000\naccumulate = 4\ncheckpoint_every = "100 steps"/' cnn.toml >long.toml
said() { # TEXT SECONDS: until the launcher has said it
  for _ in $(seq $(($2 * 10))); do ! grep -q "$1" .err || return 0; sleep 0.1; done
  fail "did not say '$1' within $2 s: $(cat .err)"
}
ranks_on() { for process in $(runs_on "$1"); do [ "$(cat "/proc/$process/comm" 2>/dev/null)" != mlx ] || echo "$process"; done; }
# The training would be done before the host is asked: the rank on a works only a moment in three seconds.
slow_down() {
  while [ -e slow ]; do
    kill -STOP $(ranks_on a) 2>/dev/null || true
    sleep 3
    kill -CONT $(ranks_on a) 2>/dev/null || true
    sleep 0.2
  done
}

"$mlx_binary" train -c long.toml --hosts localhost,a,b:2 --min-ranks 2 --json >.out 2>.err &
launcher=$!
until [ -n "$(ranks_on b)" ]; do sleep 0.05; done
sleep 1
ip link set to_b down
said 'going on from the last checkpoint on 2 ranks of 2 hosts' 40
touch slow
slow_down &
slower=$!
ip link set to_b up
said 'b is back: going on from the last checkpoint on 4 ranks of 3 hosts' 60
rm slow
wait $slower
code=0; wait $launcher || code=$?
same "$code" 0
out=$(cat .out)
lacks "$(cat .err)" 'interrupted after step'
lacks "$(cat .err)" 'hint: mlx train'
same "$(json "d['summary']['ranks'], d['summary']['taken_back']")" "(4, ['b'])"
back=$(digest)
expect 0 mlx train -c long.toml --force --json
same "$back" "$(digest)"
same "$(json "'taken_back' in d['summary']")" False
none_left
