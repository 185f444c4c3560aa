# shellcheck shell=bash
# What no test inside one process shows: two writers at once, SIGKILL at every step of a push, a database of a newer
# mlx, a damaged journal, a disk that is really full.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/x && head -c 100000 /dev/urandom >data/x/noise && echo a >data/x/a
mlx add -q data/x && mlx commit -q -m first
mlx remote add -q origin "$work/remote" && mlx push -q >/dev/null

# Two processes add and commit different datasets, and fsck reads beside them.
writer() {
  local round
  for round in 1 2 3 4 5; do
    mkdir -p "data/$1" && echo "$1 $round" >"data/$1/own" && cp data/x/noise "data/$1/shared"
    mlx add -q "data/$1" >/dev/null || echo "add $1: $?" >>failed
    mlx commit -q -m "$1 $round" "data/$1" >/dev/null || echo "commit $1: $?" >>failed
  done
}
writer one 2>>failed &
first=$!
writer two 2>>failed &
second=$!
for _ in 1 2 3; do mlx fsck -q >/dev/null 2>>failed || echo "fsck: $?" >>failed; done
wait $first $second
[ ! -s failed ] || fail "$(cat failed)"
expect 0 mlx fsck
for name in one two; do
  expect 0 mlx log "data/$name" --json
  same "$(json 'len(d["versions"])')" 5
  for n in 1 2 3 4 5; do same "$(mlx cat "data/$name@v$n:own")" "$name $n"; done
done
expect 0 mlx audit verify

# Killed before every change of the disk in turn: sound each time, and the same command then goes through.
# killed_everywhere MOST COMMAND...: from the state in saved/, which is put back each time.
killed_everywhere() {
  local most=$1 at code
  shift
  for at in $(seq 1 "$stride" "$most"); do
    rm -rf .mlx remote && cp -r saved/.mlx . && cp -r saved/remote .
    code=0
    MLX_KILL_AT=$at mlx "$@" >/dev/null 2>&1 || code=$?
    [ "$code" = 0 ] && break
    same "$code" 137
    expect 0 mlx fsck
    expect 0 mlx cat data/x@v1:a
    expect 0 mlx "$@"
    expect 0 mlx fsck
  done
  [ "$at" -gt 3 ] || fail "$*: only $at steps were visited"
  [ "$code" = 0 ] || fail "$*: $most steps were not enough"
}
keep() { rm -rf saved && mkdir saved && cp -r .mlx remote saved/; }
keep
killed_everywhere 60 push
expect 0 mlx push
rm -rf "$work/clone" && expect 0 mlx clone -q "$work/remote" "$work/clone"
expect 0 mlx -C "$work/clone" fsck

# A database of a newer schema: refused, with the version that is needed, and nothing changes.
known=$(python3 -c 'import sqlite3; print(sqlite3.connect(".mlx/meta.db").execute("PRAGMA user_version").fetchone()[0])')
python3 -c 'import sqlite3,sys; c = sqlite3.connect(".mlx/meta.db"); c.execute("PRAGMA user_version = %d" % (int(sys.argv[1]) + 7)); c.close()' "$known"
before=$(tree_of .mlx)
for command in "log" "status" "add data/x" "commit -m x" "fsck" "fsck --rebuild" "gc --yes" "push" "undo"; do
  # shellcheck disable=SC2086
  error 4 "schema version $((known + 7)), this mlx knows up to $known" mlx $command
  has "$err" "upgrade"
done
same "$(tree_of .mlx)" "$before"
python3 -c 'import sqlite3,sys; sqlite3.connect(".mlx/meta.db").execute("PRAGMA user_version = " + sys.argv[1])' "$known"
expect 0 mlx fsck

# A flipped bit in the journal's last record, whose operation is in packs and in the database too.
python3 - <<'EOF'
with open(".mlx/journal", "r+b") as f:
    f.seek(-60, 2)
    byte = f.read(1)[0]
    f.seek(-60, 2)
    f.write(bytes([byte ^ 1]))
EOF
expect 6 mlx fsck
has "$out" "the last operations are damaged"
expect 1 mlx audit verify
has "$out" "altered"
expect 0 mlx fsck --rebuild
expect 0 mlx fsck
same "$(mlx cat data/two@v5:own)" "two 5"

# A really full disk, at every step: an error that says so, and everything is as before.
mkdir small
if mount -t tmpfs -o size=2m none small 2>/dev/null; then
  mounted=$work/small
  cd small
  mlx init -q .
  mkdir -p data/z && echo ok >data/z/ok
  mlx add -q data/z && mlx commit -q -m ok
  head -c 200000 /dev/urandom >"$work/more"
  cp "$work/more" data/z/more
  for left in 0 4 16 48 96 160 240 320; do
    rm -f fill
    free=$(df --output=avail -k . | tail -1)
    [ "$free" -le "$left" ] || head -c $(((free - left) * 1024)) /dev/zero >fill
    code=0
    mlx add data/z >/dev/null 2>"$work/.full" && mlx commit -m more >/dev/null 2>"$work/.full" || code=$?
    rm -f fill
    if [ "$code" != 0 ]; then
      same "$code" 7
      has "$(cat "$work/.full")" "mlx: error:"
    fi
    expect 0 mlx fsck
    same "$(mlx cat data/z@v1:ok)" ok
    same "$(ls .mlx/packs | grep -c '^tmp-' || true)" 0
  done
  expect 0 mlx add data/z
  expect 0 mlx commit -m more
  mlx cat data/z@v2:more | cmp - "$work/more" || fail "not what was added"
  cd "$work"
else
  echo "skipped: all but the full disk passed; no right to mount one"
  exit 77
fi
