# shellcheck shell=bash
# A dataset's life: add, commit, change, look, go back. The same thing twice is `unchanged` and touches nothing.
. "$(dirname "$0")/lib.sh"
git init -q project && cd project

expect 0 mlx init
expect 0 mlx init
has "$out" unchanged
mkdir -p data/x/sub
echo one >data/x/a.txt
echo two >data/x/sub/b.txt
: >data/x/empty
expect 0 mlx add -n data/x
has "$out" "3 files, 8 B  would be added"
[ ! -e data/x.mlx ] || fail "a dry run wrote a pointer"
[ ! -e .gitignore ] && [ ! -e data/.gitignore ] || fail "a dry run wrote .gitignore"
expect 0 mlx add data/x
has "$out" "3 files, 8 B"
has "$out" added
expect 0 git status --porcelain --untracked-files=all
lacks "$out" a.txt
has "$out" data/x.mlx
lacks "$out" ".mlx/meta"

before=$(stat -c '%y %i' data/x.mlx data/.gitignore data/x/a.txt)
sleep 0.02
expect 0 mlx add data/x/
has "$out" unchanged
same "$(stat -c '%y %i' data/x.mlx data/.gitignore data/x/a.txt)" "$before"

expect 0 mlx status
has "$out" "not committed"
expect 0 mlx show data/x  # bug: it was said to be made in 1970
has "$out" "made          not committed"
expect 0 mlx commit -n -m first
has "$out" "would commit data/x"
error 2 "message is empty" mlx commit -m ""
expect 0 mlx commit -m first
has "$out" "data/x@v1"
first=$(mlx show data/x --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["digest"])')
expect 0 mlx commit -m again
same "$out" "nothing to commit"

echo three >>data/x/a.txt
echo new >data/x/c.txt
rm data/x/empty
expect 0 mlx status --json
same "$(json '[d["artifacts"][0]["status"]] + [[f["path"] for f in d["artifacts"][0][k]] for k in ("new", "modified", "deleted")]')" \
  "['modified', ['c.txt'], ['a.txt'], ['empty']]"
expect 0 mlx -C data/x status
has "$out" "modified  a.txt"
error 4 "" mlx checkout
same "$(cat data/x/a.txt)" "one
three"
expect 0 mlx -C data add x
expect 0 mlx commit -m second
has "$out" "data/x@v2"

expect 0 mlx log
[[ $out == *v2*second*v1*first* ]] || fail "not newest first: $out"
expect 0 mlx log data/x -n 1
lacks "$out" first
error 2 "expected a positive number" mlx log -n -1
expect 0 mlx ls
has "$out" "2 versions"
expect 0 mlx ls data/x@v1:sub
has "$out" sub/b.txt
lacks "$out" a.txt
error 3 "nothing at 'sub/none'" mlx ls data/x@v1:sub/none
expect 0 mlx cat data/x@v1:a.txt
same "$out" one
expect 0 mlx cat "data/x@~1:a.txt"
same "$out" one
error 3 "no file 'none'" mlx cat data/x@v1:none
error 2 "names no file" mlx cat data/x@v1
error 3 "did you mean 'data/x'" mlx show data/y
error 3 "no version 'v9'" mlx show data/x@v9

expect 0 mlx checkout -n data/x@v1
same "$(cat data/x/c.txt)" new
expect 0 mlx checkout data/x@v1
same "$(cat data/x/a.txt)" one
[ ! -e data/x/c.txt ] || fail "c.txt is not of v1"
expect 0 mlx status --json
same "$(json '(d["artifacts"][0]["status"], d["artifacts"][0]["version"])')" "('clean', 'data/x@v1')"
expect 0 mlx checkout data/x@latest --to ../out
same "$(cat ../out/c.txt)" new
same "$(cat data/x/a.txt)" one
error 2 "--to needs a version" mlx checkout --to ../out
error 3 "nothing at 'none'" mlx checkout data/x:none
expect 0 git add -A
expect 0 git commit -qm v1
rm -r data/x
expect 0 mlx status
has "$out" missing
expect 0 mlx checkout
same "$(cat data/x/a.txt)" one

expect 0 mlx tag paper data/x@v1
expect 0 mlx tag paper data/x@v1
has "$out" unchanged
error 4 "" mlx tag paper data/x@v2
error 2 "" mlx tag v7 data/x@v1
expect 0 mlx promote data/x@v2 production
expect 0 mlx promote data/x@v1 production
has "$out" "was v2"
expect 0 mlx promote data/x@production production
has "$out" unchanged
expect 0 mlx show data/x@production --json
same "$(json 'd["digest"], d["aliases"], d["tags"]')" "('$first', ['production'], ['paper'])"
expect 0 mlx lineage data/x@v2
has "$out" "data/x@v1"

# What can not be added.
mkdir empty
error 2 "empty" mlx add empty
error 3 "no such file" mlx add none
error 2 "whole repository" mlx add .
error 2 "" mlx add ..
error 2 "mlx's own" mlx add .mlx/packs
error 2 "git's own" mlx add .git
error 2 "is a pointer" mlx add data/x.mlx
expect 0 mlx add data/x/sub
has "$out" "data/x  3 files, 8 B  "
has "$out" unchanged
error 4 "holds the dataset data/x" mlx add data
mkfifo empty/pipe
error 2 "pipe" mlx add empty
mkdir -p same/same && rmdir same/same && echo x >same/same
error 2 "only a file of the same name" mlx add same

# A single file, and its neighbours that stay.
echo v1 >solo.txt
echo neighbour >other.txt
expect 0 mlx add solo.txt
expect 0 mlx commit -m solo
echo changed >solo.txt
error 4 "solo.txt" mlx checkout solo.txt@v1
same "$(cat solo.txt)" changed
expect 0 mlx checkout solo.txt@v1 --force
same "$(cat solo.txt)" v1
same "$(cat other.txt)" neighbour
expect 0 mlx checkout solo.txt --to ../single
same "$(ls ../single)" solo.txt
expect 0 mlx fsck
has "$out" "all whole"
