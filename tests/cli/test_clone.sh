# clone from git and from a remote, clones without content, dry runs that change nothing, and the pre-push hook.
source "$(dirname "$0")/lib.sh"
PATH="$(dirname "$mlx_binary"):$PATH"

# A project in git with a dataset of two versions on a remote.
mkdir project && cd project
git init -q -b main .
expect 0 mlx init
has "$(cat .gitattributes)" "*.mlx merge=mlx"
has "$(git config merge.mlx.driver)" "mlx merge-file"
[ -x .git/hooks/pre-push ] || fail "no pre-push hook"
mkdir -p data/x/train data/x/test
for i in $(seq 20); do seq "$i" $((i * 400)) >"data/x/train/$i.txt"; done
echo small >data/x/test/a.txt
expect 0 mlx add data/x
expect 0 mlx commit -m one
seq 77 9999 >data/x/train/7.txt
expect 0 mlx add data/x
expect 0 mlx commit -m two
expect 0 mlx remote add origin ../store
git add -A && git commit -qm project

# Dry runs say what would be sent, and make nothing.
expect 0 mlx push -n --json
same "$(json 'd["operations"], d["dry_run"]')" "(2, True)"
planned=$(json 'd["objects"], d["bytes"]')
[ ! -e ../store ] || fail "push -n made the remote"
expect 1 mlx push --check
has "$out" "data/x"
has "$err" "mlx push"

# The hook refuses a push whose data is on no remote, and lets it go once it is.
git init -q --bare -b main ../hub.git
git remote add origin ../hub.git
expect 1 git push -q origin main
has "$err" "is on no remote"
# bug: without mlx in PATH the hook refused without a way on.
mkdir "$work/bare-path" && for tool in git sh; do ln -s "$(command -v "$tool")" "$work/bare-path/"; done
expect 1 env PATH="$work/bare-path" git push -q origin main
has "$err" "git push --no-verify"
expect 0 mlx push --json
same "$(json 'd["objects"], d["bytes"]')" "$planned"
expect 0 mlx push --check --json
same "$(json 'd["pointers"], d["lacking"]')" "(1, [])"
expect 0 git push -q origin main
expect 0 mlx push -n
has "$out" "unchanged"
# A deleted branch needs no data, and a commit from before the push is looked at too.
git branch old && git push -q origin old
expect 0 git push -q origin :old
cd ..

# A git repository: everything the pointers name, as git clone and mlx pull would do it.
expect 0 mlx clone hub.git colleague
has "$out" "cloned into"
same "$(tree_of colleague/data/x)" "$(tree_of project/data/x)"
has "$(git -C colleague config merge.mlx.driver)" "merge-file"
[ -x colleague/.git/hooks/pre-push ] || fail "no hook in the clone"
expect 0 git -C colleague status --porcelain
same "$out" ""
expect 0 mlx -C colleague status
has "$out" "clean"

# bug: a bare repository whose HEAD names a branch that nobody pushed had "no mlx.toml".
git clone -q --bare hub.git headless.git && git -C headless.git symbolic-ref HEAD refs/heads/master
expect 0 mlx clone headless.git from-headless
same "$(git -C from-headless branch --show-current)" main
same "$(tree_of from-headless/data/x)" "$(tree_of project/data/x)"
git -C headless.git branch other main
error 2 "names none of its branches, which are main, other" mlx clone headless.git several
[ ! -e several ] || fail "a refused clone was left behind"
expect 0 mlx clone --branch other headless.git several
same "$(git -C several branch --show-current)" other

# A remote alone: the latest version of everything.
expect 0 mlx clone store plain --json
same "$(json 'd["schema"], [a["name"] for a in d["artifacts"]]')" "('mlx.clone/1', ['data/x@v2'])"
same "$(tree_of plain/data/x)" "$(tree_of project/data/x)"
expect 0 mlx -C plain log --json

cp -r project/data/x first && seq 7 2800 >first/train/7.txt
# A clone without content has names and sizes; content is fetched when it is read, and only then.
expect 0 mlx clone --filter blobs:none store lazy
[ ! -e lazy/data/x ] || fail "a clone without content checked it out"
packs() { du -sb lazy/.mlx/packs | cut -f1; }
before=$(packs)
expect 0 mlx -C lazy ls data/x
has "$out" "train/20.txt"
same "$(packs)" "$before"
expect 0 mlx -C lazy cat data/x@v1:train/7.txt
same "$out" "$(seq 7 2800)"
expect 0 mlx -C lazy checkout data/x:test/ --to "$work/part"
same "$(cat part/test/a.txt 2>/dev/null || cat part/a.txt)" "small"
half=$(packs)
expect 0 mlx -C lazy checkout data/x
same "$(tree_of lazy/data/x)" "$(tree_of project/data/x)"
[ "$(packs)" -gt "$half" ] || fail "checkout fetched nothing"
expect 0 mlx clone --filter blobs:none store second
mv store away
expect 0 mlx -C lazy cat data/x:train/3.txt
error 3 "no such remote folder" mlx -C second cat data/x:train/3.txt
mv away store
# bug: fsck of a clone without content called it missing.
expect 0 mlx -C second fsck
has "$out" "all whole"
expect 0 mlx -C second fsck --repair
# bug: a lazy clone could not push to another remote.
mlx clone -q --filter blobs:none store third >/dev/null 2>&1
state=$(tree_of third/.mlx/packs)
(cd third && mlx remote add -q away ../away-too >/dev/null && expect 0 mlx push -n away)
same "$(tree_of third/.mlx/packs)" "$state"
(cd third && expect 0 mlx push away)
expect 0 mlx clone away-too fourth
same "$(tree_of fourth/data/x)" "$(tree_of project/data/x)"
# bug: older versions were not fetched for checkout, diff and show.
expect 0 mlx -C second diff data/x@v1 data/x@v2
expect 0 mlx -C second show data/x@v1
expect 0 mlx -C second checkout data/x@v1
same "$(tree_of second/data/x)" "$(tree_of first)"
expect 0 mlx -C lazy fetch --all
expect 0 mlx -C lazy fsck
# A clone that is not lazy says what fetches an older version.
error 3 'mlx fetch --all' mlx -C plain diff data/x@v1 data/x@v2
error 3 'mlx fetch --all' mlx -C plain checkout data/x@v1

# What a fetch would bring, without bringing it.
(cd project && echo three >data/x/train/three.txt && mlx add data/x >/dev/null && mlx commit -m three >/dev/null && mlx push >/dev/null)
state=$(tree_of plain/.mlx/packs; tree_of plain/data)
for command in fetch pull; do
  expect 0 mlx -C plain $command -n
  has "$out" "1 operation"
  has "$out" "data/x"
  expect 0 mlx -C plain $command -n --json
  same "$(json 'd["operations"], d["dry_run"], d["versions"][0]["artifact"]')" "(1, True, 'data/x')"
done
same "$(tree_of plain/.mlx/packs; tree_of plain/data)" "$state"
expect 0 mlx -C plain fetch
has "$out" "data/x@v3"

# A failed clone leaves nothing behind.
error 4 "not empty" mlx clone store project
error 3 "no such remote folder" mlx clone nowhere new
[ ! -e new ] || fail "a failed clone left its folder"
error 7 "git clone" mlx clone missing.git new
[ ! -e new ] || fail "a failed clone left its folder"
error 2 "a remote of mlx has no branches" mlx clone -b main store new
error 2 "unknown kind of remote" mlx clone gopher://host/x new
git init -q bare-project && git -C bare-project commit -q --allow-empty -m empty
# bug: of a project without mlx.toml the folder stayed, in the way of the next try.
error 3 "no mlx.toml" mlx clone bare-project new
[ ! -e new ] || fail "a failed clone left its folder"
# bug: a clone that failed said first that it had cloned.
git clone -q hub.git in-the-way && mkdir -p in-the-way/data/x/test && echo other >in-the-way/data/x/test/a.txt
git -C in-the-way add -f data/x/test/a.txt && git -C in-the-way commit -qm "a file where the dataset goes"
expect 4 mlx clone in-the-way new
lacks "$out" "cloned into"
[ ! -e new ] || fail "a failed clone left its folder"
error 2 "only with --check" mlx -C project push --hook

# A hook of one's own is left alone, and named.
git init -q other && echo '#!/bin/sh' >other/.git/hooks/pre-push
expect 0 mlx init other
has "$err" "push --check --hook"
same "$(cat other/.git/hooks/pre-push)" "#!/bin/sh"

# git's own variables, as hooks get them, do not turn a clone into another repository.
GIT_DIR=$work/project/.git GIT_WORK_TREE=$work/project GIT_INDEX_FILE=$work/project/.git/index expect 0 mlx clone hub.git inside-hook
same "$(tree_of inside-hook/data/x)" "$(tree_of colleague/data/x)"

# The hook and the merge driver in a linked worktree, and in a submodule, whose hooks are outside of its folder.
change() { echo "$2" >"$1" && mlx add -q data/x >/dev/null && git commit -qam "$2"; }
cd project && git add -A && git commit -qm later && git push -q origin main
git worktree add -q -b side ../side && cd ../side
expect 0 mlx pull
change data/x/test/side.txt side
expect 1 git push -q origin side
has "$err" "is on no remote"
mlx push -q >/dev/null && expect 0 git push -q origin side
change data/x/test/more.txt more
git switch -q -c other HEAD~1 && mlx checkout -q >/dev/null && change data/x/test/other.txt other
expect 0 git -C "$PWD" merge -q --no-edit side
mlx checkout -q >/dev/null
same "$(cat data/x/test/more.txt data/x/test/other.txt)" "more
other"
cd .. && git init -q -b main super && cd super && ln -s ../store store  # the remote's path, from the submodule
git -c protocol.file.allow=always submodule add -q ../hub.git sub && cd sub
expect 0 mlx pull
lacks "$err" "outside of this repository"
change data/x/test/sub.txt sub
expect 1 git push -q origin HEAD:refs/heads/sub
has "$err" "is on no remote"
mlx push -q >/dev/null && expect 0 git push -q origin HEAD:refs/heads/sub
cd "$work/project"
# A worktree without data may push commits without pointers.
git worktree add -q --orphan -b docs ../docs 2>/dev/null || { git worktree add -q --detach ../docs && git -C ../docs checkout -q --orphan docs && git -C ../docs rm -rqf .; }
git -C ../docs commit -q --allow-empty -m docs
expect 0 git -C ../docs push -q origin docs
