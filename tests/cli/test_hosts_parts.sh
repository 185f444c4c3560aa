# Parts of a model, and updates that wait, on several hosts, in clear and encrypted, over real sshds in network namespaces:
# the bits that they have on one machine. The network is one of IPv6.
here=$(dirname "$0")
hosts_family=6
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
settings=(--set train.accumulate=4 --set train.optimizer=adamw)
on_hosts() { # NAME DIGEST OPTIONS...
  local name=$1 wanted=$2
  shift 2
  expect 0 mlx train -c "$name.toml" "${settings[@]}" "$@" --verify-every 2 --force --json
  same "$name $*: $(digest)" "$name $*: $wanted"
  same "$(json "d['summary']['communication']['encrypted']")" "$([[ $* = *--encrypt* ]] && echo True || echo False)"
  none_left
}

# Stages have the bits of one rank: one a host, and with data parallel; also where this machine does not train, and the
# state comes here from the stages of others.
expect 0 mlx train -c gpt2.toml "${settings[@]}" --json
on_hosts gpt2 "$(digest)" --hosts localhost,a --pp 2
same "$(json "d['summary']['pp'], d['summary']['ranks']")" "(2, 2)"
expect 0 mlx train -c llama.toml "${settings[@]}" --json
one=$(digest)
on_hosts llama "$one" --hosts localhost,a,b:2 --pp 2 --encrypt
on_hosts llama "$one" --hosts a,b --pp 2
# Parts of layers have those of the parts on one machine, alone, with stages and with data parallel.
expect 0 mlx train -c llama.toml "${settings[@]}" --ranks 2 --tp 2 --json
parts=$(digest)
on_hosts llama "$parts" --hosts localhost,a --tp 2
same "$(json "d['summary']['tp'], d['summary']['ranks']")" "(2, 2)"
on_hosts llama "$parts" --hosts localhost,a:2,b --tp 2 --pp 2 --encrypt
on_hosts llama "$parts" --hosts a:2,b:2 --tp 2
# Updates that wait.
expect 0 mlx train -c llama.toml "${settings[@]}" --async 2 --json
waits=$(digest)
on_hosts llama "$waits" --hosts localhost,a:2,b --async 2 --encrypt

# The plan and the forecast count the frames of encrypted messages: 8 MiB, and half a MiB for each message that may be
# under way, here of two sums of three ranks that wait beside the one that is made.
planned() { expect 0 mlx train -c llama.toml "${settings[@]}" --hosts localhost,a,b:2 --async 2 --force -n --json "$@" && json "d['hosts'][0]['rank_memory']"; }
clear=$(planned) sealed=$(planned --encrypt)
[ $((sealed - clear)) -ge $((8 << 20)) ] || fail "a rank takes $sealed bytes with --encrypt, $clear without"
expect 0 mlx train -c llama.toml "${settings[@]}" --hosts localhost,a,b:2 --async 2 --encrypt --force --json
same "$(json "d['summary']['memory']['frames'] == $((sealed - clear))")" True
expect 0 mlx train -c llama.toml "${settings[@]}" --hosts localhost,a --pp 2 --encrypt --force --json
same "$(json "d['summary']['memory']['frames'] == 8 << 20, d['summary']['memory']['peak'] > 8 << 20")" "(True, True)"

# A host that is lost while stages train: the others go on from the last checkpoint, to the same bits.
sed 's/^epochs = 2/epochs = 1200\naccumulate = 4\ncheckpoint_every = "20 steps"/' llama.toml >long.toml
"$mlx_binary" train -c long.toml --hosts localhost,a,b:2 --pp 2 --encrypt --min-ranks 2 --json >"$work/.out" 2>"$work/.err" </dev/null &
launcher=$!
for _ in {1..400}; do
  ! mlx log --runs --json | python3 -c 'import json,sys; sys.exit(all(r["status"] != "running" for r in json.load(sys.stdin)["runs"]))' || [ -z "$(runs_on b)" ] || break
  sleep 0.05
done
sleep 1.5
ip link set to_b down
code=0; wait $launcher || code=$?
ip link set to_b up
same "$code: $(cat .err)" "0: $(cat .err)"
has "$(cat .err)" 'going on from the last checkpoint on 2 ranks of 2 hosts'
out=$(cat .out)
left=$(digest)
expect 0 mlx train -c long.toml --force --json
same "$left" "$(digest)"
none_left
