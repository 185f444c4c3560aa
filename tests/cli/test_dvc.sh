# shellcheck shell=bash
# Import from DVC, by repositories as DVC 3 and DVC 2 leave them. What DVC itself writes: e2e/test_dvc.sh.
. "$(dirname "$0")/lib.sh"

# put FILE: into the cache of DVC 3 ($layout = files/md5/) or 2 ($layout empty); prints its MD5.
put() {
  local md5=${2:-$(md5sum <"$1" | cut -d' ' -f1)}
  mkdir -p ".dvc/cache/$layout${md5:0:2}" && cp "$1" ".dvc/cache/$layout${md5:0:2}/${md5:2}${3:-}"
  echo "$md5"
}
# A folder with a file in a sub-folder, one from Windows, and a single executable file; $hash is the key that DVC 3 adds to an out.
make() {
  rm -rf "$1" && mkdir -p "$1/.dvc" "$1/data/raw" && cd "$1"
  echo a >a && echo b >b && printf 'x\r\ny\r\n' >crlf && printf '#!/bin/sh\n' >run
  local crlf_md5=""
  [ -n "$hash" ] || crlf_md5=$(tr -d '\r' <crlf | md5sum | cut -d' ' -f1)  # DVC 2 read line ends as "\n"
  printf '[{"md5": "%s", "relpath": "a"}, {"md5": "%s", "relpath": "crlf"}, {"md5": "%s", "relpath": "sub dir/b"}]' \
    "$(put a)" "$(put crlf "$crlf_md5")" "$(put b)" >dir
  printf 'outs:\n- md5: %s.dir\n  size: 10\n  nfiles: 3\n%s  path: raw\n' "$(put dir "" .dir)" "$hash" >data/raw.dvc
  printf 'wdir: ../data\nouts:\n- md5: %s\n  size: 10\n%s  isexec: true\n  path: run\n' "$(put run)" "$hash" >data/run.dvc
  rm a b crlf run dir && mlx init -q 2>/dev/null
}

for version in 3 2; do
  if [ $version = 3 ]; then layout=files/md5/ hash=$'  hash: md5\n'; else layout="" hash=""; fi
  make "$work/repo"
  expect 0 mlx import dvc -n --json
  same "$(json '[(x["artifact"], x["files"], x["bytes"]) for x in d["datasets"]], d["dry_run"]')" "([('data/raw', 3, 10), ('data/run', 1, 10)], True)"
  [ ! -e data/raw.mlx ] || fail "-n wrote a pointer"
  expect 0 mlx import dvc --json
  same "$(json 'd["schema"], d["from"], [x["status"] for x in d["datasets"]]')" "('mlx.import/1', 'dvc', ['imported', 'imported'])"
  expect 0 mlx import dvc data/raw data/run.dvc
  has "$out" "data/raw  3 files, 10 B"
  lacks "$out" imported
  mlx checkout -q
  same "$(cat data/raw/a "data/raw/sub dir/b" data/raw/crlf)" "a
b
"$'x\r\ny\r'
  [ -x data/run ] || fail "not executable"
  same "$(cat data/.gitignore)" "/raw
/run"
  expect 0 mlx add data/raw && has "$out" unchanged
  expect 0 mlx fsck
  # Both layouts hold the same: the same versions.
  [ $version = 3 ] && kept=$(cat data/raw.mlx data/run.mlx) || same "$(cat data/raw.mlx data/run.mlx)" "$kept"
done

# A cache elsewhere, and .dvc files removed.
layout=files/md5/ hash=$'  hash: md5\n'
make "$work/repo"
mv .dvc/cache ../elsewhere && error 3 "data/raw and 1 more: not in the DVC cache" mlx import dvc
has "$err" "dvc fetch"
printf '[core]\n    dir = no\n[cache]\n    dir = ../../elsewhere\n' >.dvc/config
expect 0 mlx import dvc data/raw --remove
[ ! -e data/raw.dvc ] && [ -e data/run.dvc ] && [ -e data/raw.mlx ] || fail "the wrong .dvc file was removed"
expect 0 mlx import dvc data --remove && has "$out" data/run
expect 0 mlx import dvc && has "$out" "nothing to import"

# Damage, and files that would break out.
make "$work/repo"
object=$(grep -rlx a .dvc/cache) && echo A >"$object"
error 6 "its MD5 is not" mlx import dvc
[ ! -e data/run.mlx ] || fail "half of it was imported"
make "$work/repo"
echo ' ' >>"$(find .dvc/cache -name '*.dir')" && error 6 "its MD5 is not" mlx import dvc data/raw
sed -i 's|path: run|path: ../../../etc/passwd|' data/run.dvc && error 2 "outside of this repository" mlx import dvc data/run.dvc
sed -i 's|path: .*|path: run|; s|md5: .*|md5: x|' data/run.dvc && error 6 "has no MD5" mlx import dvc data/run
echo 'outs: [a]' >data/run.dvc && error 6 "data/run.dvc:1: is YAML of a kind" mlx import dvc data/run
head -c 300000 /dev/zero >data/run.dvc && error 6 "too large" mlx import dvc data/run
error 3 "no .dvc file there" mlx import dvc none
rm -r .dvc && error 3 "not in a DVC repository" mlx import dvc data/raw.dvc
error 2 "a subcommand is missing" mlx import
