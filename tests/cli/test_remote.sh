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

# bug: objects that a remote had lost were never sent again: push said "unchanged", and clones failed without a reason.
cd "$work" && rm -rf healing && mkdir healing && cd healing
mkdir one && cd one && mlx init -q && mlx remote add origin ../store
mkdir -p data/x && head -c 300000 /dev/urandom >data/x/noise && echo a >data/x/a
mlx add -q data/x && mlx commit -q -m one && mlx push -q
echo b >data/x/b && mlx add -q data/x && mlx commit -q -m two && mlx push -q
cd ..
pack=$(ls -S store/packs/*.pack | head -n 1)
cp "$pack" whole && truncate -s -100 "$pack"
expect 0 mlx -C one push --repair
has "$out" "saved from damaged packs"
cmp whole "$pack"
truncate -s 200000 "$pack"
expect 3 mlx clone store two
has "$err" "$(basename "$pack")"
has "$err" 'mlx push --repair origin'
expect 0 mlx -C one push
has "$err" "$(basename "$pack")"
expect 0 mlx -C one push --repair --json
same "$(json '[p.split("/")[-1] for p in d["set_aside"]], d["objects"] > 2, d["operations"]')" "(['$(basename "$pack").damaged-1'], True, 0)"
expect 0 mlx -C one push --repair
has "$out" unchanged
expect 0 mlx clone store two
same "$(tree_of two/data/x)" "$(tree_of one/data/x)"
# A flipped bit, and a remote that has lost everything except its heads; then a loss that nobody can repair.
pack=$(ls -S store/packs/*.pack | head -n 1)
flip "$pack" 5000
expect 0 mlx -C one push --repair
has "$out" "set aside"
expect 0 mlx clone store three
rm store/packs/*
expect 0 mlx -C one push --repair
has "$out" "pushed to origin: 0 operations"
expect 0 mlx clone store four
expect 0 mlx -C four fetch --all
rm -r store/packs && mkdir store/packs
error 3 "neither here nor on the remote" mlx -C three push --repair
expect 0 mlx -C one push --repair
error 2 "not with --check" mlx -C one push --repair --check
error 2 "only with --repair" mlx -C one fsck --remote origin
# bug: fsck --repair beside a remote that cannot be reached did not say what it had repaired.
pack=$(ls -S one/.mlx/packs/*.pack | head -n 1)
truncate -s -100 "$pack"
mv store away
expect 0 mlx -C one fsck --repair --json
has "$err" "'origin' could not be asked"
same "$(json 'len(d["repaired"]["unreached"]), d["repaired"]["restored_files"] > 0')" "(1, True)"

# bug: a number that two clones gave was published twice by a push behind a pull, or a fetch, that had said so.
cd "$work" && mkdir numbers && cd numbers
(mkdir one && cd one && mlx init -q && mlx remote add -q origin ../store && mkdir d && echo 1 >d/a && mlx add -q d && mlx commit -q -m 1 && mlx push -q) >/dev/null
mlx clone -q store two >/dev/null
(cd two && echo b >d/b && mlx add -q d && mlx commit -q -m b && mlx push -q) >/dev/null
cd one && echo a >d/a && mlx add -q d && mlx commit -q -m a >/dev/null
error 4 "run \`mlx pull\` first" mlx push
expect 0 mlx fetch
has "$err" "two clones gave this number"
error 4 "two clones gave this number" mlx push
error 4 "two clones gave this number" mlx push -n
error 4 "two clones gave this number" mlx pull
error 4 "two clones gave this number" mlx push
expect 0 mlx pull --renumber --json
same "$(json '[(r["artifact"], r["from"], r["to"]) for r in d["renumbered"]]')" "[('d', 2, 3)]"
expect 0 mlx push
expect 0 mlx -C ../two pull
expect 0 mlx -C ../two log --oneline d@v2
same "$(wc -l <<<"$out")" 2

# bug: operations unrelated to the clone's history were accepted, so histories of other projects passed for this one's.
cd "$work" && mkdir apart && cd apart
for name in one two; do
  mkdir $name && (cd $name && mlx init -q && mlx remote add -q origin ../store && mkdir d && echo $name >d/a && mlx add -q d && mlx commit -q -m $name)
done >/dev/null
mlx -C one push -q
error 4 "run \`mlx pull\` first" mlx -C two push
error 5 "1 operation with nothing in common with the history of this clone: 1 of SHA256:" mlx -C two pull
error 5 "allow-unrelated-histories" mlx -C two fetch -n
expect 0 mlx -C two pull --allow-unrelated-histories --renumber
expect 0 mlx -C two push
expect 0 mlx -C one pull --all
same "$(mlx -C one audit log | grep -c "joined histories")" 1
same "$(mlx -C one cat d@v2:a)" two
