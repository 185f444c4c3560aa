# Ranks that mpirun has started, and not mlx: one that hangs is noticed by the others and named, and all end.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=own_ranks.sh
source "$here/own_ranks.sh"
# shellcheck source=families.sh
source "$here/families.sh"
ranks() { mpirun -q --np "$1" --oversubscribe --bind-to none "${@:2}"; }
rank_process() { # the process of rank $1
  for process in $(here_run); do
    ! tr '\0' '\n' 2>/dev/null <"/proc/$process/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" || { echo "$process"; return; }
  done
}
sed 's/^epochs = 2/epochs = 100000\naccumulate = 6\nbatch = 24/; /^batch = 20/d' cnn.toml >long.toml

for hangs in 2 0; do
  code=0
  ranks 3 "$mlx_binary" train -c long.toml >.out 2>.err &
  mpirun=$!
  until mlx log --runs --json | grep -q '"running"'; do sleep 0.05; done
  sleep 1.5
  kill -STOP "$(rank_process $hangs)"
  began=$(date +%s%N)
  wait $mpirun || code=$?
  took=$((($(date +%s%N) - began) / 1000000))
  same "$hangs: $code" "$hangs: 7"
  has "$(cat .err)" "mlx: error: rank $hangs on $(hostname) has said nothing for 8 s; at step "
  same "$(grep -c "has said nothing" .err)" 1
  has "$(cat .err)" 'hint: the same command continues from the last checkpoint'
  [ $took -gt 6000 ] && [ $took -lt 14000 ] || fail "rank $hangs was noticed after $took ms"
  all_gone
done
# Who is stopped with all others is not lost.
ranks 2 "$mlx_binary" train -c long.toml --set train.accumulate=2 --set train.epochs=400 >.out 2>.err &
mpirun=$!
until [ -n "$(rank_process 1)" ] && mlx log --runs --json | grep -q '"running"'; do sleep 0.05; done
stopped="$(rank_process 0) $(rank_process 1)"
# shellcheck disable=SC2086
kill -STOP $stopped
sleep 9.5
# shellcheck disable=SC2086
kill -CONT $stopped
code=0; wait $mpirun || code=$?
same "$code: $(cat .err)" "0: $(cat .err)"
lacks "$(cat .err)" 'has said nothing'
all_gone
