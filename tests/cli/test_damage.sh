# shellcheck shell=bash
# Disks that are full, read-only or damaged, and death at any step: a clear error, and the repository as before.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/x && head -c 300000 /dev/urandom >data/x/noise && echo a >data/x/a
mlx add -q data/x && mlx commit -q -m first && mlx tag t data/x
listings() { for c in ls log "log --runs" "show data/x" status; do mlx $c --json; done; }
before=$(listings)

# Killed before every change of the disk in turn: nothing committed is lost, and the same command then goes through.
mkdir -p data/y
for at in $(seq 1 "$stride" 40); do
  echo "$at" >data/y/b
  code=0
  MLX_KILL_AT=$at mlx add data/y >/dev/null 2>&1 || code=$?
  [ "$code" = 0 ] && break
  same "$code" 137
  expect 0 mlx fsck
  expect 0 mlx cat data/x@v1:a
done
[ "$at" -gt 3 ] || fail "only $at steps were visited"
[ "$code" = 0 ] || fail "40 steps were not enough"
expect 0 mlx add data/y
for at in $(seq 1 "$stride" 40); do
  code=0
  MLX_KILL_AT=$at mlx commit -m "y" >/dev/null 2>&1 || code=$?
  [ "$code" = 0 ] && break
  same "$code" 137
  expect 0 mlx fsck
done
expect 0 mlx log data/y --json
same "$(json 'len(d["versions"])')" 1
rm -r data/y data/y.mlx

# The database is only a projection.
before=$(listings)
rm .mlx/meta.db*
expect 0 mlx fsck --rebuild
same "$(listings)" "$before"
echo garbage >.mlx/meta.db
rm -f .mlx/meta.db-*
expect 0 mlx fsck --rebuild
same "$(listings)" "$before"

# Damage in a pack is found and named.
pack=$(ls -S .mlx/packs/*.pack | head -1)
cp "$pack" saved
chmod u+w "$pack"
printf '\xff\xff\xff\xff' | dd of="$pack" bs=1 seek=5000 conv=notrunc status=none
expect 6 mlx fsck
has "$out" "problem"
expect 6 mlx cat data/x:noise
has "$err" "mlx: error:"
cp saved "$pack"
expect 0 mlx fsck

# Truncated and hostile pointers.
cp data/x.mlx pointer
head -c 20 pointer >data/x.mlx
error 6 "data/x.mlx" mlx status
printf 'artifact ../../etc\ndigest sha256:%064d\nfiles 1\nkind dataset\nsize 1\n' 0 >data/x.mlx
error 6 "data/x.mlx" mlx checkout
cp pointer data/x.mlx

# A repository that may not be written: reading works or says so, writing fails, nothing changes.
if [ "$(id -u)" = 0 ]; then
  chmod 755 "$work"
  guest() { setpriv --reuid=65534 --regid=65534 --clear-groups "$mlx_binary" "$@"; }
  command -v setpriv >/dev/null && setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$mlx_binary" || guest() { return 7; }
else
  chmod -R a-w .mlx
  guest() { mlx "$@"; }
fi
echo new >data/x/a
state=$(tree_of .)
for command in "add data/x" "tag u data/x@v1" "promote data/x@v1 p"; do
  code=0
  # shellcheck disable=SC2086
  guest $command >"$work/.out2" 2>"$work/.err2" || code=$?
  [ "$code" = 7 ] || fail "$command in a read-only repository: $code: $(cat "$work/.err2")"
  rm -f "$work/.out2" "$work/.err2"
done
same "$(tree_of .)" "$state"
chmod -R u+w .mlx

# A full disk.
mkdir small
if mount -t tmpfs -o size=3m none small 2>/dev/null; then
  mounted=$work/small
fi
big() {
  mkdir -p small/p/data/z && cd small/p
  mlx init -q .
  echo ok >data/z/ok
  mlx add -q data/z && mlx commit -q -m ok
}
if [ -n "$mounted" ]; then
  big
  head -c 1200000 /dev/urandom >data/z/1
  head -c 900000 /dev/urandom >data/z/2 2>/dev/null || true
  error 7 "No space left" mlx add data/z
else
  big
  head -c 3000000 /dev/urandom >data/z/1
  code=0
  (ulimit -f 1000; trap '' XFSZ; "$mlx_binary" add data/z >/dev/null 2>"$work/err") || code=$?
  same "$code" 7
fi
rm -f data/z/1 data/z/2
expect 0 mlx fsck
expect 0 mlx status --json
same "$(json 'd["artifacts"][0]["status"]')" clean
same "$(ls .mlx/packs | grep -c tmp || true)" 0
