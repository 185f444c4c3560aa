# shellcheck shell=bash
# Remotes behind a real sshd: the same bytes arrive, a cut connection is resumed, and failures are reported.
. "$(dirname "$0")/lib.sh"
. "$here/sshd.sh"
git init -q -b main a && cd a
mlx init -q
mkdir -p data/x && seq 100000 >data/x/n.txt && for i in $(seq 200); do echo "file $i" >"data/x/$i.txt"; done
mlx add -q data/x && mlx commit -q -m first
git add -A && git commit -qm first

# Before the first push there is nothing; pushing makes it, twice is fine.
mlx remote add -q origin "ssh://there$work/my store"
error 3 "no such remote folder" mlx fetch
expect 0 mlx push
expect 0 mlx push
has "$out" unchanged
[ -f "$work/my store/heads" ] || fail "no store was made"
git add -A && git commit -qm remote

# A colleague gets the same files.
cd .. && git clone -q a b && cd b
expect 0 mlx pull
same "$(tree_of data/x)" "$(tree_of ../a/data/x)"
expect 0 mlx fsck
cd ../a

# Only what is new is sent.
head -c 3000000 /dev/urandom >data/x/random
mlx add -q data/x && mlx commit -q -m random
expect 0 mlx push --json
[ "$(json 'd["bytes"]')" -gt 3000000 ] || fail "$out"
echo more >>data/x/1.txt
mlx add -q data/x && mlx commit -q -m more
expect 0 mlx push --json
[ "$(json 'd["bytes"]')" -lt 20000 ] || fail "$out"

# A connection that is cut: an error that says so, and the next push sends the rest.
proxy cut --cut 6000000
head -c 12000000 /dev/urandom >data/x/large
mlx add -q data/x && mlx commit -q -m large
mlx remote add -q broken "ssh://cut$work/my store"
error 7 "run the command again" mlx push broken
expect 0 mlx push --json
bytes=$(json 'd["bytes"]')
[ "$bytes" -lt 9000000 ] || fail "all was sent again: $bytes"
[ "$bytes" -gt 5000000 ] || fail "more arrived than was sent: $bytes"
cd ../b
expect 0 mlx fetch --all
expect 0 mlx fsck
expect 0 mlx cat data/x@latest:large
cmp -s "$work/.out" ../a/data/x/large || fail "other bytes came back"
cd ../a

# The number of exchanges does not grow with the number of objects.
proxy counted
for count in 1 1000; do
  mkdir -p "../of$count/data/y" && cd "../of$count" && mlx init -q
  for i in $(seq "$count"); do echo "file $i" >"data/y/$i"; done
  mlx add -q data/y && mlx commit -q -m y
  mlx remote add -q counted "counted:$work/store of $count"
  expect 0 mlx push
  sleep 0.2
done
exchanges=$(tail -n +2 "$ssh_folder/counted.log" | cut -d' ' -f1 | tr '\n' ' ')
echo "exchanges for a push of 1 file and of 1000: $exchanges"
read -r few many <<<"$exchanges"
[ "$few" -gt 5 ] && [ "$many" -lt $((few + 100)) ] || fail "$many exchanges for 1000 files, $few for one"
cd ../a

# Failures say what to do.
mlx remote add -q other "ssh://there$work/my store/heads/below"
error 7 "" mlx push other
host wrong-key "$ssh_port" other_key
mlx remote add -q wrong-key "ssh://wrong-key$work/my store"
error 7 "Permission denied" mlx fetch wrong-key
has "$err" "ssh wrong-key true"
ssh-keygen -q -t ed25519 -N '' -f "$ssh_folder/another_host"
echo "127.0.0.1 $(cut -d' ' -f1,2 "$ssh_folder/another_host.pub")" >"$ssh_folder/wrong_hosts"
host wrong-host "$ssh_port" user_key "UserKnownHostsFile $ssh_folder/wrong_hosts"
mlx remote add -q wrong-host "ssh://wrong-host$work/my store"
error 7 "Host key verification failed" mlx fetch wrong-host
host nobody "$(free_port)"
mlx remote add -q nobody "nobody:store"
error 7 "Connection refused" mlx fetch nobody
MLX_REMOTE_MLX=no-such-mlx error 8 "MLX_REMOTE_MLX" mlx fetch origin
printf '#!/bin/sh\necho "Welcome to this host!"\nexec mlx "$@"\n' >"$ssh_folder/bin/greets" && chmod +x "$ssh_folder/bin/greets"
MLX_REMOTE_MLX=greets error 7 "Welcome to this host!" mlx fetch origin
printf '#!/bin/sh\nhead -c 100000 /dev/zero\n' >"$ssh_folder/bin/zeros" && chmod +x "$ssh_folder/bin/zeros"
MLX_REMOTE_MLX=zeros error 7 "something else than mlx" mlx fetch origin
printf '#!/bin/sh\nmlx "$@" </dev/null | head -c 50; head -c 100000 /dev/urandom\n' >"$ssh_folder/bin/garbles" && chmod +x "$ssh_folder/bin/garbles"
MLX_REMOTE_MLX=garbles error 6 "there" mlx fetch origin
# shellcheck disable=SC2016
for url in '-oProxyCommand=touch owned:x' 'ssh://-oProxyCommand=touch${IFS}owned/x' 'there;touch owned:x'; do
  printf '[remotes.evil]\nurl = "%s"\n' "$url" >mlx.toml
  error 2 "" mlx fetch evil
done
git checkout -q mlx.toml
[ -z "$(find "$work" -name owned)" ] || fail "a URL was run"

# A key that may only do this, below one folder, and only read.
cat >"$ssh_folder/authorized_keys" <<TEXT
$(cat "$ssh_folder/user_key.pub")
restrict,command="mlx serve-store --stdio --read-only --root '$work'" $(cat "$ssh_folder/other_key.pub")
TEXT
host reader "$ssh_port" other_key
git clone -q . ../c && cd ../c
printf '[remotes.origin]\nurl = "reader:my store"\n' >mlx.toml
expect 0 mlx pull
same "$(tree_of data/x | grep -c txt)" 201
echo c >data/x/c && mlx add -q data/x && mlx commit -q -m "by c"
error 5 "read-only" mlx push
printf '[remotes.origin]\nurl = "ssh://reader/etc"\n' >mlx.toml
error 5 "outside" mlx fetch
printf '[remotes.origin]\nurl = "reader:../../../etc"\n' >mlx.toml
error 5 "outside" mlx fetch

# Two that push at once: one of them may have to pull first, and nobody's versions are lost.
cd ../b && mlx pull -q --force
for clone in a b; do
  (cd "../$clone" && mkdir "data/$clone" && head -c 300000 /dev/urandom >"data/$clone/r" && mlx add -q "data/$clone" && mlx commit -q -m "of $clone")
done
(cd ../a && code=0 && { mlx push >"$work/a.out" 2>&1 || code=$?; } && echo "$code" >"$work/a.code") &
mlx push >"$work/b.out" 2>&1 && b=0 || b=$?
wait $!
a=$(cat "$work/a.code")
[ "$a$b" = 00 ] || [ "$a$b" = 04 ] || [ "$a$b" = 40 ] || fail "$a $(cat "$work/a.out") $b $(cat "$work/b.out")"
for clone in b a b; do (cd "../$clone" && mlx fetch -q --all && mlx push -q); done
same "$(mlx log --json)" "$(mlx -C ../a log --json)"
expect 0 mlx cat data/a@latest:r
cmp -s "$work/.out" ../a/data/a/r || fail "other bytes came back"

# ^C ends ssh as well.
printf '#!/bin/sh\necho $$ >"%s"\nexec sleep 60\n' "$work/sleeper" >"$ssh_folder/bin/sleeps" && chmod +x "$ssh_folder/bin/sleeps"
MLX_REMOTE_MLX=sleeps python3 - "$mlx_binary" "$work/sleeper" <<'PY'
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.argv[1], "fetch"], stderr=subprocess.PIPE)
while not os.path.exists(sys.argv[2]) or not open(sys.argv[2]).read():
    time.sleep(0.05)
mine = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True).stdout.split()
assert mine, "no ssh was started"
child.send_signal(signal.SIGINT)
assert child.wait(20) == 130, child.returncode
for pid in mine:
    assert not os.path.exists("/proc/" + pid), "ssh still runs"
PY
