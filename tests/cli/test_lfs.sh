# shellcheck shell=bash
# Import from and export to Git LFS, against the real git-lfs.
. "$(dirname "$0")/lib.sh"
command -v git-lfs >/dev/null || { echo "git-lfs is not installed" >&2; exit 77; }
export HOME=$work/home GIT_CONFIG_GLOBAL=$work/home/gitconfig
mkdir home && git lfs install --skip-repo >/dev/null
pointer_of() { git -C "$1" show "HEAD:$2"; }

# A repository that uses it: a folder all in LFS, one in part, executables, links, an empty file, a name with a space.
git init -q -b main theirs && cd theirs
git lfs track 'data/**' 'models/*.bin' >/dev/null
mkdir -p data/train models src
head -c 200000 /dev/urandom >data/train/a.bin && echo small >"data/train/b c.txt" && echo run >data/run && chmod +x data/run
: >data/empty && cp data/train/a.bin data/copy.bin
head -c 1000 /dev/urandom >models/m.bin && echo readme >models/README && echo code >src/x.c
git add . && git commit -q -m first
has "$(pointer_of . data/run)" "version https://git-lfs.github.com/spec/v1"
cd ..

# As a clone that has fetched but not smudged: the same versions as `mlx add` of the smudged folder makes.
GIT_LFS_SKIP_SMUDGE=1 git clone -q "file://$work/theirs" unsmudged && cd unsmudged
has "$(cat data/run)" oid
mlx init -q 2>/dev/null
error 3 "not in the local cache of git-lfs" mlx import lfs
has "$err" "git lfs fetch"
same "$(ls data.mlx 2>&1 || true)" "ls: cannot access 'data.mlx': No such file or directory"
git lfs fetch >/dev/null 2>&1
before=$(tree_of data)
expect 0 mlx import lfs -n --json
same "$(json 'd["dry_run"], [x["artifact"] for x in d["datasets"]]')" "(True, ['data', 'models/m.bin'])"
[ ! -e data.mlx ] || fail "-n wrote a pointer"
expect 0 mlx import lfs data models/m.bin --json
same "$(json 'd["schema"], d["from"], [(x["artifact"], x["files"], x["status"]) for x in d["datasets"]]')" \
  "('mlx.import/1', 'lfs', [('data', 5, 'imported'), ('models/m.bin', 1, 'imported')])"
same "$(tree_of data)" "$before"
same "$(cat .gitignore)" /data
expect 0 mlx import lfs data models/m.bin
has "$out" unchanged
lacks "$out" imported
imported=$(cat data.mlx models/m.bin.mlx)
expect 0 mlx checkout --force
same "$(tree_of data)" "$(tree_of ../theirs/data)"
cmp models/m.bin ../theirs/models/m.bin
expect 0 mlx add data models/m.bin
lacks "$out" added
same "$(cat data.mlx models/m.bin.mlx)" "$imported"
expect 0 mlx fsck

# Wrong requests and damaged caches.
error 2 "no file in it is tracked by Git LFS" mlx import lfs src
error 3 "none: not in the commit at HEAD" mlx import lfs none
error 4 "would hold the same files" mlx import lfs data/train
cd .. && GIT_LFS_SKIP_SMUDGE=1 git clone -q "file://$work/theirs" damaged && cd damaged && mlx init -q 2>/dev/null && git lfs fetch >/dev/null 2>&1
object=$(find .git/lfs/objects -type f -size 1000c)
# (A copy of it: git-lfs links objects of a clone on the same disk.)
cp "$object" ../copy && printf X | dd of=../copy conv=notrunc status=none && mv -f ../copy "$object"
error 6 "models/m.bin: its content has the digest" mlx import lfs data models/m.bin
has "$err" "the cache is damaged"
[ ! -e models/m.bin.mlx ] && [ ! -e data.mlx ] || fail "half of it was imported"
cd .. && mkdir nogit && cd nogit && mlx init -q 2>/dev/null && error 3 "not in a git repository" mlx import lfs && cd ../theirs

# By default: the topmost folders all in LFS, and the other files. An empty file is its own pointer.
mlx init -q 2>/dev/null
expect 0 mlx import lfs
has "$out" "data  5 files"
has "$out" "models/m.bin  1 file"
lacks "$out" README
cd ..

# Out again: git-lfs takes pointers and objects for its own.
git init -q -b main back && cd unsmudged
expect 0 mlx export lfs -n data ../back/all/data
[ ! -e ../back/all ] || fail "-n wrote"
expect 0 mlx export lfs data ../back/all/data --json
same "$(json 'd["schema"], d["pointers"], d["objects"], d["status"]')" "('mlx.export/1', 6, 3, 'exported')"
expect 0 mlx export lfs data ../back/all/data
has "$out" unchanged
echo other >../back/all/data/run
error 4 "another file is there" mlx export lfs data ../back/all/data
rm ../back/all/data/run && expect 0 mlx export lfs data ../back/all/data
error 3 "not in a git repository" mlx export lfs data /
cd ../back && git lfs install --local >/dev/null && git add . && git commit -q -m exported
for file in run copy.bin train/a.bin "train/b c.txt" empty; do
  same "$(pointer_of . "all/data/$file")" "$(pointer_of ../theirs "data/$file" 2>/dev/null || true)"
done
git lfs fsck >"$work/lfs.log" 2>&1 || fail "$(cat "$work/lfs.log")"
git lfs checkout >/dev/null 2>&1
for file in run copy.bin train/a.bin "train/b c.txt" empty; do
  [ "$file" = empty ] || cmp "all/data/$file" "../theirs/data/$file"
done
[ -x all/data/run ] || fail "not executable"
same "$(git status --porcelain)" ""
