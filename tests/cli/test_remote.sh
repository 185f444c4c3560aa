# shellcheck shell=bash
# Push, clone, pull: a colleague gets the same bytes and names; histories that went apart meet.
. "$(dirname "$0")/lib.sh"
git init -q -b main a && cd a
mlx init -q
mkdir -p data/x && seq 1000 >data/x/n.txt && echo a >data/x/a.txt
mlx add -q data/x && mlx commit -q -m first
error 3 "" mlx push
expect 0 mlx remote add origin ../store
expect 0 mlx remote add origin ../store
has "$out" unchanged
error 4 "" mlx remote add origin ../elsewhere
expect 0 mlx remote --json
same "$(json 'd["remotes"]')" "[{'name': 'origin', 'url': '../store', 'encrypt': False}]"
error 3 "" mlx push backup
expect 0 mlx push
expect 0 mlx push
has "$out" unchanged
git add -A && git commit -qm first

cd .. && git clone -q a b && cd b
error 3 "mlx pull" mlx status
expect 0 mlx pull
has "$out" "data/x@v1"
same "$(tree_of data/x)" "$(tree_of ../a/data/x)"
expect 0 mlx pull
has "$out" unchanged
expect 0 mlx status --json
same "$(json '[(a["version"], a["status"]) for a in d["artifacts"]]')" "[('data/x@v1', 'clean')]"
ours=$(mlx log --json) theirs=$(mlx -C ../a log --json)
same "$ours" "$theirs"

# Nothing of the worktree is lost by pulling.
echo mine >data/x/a.txt
expect 4 mlx pull
has "$err" "data/x"
same "$(cat data/x/a.txt)" mine
expect 0 mlx pull --force
same "$(cat data/x/a.txt)" a

# Both make a v2: pull stops until the local one is renumbered.
echo b2 >data/x/a.txt && mlx add -q data/x && mlx commit -q -m "b's second"
cd ../a
echo a2 >data/x/a.txt && mlx add -q data/x && mlx commit -q -m "a's second"
expect 0 mlx push
cd ../b
error 4 "" mlx push
error 4 "--renumber" mlx pull
expect 0 mlx pull --renumber
expect 0 mlx log --json
same "$(json 'sorted(v["name"] + " " + v["message"] for v in d["versions"])')" \
  "['data/x@v1 first', \"data/x@v2 a's second\", \"data/x@v3 b's second\"]"
expect 0 mlx push
cd ../a
expect 0 mlx fetch --all
expect 0 mlx log --json
same "$(json 'sorted(v["name"] for v in d["versions"])')" "['data/x@v1', 'data/x@v2', 'data/x@v3']"
expect 0 mlx cat data/x@v3:a.txt
same "$out" b2
expect 0 mlx remote remove origin
error 3 "" mlx remote remove origin
error 3 "" mlx fetch
