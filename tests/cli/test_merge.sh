# shellcheck shell=bash
# Merges of pointers: by hand, and as the driver that git runs in merge, rebase and cherry-pick.
. "$(dirname "$0")/lib.sh"
mkdir bin && ln -s "$mlx_binary" bin/mlx && PATH=$work/bin:$PATH

# A project below the root of its git repository.
start() {
  cd "$work" && rm -rf repo && git init -q -b main repo && cd repo
  git config merge.mlx.driver 'mlx merge-file --path %P %A %O %B'
  mkdir -p sub/data/x/train && cd sub && mlx init -q
  grep -qs 'merge=mlx' .gitattributes || echo '*.mlx merge=mlx' >>.gitattributes
  for i in 1 2 3 4; do echo "line $i" >data/x/train/$i; done
  printf '#!/bin/sh\n' >data/x/run
  save first
}
# Stores and commits what stands in data/: the folders, not the pointers beside them.
save() { for folder in data/*; do [[ $folder == *.mlx ]] || mlx add -q "$folder"; done; git add -A . && git commit -q -m "$1"; }
go() { git switch -q "$@" && mlx checkout -q --force; }

# Two branches that changed different files.
start
git switch -q -c theirs
echo theirs >data/x/train/1 && rm data/x/train/2 && echo new >data/x/train/theirs && chmod +x data/x/run && save theirs
go main
echo ours >data/x/train/3 && echo new >data/x/train/ours && echo 'exit 0' >>data/x/run && save ours
want=$work/want && rm -rf "$want" && cp -a data/x "$want"
echo theirs >"$want/train/1" && rm "$want/train/2" && echo new >"$want/train/theirs" && chmod +x "$want/run"
packs=$(find .mlx/packs -name '*.pack' -printf '%s\n' | sort -n)
expect 0 git merge -q --no-edit theirs
mlx checkout -q
same "$(tree_of data/x)" "$(tree_of "$want")"
expect 0 mlx status
lacks "$out" modified
expect 0 mlx fsck
# Nothing but a manifest was stored.
[ "$(find .mlx/packs -name '*.pack' -printf '%s\n' | awk '{n += $1} END {print n}')" -lt $(($(awk '{n += $1} END {print n}' <<<"$packs") + 4096)) ] || fail "contents were copied"
mlx commit -q -m merged && expect 0 mlx log
has "$out" merged

# The same content, whatever the way: a rebase and a cherry-pick.
merged=$(cat data/x.mlx)
git switch -q -c rebased HEAD^1 && expect 0 git rebase -q theirs
same "$(cat data/x.mlx)" "$merged"
git switch -q -c picked main^1 && expect 0 git cherry-pick theirs
same "$(cat data/x.mlx)" "$merged"

# What both changed is named, and git leaves the pointer in conflict; nothing is lost of either side.
go -c b1 main && echo one >data/x/train/4 && rm data/x/train/3 && save one
go -c b2 main && echo two >data/x/train/4 && echo two >data/x/train/3 && echo fine >data/x/train/fine && save two
expect 1 git merge --no-edit b1
has "$err$out" "conflict: data/x: train/3: changed in ours, deleted in theirs"
has "$err$out" "conflict: data/x: train/4: changed on both sides"
lacks "$err$out" fine
same "$(git status --porcelain)" "UU sub/data/x.mlx"
has "$(cat data/x.mlx)" "<<<<<<< ours
artifact data/x"
error 4 "unfinished git merge" mlx checkout
# bug: one unresolved pointer kept all of `mlx status` from being shown.
mv data/x.mlx ../unresolved && mkdir data/clean && echo 1 >data/clean/f && mlx add -q data/clean && mv ../unresolved data/x.mlx
expect 0 mlx status
has "$out" "data/x.mlx  unresolved"
has "$out" "data/clean (not committed)  clean"
expect 0 mlx status --json
same "$(json '[(a["artifact"], a["status"]) for a in d["artifacts"]]')" "[('data/clean', 'clean'), ('data/x', 'unresolved')]"
expect 0 mlx status data/x
lacks "$out" "data/clean"
echo "artifact data/clean" >data/clean.mlx
error 6 "data/clean.mlx" mlx status
rm -r data/clean data/clean.mlx && git checkout -q -- data/.gitignore
# As in the man page: one side for the files in conflict.
git show :1:./data/x.mlx >../base && git show :2:./data/x.mlx >../ours && git show :3:./data/x.mlx >../theirs
expect 1 mlx merge-file -n --path data/x.mlx ../ours ../base ../theirs --json
same "$(json 'd["schema"], d["status"], [(c["path"], c["what"]) for c in d["conflicts"]], d["dry_run"]')" \
  "('mlx.merge-file/1', 'conflict', [('train/3', 'changed in ours, deleted in theirs'), ('train/4', 'changed on both sides, differently')], True)"
cp ../ours ../before
expect 0 mlx merge-file -n --theirs --path data/x.mlx ../ours ../base ../theirs
has "$out" "would be merged: 1 from ours, 2 from theirs"
same "$(cat ../ours)" "$(cat ../before)"
expect 0 mlx merge-file --theirs --path data/x.mlx ../ours ../base ../theirs --json
same "$(json 'd["status"], d["files"], d["from_ours"], d["from_theirs"]')" "('merged', 6, 1, 2)"
cp ../ours data/x.mlx && mlx checkout -q
same "$(cat data/x/train/4) $(cat data/x/train/fine) $(ls data/x/train)" "one fine 1
4
fine
ours
theirs"
git add -A . && git commit -q -m settled
error 2 "exclude each other" mlx merge-file --ours --theirs ../ours ../base ../theirs

# Both added it; and a rename on one side with a change on the other.
start
go -c b1 && mkdir -p data/y && echo 1 >data/y/a && echo same >data/y/both && save one
go main && rm -rf data/y && mkdir -p data/y && echo 2 >data/y/b && echo same >data/y/both && save two
expect 0 git merge --no-edit b1
mlx checkout -q && same "$(ls data/y)" "a
b
both"
go -c b3 && echo 3 >data/y/a && save three
go main && echo 4 >data/y/a && save four
expect 1 git merge --no-edit b3
has "$err$out" "data/y: a: changed on both sides"
git merge --abort
# A file that moved in theirs and changed in ours: the move is a deletion, and named.
start
go -c b1 && mv data/x/train/1 data/x/train/moved && save moved
go main && echo changed >data/x/train/1 && save changed
expect 1 git merge --no-edit b1
has "$err$out" "train/1: changed in ours, deleted in theirs"
git merge --abort

# A dataset that is renamed on one side and changed on the other is both.
start
go -c b1 && echo theirs >data/x/train/1 && save theirs
go main && mv data/x data/z && git rm -q data/x.mlx && save renamed
expect 0 git merge --no-edit b1
mlx checkout -q && same "$(cat data/z/train/1) $(ls data)" "theirs z
z.mlx"

# Versions that are not here: an error that says what to do, and the pointer stays unmerged.
start
go -c b1 && echo theirs >data/x/train/1 && save theirs
go main && echo ours >data/x/train/2 && save ours
mv .mlx ../kept && mlx init -q && mlx add -q data/x
expect 1 git merge --no-edit b1
has "$err$out" "is not in this repository"
has "$err$out" "git checkout -m -- data/x.mlx"
same "$(git status --porcelain data)" "UU sub/data/x.mlx"
has "$(cat data/x.mlx)" "<<<<<<< ours"
rm -rf .mlx && mv ../kept .mlx
git checkout -q -m -- data/x.mlx
mlx checkout -q && same "$(cat data/x/train/1 data/x/train/2)" "theirs
ours"

# bug: a `git pull` with a version that was never fetched left our side as if it were merged. Its list of files comes from
# the remote now.
start
mlx remote add -q origin "$work/store" && git add -A . && git commit -q -m remote && mlx push -q
cd "$work" && rm -rf other && git clone -q repo other && cd other/sub && mlx pull -q
git switch -q -c theirs && echo theirs >data/x/train/1 && save theirs && mlx push -q
cd "$work/repo/sub" && echo ours >data/x/train/2 && save ours
git remote add other "$work/other" && git fetch -q other
expect 0 git merge --no-edit other/theirs
expect 0 mlx pull
same "$(cat data/x/train/1 data/x/train/2)" "theirs
ours"
expect 0 mlx fsck

# Models, hostile and missing sides.
pointer() { printf 'artifact %s\ndigest sha256:%064d\nfiles 3\nkind %s\nsize 10\n' "$1" "$2" "$3"; }
mkdir models && cd models
pointer clf 1 model >a && pointer clf 2 model >b && pointer clf 3 model >c
cp a current && expect 0 mlx merge-file current a b && same "$(cat current)" "$(cat b)"
cp b current && expect 0 mlx merge-file current a a && same "$(cat current)" "$(cat b)"
cp b current && expect 0 mlx merge-file current a b && same "$(cat current)" "$(cat b)"
cp b current && expect 1 mlx merge-file current a c && has "$err" "weights cannot be merged" && has "$(cat current)" ">>>>>>> theirs"
cp b current && expect 0 mlx merge-file --theirs current a c && same "$(cat current)" "$(cat c)"
: >none && cp a current && expect 1 mlx merge-file current none b
pointer clf 1 dataset >d && cp a current && expect 1 mlx merge-file current a d && has "$err" "a dataset on one side"
cp a current && echo junk >junk && error 6 "current (theirs):1:" mlx merge-file current a junk
head -c 100000 /dev/zero >huge && error 6 "too large" mlx merge-file current a huge
error 3 "missing" mlx merge-file current a missing
same "$(cat current)" "$(cat a)"
error 2 "OTHER" mlx merge-file current a
