# shellcheck shell=bash
# rm removes files that are in a version and keeps others; checkout brings them back.
. "$(dirname "$0")/lib.sh"
git init -q project && cd project
mlx init -q
mkdir -p data/x/sub data/y && echo a >data/x/a && echo b >data/x/sub/b && echo c >data/x/sub/c && echo f >data/y/f && echo s >solo.txt
mlx add -q data/x data/y solo.txt
error 4 "in no version" mlx rm data/x
mlx commit -q -m first && git add -A && git commit -q -m first
before=$(tree_of data)

expect 0 mlx rm -n data/x
has "$out" "remove  sub/b"
same "$(tree_of data)" "$before"
echo mine >data/x/mine
error 4 "mine" mlx rm data/y data/x
rm data/x/mine
same "$(tree_of data)" "$before"

expect 0 mlx rm data/x --json
same "$(json 'd["schema"], d["artifacts"][0]["artifact"], [e["path"] for e in d["artifacts"][0]["removed"]]')" \
  "('mlx.rm/1', 'data/x', ['a', 'sub/b', 'sub/c'])"
[ ! -e data/x ] && [ ! -e data/x.mlx ] || fail "data/x is still there"
same "$(cat data/.gitignore)" /y
error 3 "no dataset" mlx rm data/x
expect 0 mlx cat data/x@v1:a
same "$out" a
# Both ways back.
git checkout -q -- data/x.mlx data/.gitignore && expect 0 mlx checkout
same "$(tree_of data)" "$before"
mlx rm -q data/x && expect 0 mlx checkout data/x@latest
same "$(tree_of data/x)" "$(tree_of data/x)"
[ -e data/x.mlx ] || fail "no pointer"

# --cached keeps the files; a single file is removed; .gitignore is removed with its last line.
expect 0 mlx rm --cached data/x
has "$out" "the files stay"
same "$(cat data/x/a)" a
expect 0 mlx add data/x
expect 0 mlx rm solo.txt
[ ! -e solo.txt ] && [ ! -e solo.txt.mlx ] && [ ! -e .gitignore ] || fail "solo.txt is still there"

# Files of a dataset are removed from it and from the worktree; the rest stays.
expect 0 mlx rm -n data/x/sub/b
[ -e data/x/sub/b ] || fail "a dry run removed it"
expect 0 mlx rm data/x/sub/b
[ ! -e data/x/sub/b ] && [ -e data/x/sub/c ] || fail "wrong files: $(ls -R data/x)"
expect 0 mlx status --json data/x
same "$(json 'd["artifacts"][0]["status"], d["artifacts"][0]["committed"]')" "('clean', False)"
expect 0 mlx commit -m without
expect 0 mlx ls data/x --json
same "$(json '[f["path"] for f in d["files"]]')" "['a', 'sub/c']"
expect 0 mlx rm --cached data/x/a
[ -e data/x/a ] || fail "--cached removed the file"
expect 0 mlx status --json data/x
same "$(json '[e["path"] for e in d["artifacts"][0]["new"]]')" "['a']"
expect 0 mlx add data/x
echo changed >data/x/a
error 4 "data/x/a" mlx rm data/x/a
expect 0 mlx rm --force data/x/a
[ ! -e data/x/a ] || fail "--force left it"
error 3 "nothing at 'none'" mlx rm data/x/none
error 2 "no files left" mlx rm data/x/sub
expect 0 mlx rm --force 'data/*'
[ ! -e data/x ] && [ ! -e data/y ] || fail "patterns"
expect 0 mlx fsck
