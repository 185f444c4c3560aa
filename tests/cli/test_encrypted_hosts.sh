# Training on several hosts with --encrypt, over real sshds in network namespaces: the same bits as one rank, nothing to be
# read on the network, and the key is on no command line, in no environment and in no file.
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

# Who listens at the bridge reads what rank 0 tells the others of the config, unless it is encrypted.
sed 's/^\[train\]/# lighthouse-and-windmill\n[train]\naccumulate = 4/' cnn.toml >marked.toml
expect 0 mlx train -c marked.toml --force --json
one=$(digest)
overheard() { # OPTIONS...
  mkfifo listening
  python3 "$here/listen.py" bridge0 "$work/heard" >listening &
  local listener=$!
  read -r _ <listening
  expect 0 mlx train -c marked.toml --hosts localhost,a:2,b --force --json "$@"
  kill $listener
  wait $listener 2>/dev/null || true
  rm listening
  same "$(digest)" "$one"
  [ "$(stat -c %s heard)" -gt 20000 ] || fail "nothing was heard"
}
overheard
grep -q lighthouse-and-windmill heard || fail "the test hears nothing of what is said in clear"
same "$(json "d['summary']['communication']['encrypted']")" False
overheard --encrypt
! grep -q lighthouse-and-windmill heard || fail "the config was sent in clear"
same "$(json "d['summary']['communication']['encrypted']")" True
same "$(json "d['summary']['ranks']")" 4
# The key of the run does not hold it.
expect 0 mlx train -c marked.toml --json
same "$(json "d['unchanged']")" True
none_left

# An ssh that keeps what goes to `mlx rank --key`.
mkdir spy
cat >spy/ssh <<TEXT
#!/bin/bash
case "\${*: -1}" in
  *' rank --key') tee -a "$work/spy/handed" | $MLX_SSH_COMMAND "\$@" ;;
  *) exec $MLX_SSH_COMMAND "\$@" ;;
esac
TEXT
chmod +x spy/ssh
sed 's/^epochs = 2/epochs = 5000\naccumulate = 4\ncheckpoint_every = "100 steps"/' cnn.toml >long.toml
worker() { for process in $(runs_on b); do [ "$(cat "/proc/$process/comm")" != mlx ] || { echo "$process"; break; }; done; }
begin() { # OPTIONS...: a long training in the background
  MLX_SSH_COMMAND=$work/spy/ssh "$mlx_binary" train -c long.toml --encrypt --json "$@" >"$work/.out" 2>"$work/.err" </dev/null &
  launcher=$!
  for _ in {1..400}; do
    mlx log --runs --json | python3 -c 'import json,sys; sys.exit(all(r["status"] != "running" for r in json.load(sys.stdin)["runs"]))' && [ -n "$(worker)" ] && return
    kill -0 $launcher 2>/dev/null || fail "it has ended: $(cat .err)"
    sleep 0.05
  done
  fail "it does not begin: $(cat .err)"
}
key() { tail -c +33 spy/handed | head -c 32; }
find_key() { key | python3 "$here/find_secret.py" "$work/home_$1" "$work/.mlx" "$work/.home" "$work/ssh" /dev/shm /tmp/ompi.* || fail "the key is there"; }
begin --hosts localhost,a,b:2
sleep 0.5
same "$(stat -c %s spy/handed)" $((2 * (68 + 3 * 6 + 8 + 1 + 1)))
find_key a
find_key b
key >home_b/there  # what looks for it finds it
! key | python3 "$here/find_secret.py" "$work/home_b" >found || fail "the test does not find what is there"
has "$(cat found)" home_b/there
rm home_b/there
# Nobody holds it any more: all ranks have it.
for process in $(runs_on a) $(runs_on b); do ! grep -qxz -e --key "/proc/$process/cmdline" || fail "the key is still held"; done
# A host is lost: the next launch has a key of its own.
kill -TERM $launcher
wait $launcher || same $? 143
none_left
cp spy/handed first
begin --hosts localhost,a,b:2 --min-ranks 2
cmp -n 64 -s first spy/handed || fail "what was handed out first is gone"
! tail -c +$(($(stat -c %s first) + 1)) spy/handed | cmp -n 64 -s first - || fail "two launches had the same key"
sleep 0.5
ip link set to_b down
code=0; wait $launcher || code=$?
ip link set to_b up
same "$code" 0
out=$(cat .out)
has "$(cat .err)" 'going on from the last checkpoint on 2 ranks of 2 hosts'
same "$(json "d['summary']['communication']['encrypted']")" True
left=$(digest)
expect 0 mlx train -c long.toml --force --json
same "$left" "$(digest)"
none_left

# Where no key can be handed out, or nothing is sent.
error 2 '--encrypt: all ranks are on this machine' mlx train -c cnn.toml --ranks 2 --encrypt
error 2 '--encrypt: all ranks are on this machine' mlx train -c cnn.toml --encrypt
expect 2 mpirun -q --np 2 --oversubscribe --bind-to none "$mlx_binary" train -c cnn.toml --encrypt
has "$err" '--encrypt: something else than mlx has started these ranks'
error 7 'the key of a launch: it ends too early' mlx rank --key
MLX_LAUNCH=$(printf '0%.0s' {1..32}) expect 7 mpirun -q --np 2 --oversubscribe --bind-to none "$mlx_binary" train -c cnn.toml --set train.seed=8 --encrypt
has "$err" 'nobody holds the key of its launch on this host'
# A host that does not take the key.
rm home_b/bin/mlx
cat >home_b/bin/mlx <<TEXT
#!/bin/sh
case "\$2" in
  --key) echo 'mlx: error: no room' >&2; exit 7 ;;
  --facts) "$mlx_binary" "\$@" | sed 's,"program":"[^"]*","program":"$work/home_b/bin/mlx",' ;;
  *) exec "$mlx_binary" "\$@" ;;
esac
TEXT
chmod +x home_b/bin/mlx
error 7 'b: it does not take the key of the launch: no room' mlx train -c cnn.toml --set train.seed=8 --set train.accumulate=4 --hosts localhost,a:2,b --encrypt
none_left
