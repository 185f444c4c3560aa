# shellcheck shell=bash
# gc through the binary: what it removes and keeps, beside git and other processes, and killed at every step.
. "$(dirname "$0")/lib.sh"
mkdir repo && cd repo
git init -q .
mlx init -q .
packs() { ls .mlx/packs | grep -c '\.pack$' || true; }
stored() { du -sb .mlx/packs | cut -f1; }
# dataset NAME BYTES: a new random dataset, added.
dataset() {
  mkdir -p "data/$1" && head -c "$2" /dev/urandom >"data/$1/noise"
  mlx add -q "data/$1" >/dev/null
}

error 2 "is not a duration" mlx gc --grace soon
error 2 "is not a duration" mlx gc --grace 14
error 3 "no remote" mlx gc --remote nowhere
expect 0 mlx gc
has "$out" "nothing to remove"

# A dry run by default; the grace period; then the removal.
dataset kept 300000 && mlx commit -q >/dev/null -m kept
dataset gone 400000
digest=$(sed -n 's/^digest //p' data/gone.mlx)
rm -r data/gone data/gone.mlx
before=$(tree_of .mlx)
expect 0 mlx gc --grace 0 --json
same "$(json 'd["schema"], d["dry_run"], d["freed_bytes"] > 400000')" "('mlx.gc/1', True, True)"
same "$(tree_of .mlx)" "$before"
expect 0 mlx gc --yes
has "$out" "within the grace period"
expect 0 mlx gc --yes -n --grace 0
has "$err" "nothing was changed"
size=$(stored)
expect 0 mlx gc --yes --grace 0
has "$out" "removed"
[ $((size - $(stored))) -gt 400000 ] || fail "nothing was freed"
expect 0 mlx fsck
expect 0 mlx cat data/kept@v1:noise
same "$(sha256sum <"$work/.out")" "$(sha256sum <data/kept/noise)"

# Pointers that only git still has: a branch, a tag, a stash, the index, a linked worktree.
git add -A && git commit -q -m base
for place in branch tag stash index linked; do
  dataset $place 50000
  git add data/$place.mlx data/.gitignore
  case $place in
  branch) git switch -q -c side && git commit -q -m side && git switch -q - ;;
  tag) git commit -q -m tag && git tag here && git reset -q --hard HEAD~1 ;;
  stash) git stash -q ;;
  index) rm data/$place.mlx ;;
  linked)
    git worktree add -q --detach ../linked && mkdir -p ../linked/data
    mv data/linked.mlx ../linked/data/ && git rm -q --cached data/linked.mlx
    git -C ../linked add data/linked.mlx
    ;;
  esac
  rm -rf data/$place
done
dataset nowhere 50000 && rm -r data/nowhere data/nowhere.mlx
expect 0 mlx gc --yes --grace 0 --json
same "$(json 'd["removed_packs"]')" 1
git worktree remove --force ../linked
expect 0 mlx gc --grace 0 --json
same "$(json 'd["removed_packs"]')" 1
git reset -q --hard
for place in side here; do
  git checkout -q $place
  expect 0 mlx checkout
  git checkout -q -
done
git stash pop -q
expect 0 mlx checkout data/stash
git checkout -q -- . && git clean -qfd

# The cache of whole files: files that no checkout shares are removed, whatever their age.
mlx checkout -q --link hardlink data/kept@v1 --to ../shared >/dev/null
expect 0 mlx gc --json
same "$(json 'd["evicted_files"], d["evicted_bytes"]')" "(0, 0)"
rm -r ../shared
expect 0 mlx gc
has "$out" "would remove from the cache of whole files: 1 file, 293.0 KiB"
has "$err" "mlx gc --yes"
expect 0 mlx gc --yes
has "$out" "removed from the cache of whole files: 1 file"
same "$(find .mlx/cache/files -type f)" ""

# Killed before every change of the disk in turn.
dataset one 20000 && dataset two 20000 && mlx commit -q >/dev/null -m both
expect 0 mlx gc --yes --grace 0
cp -r .mlx saved
for at in $(seq 1 "$stride" 60); do
  rm -rf .mlx && cp -r saved .mlx
  dataset dead 100000 && rm -r data/dead data/dead.mlx
  code=0
  MLX_KILL_AT=$at mlx gc --yes --grace 0 >/dev/null 2>&1 || code=$?
  [ "$code" = 0 ] && break
  same "$code" 137
  expect 0 mlx fsck
  expect 0 mlx gc --yes --grace 0
  expect 0 mlx fsck
  same "$(ls .mlx/packs | grep -c '^tmp-\|condemned' || true)" 0
  same "$(packs)" "$(ls saved/packs | grep -c '\.pack$')"
done
[ "$at" -gt 8 ] || fail "only $at steps were visited"
[ "$code" = 0 ] || fail "60 steps were not enough"

# A gc beside adds of the same content in other processes: everything that an add's pointer names is whole.
head -c 300000 /dev/urandom >content
collect() { while [ -e going ]; do mlx gc --yes --grace 0 -q >/dev/null || echo "gc: $?" >>failed; done; }
touch going
collect &
collector=$!
for round in $(seq 1 9); do
  mkdir -p data/race && cp content data/race/a && echo "$round" >data/race/b
  mlx add -q data/race >/dev/null || fail "add beside gc"
  mlx cat data/race:a | cmp - content || fail "round $round: lost"
  if [ $((round % 3)) = 0 ]; then mlx commit -q -m "$round" >/dev/null; fi
  rm -r data/race data/race.mlx
done
rm going
wait $collector
[ ! -e failed ] || fail "$(cat failed)"
expect 0 mlx fsck
for version in 1 2 3; do mlx cat "data/race@v$version:a" | cmp - content || fail "v$version: lost"; done

# gc of a remote keeps what its heads reach; a clone that does not know all heads refuses.
mlx remote add -q origin "$work/remote"
mlx push -q >/dev/null
dataset pushed 60000 && mlx push -q >/dev/null && rm -r data/pushed data/pushed.mlx
git add -A && git commit -q -m all
git clone -q . ../clone
(cd ../clone && mlx pull -q >/dev/null 2>&1)
expect 0 mlx gc --remote origin --grace 0 --yes --json
same "$(json 'd["remote"], d["removed_packs"] >= 1')" "('origin', True)"
dataset later 1000 && mlx commit -q >/dev/null -m later && mlx push -q >/dev/null
error 4 "does not have" mlx -C ../clone gc --remote origin --grace 0 --yes
expect 0 mlx -C ../clone pull
expect 0 mlx -C ../clone gc --remote origin --grace 0 --yes
git clone -q . ../second
(cd ../second && mlx pull -q --all >/dev/null 2>&1 && mlx fsck -q >/dev/null) || fail "the remote is not whole"
