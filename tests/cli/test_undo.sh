# shellcheck shell=bash
# Undo and tags through the program: what is said, what the worktree keeps, what travels.
. "$(dirname "$0")/lib.sh"
mlx init -q a && cd a && mlx remote add -q origin ../remote
error 3 "nothing to undo" mlx undo
mkdir -p data/x && echo one >data/x/f && mlx add -q data/x && mlx commit -q -m "the first"
pointer=$(cat data/x.mlx)
expect 0 mlx undo -n
has "$out" "the first  would be undone"
expect 0 mlx log
has "$out" "the first"
expect 0 mlx undo
has "$out" "the first  undone"
expect 0 mlx log
has "$out" "no versions yet"
same "$(cat data/x.mlx)" "$pointer"
expect 0 mlx undo --redo
has "$out" "redone"
error 3 "nothing to redo" mlx undo --redo
expect 0 mlx undo -q
expect 0 mlx commit -m "better words"
has "$out" "data/x@v1"

mlx tag paper data/x@v1 >/dev/null
expect 0 mlx tag
has "$out" "data/x@paper  data/x@v1"
expect 0 mlx tag --json -l
same "$(json '[(t["tag"], t["version"]) for t in d["tags"]]')" "[('paper', 'data/x@v1')]"
expect 0 mlx tag -n -d paper
has "$out" "would be taken off"
expect 0 mlx tag -d paper
has "$out" "taken off"
error 3 "no version has the tag" mlx tag -d paper
expect 0 mlx tag -d paper data/x@v1
has "$out" unchanged
expect 0 mlx undo --json
same "$(json 'd["schema"], d["kind"], d["status"], d["shared"]')" "('mlx.undo/1', 'tag.delete', 'undone', False)"
expect 0 mlx show data/x@paper
error 2 "REF is missing" mlx tag other
error 2 "--redo and OPERATION" mlx undo --redo 01234567

# Pushed: it is said, and the undo travels.
mlx promote -q data/x@v1 production && mlx push -q
cp mlx.toml data/x.mlx "$work" && cd "$work" && mkdir -p b/data && cp mlx.toml b && cp x.mlx b/data && cd b && mlx pull -q
expect 0 mlx show data/x@production
error 3 "nothing to undo" mlx undo
cd ../a
expect 0 mlx undo
has "$err" "pushed"
mlx push -q && cd ../b && mlx pull -q
error 3 "has no version 'production'" mlx show data/x@production

# Two clones, one tag, two versions.
echo two >data/x/f && mlx add -q data/x && mlx commit -q -m two && mlx push -q && cd ../a && mlx fetch -q --all
mlx tag -q t data/x@v1 && mlx push -q && cd ../b && mlx tag -q t data/x@v2 && mlx pull -q
error 4 "mlx tag -d t data/x@vN" mlx show data/x@t
error 4 "say which one loses it" mlx tag -d t
expect 0 mlx tag -d t data/x@v1
expect 0 mlx show data/x@t
has "$out" "data/x@v2"
mlx push -q && cd ../a && mlx fetch -q
expect 0 mlx show data/x@t
has "$out" "data/x@v2"
expect 0 mlx fsck
expect 0 mlx fsck --rebuild
expect 0 mlx show data/x@t
has "$out" "data/x@v2"

# The content of what was taken back is not pushed, until it is brought back.
echo three >data/x/f && mlx add -q data/x && mlx commit -q -m three && mlx undo -q
echo four >data/x/f && mlx add -q data/x && mlx push -q
cd ../b && mlx fetch -q --all && cd ../a
expect 0 mlx undo --redo
mlx push -q && cd ../b && mlx fetch -q --all
expect 0 mlx cat data/x@latest:f
same "$out" three
