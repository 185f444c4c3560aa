# shellcheck shell=bash
# fsck names the versions that damage hits, and repairs from the worktree and from a remote.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/a data/b
head -c 200000 /dev/urandom >data/a/one && echo two >data/a/two
mlx add -q data/a && mlx commit -q -m first
head -c 100000 /dev/urandom >data/b/other
mlx add -q data/b && mlx commit -q -m second
mlx remote add origin "$work/remote" && mlx push -q
expect 0 mlx fsck --json
same "$(json 'd["schema"], d["problems"], d["versions"], d["repaired"]')" "('mlx.fsck/1', [], [], None)"

# Flips bytes of data/a/one in the pack that holds them: random bytes are stored as they are.
cp data/a/one "$work/one"
damage() {
  python3 - "$work/one" .mlx/packs/*.pack <<'PY'
import os, sys
needle = open(sys.argv[1], "rb").read()[90000:90064]
for path in sys.argv[2:]:
    at = open(path, "rb").read().find(needle)
    if at >= 0:
        os.chmod(path, 0o644)
        with open(path, "r+b") as pack:
            pack.seek(at)
            pack.write(b"XXXXXXXX")
        sys.exit()
sys.exit("no pack holds data/a/one")
PY
}
original=$(sha256sum <data/a/one)

damage
expect 6 mlx fsck
has "$out" "data/a@v1: one is damaged"
lacks "$out" "data/b@v1:"
expect 6 mlx fsck --json
same "$(json '[(v["name"], v["path"], v["why"]) for v in d["versions"]]')" "[('data/a@v1', 'one', 'damaged')]"

# A dry run says it and changes nothing.
before=$(tree_of .mlx/packs)
expect 6 mlx fsck --repair -n
has "$out" "would set aside"
same "$(tree_of .mlx/packs)" "$before"

# From the worktree, which still has the file.
mv remote away

expect 3 mlx fsck --repair --remote nowhere
mv away remote
expect 0 mlx fsck --repair --json
same "$(json 'd["problems"], len(d["repaired"]["set_aside"]), d["repaired"]["restored_files"]')" "([], 1, 1)"
expect 0 mlx fsck
same "$(mlx cat data/a:one | sha256sum)" "$original"
ls .mlx/packs/*.damaged-1 >/dev/null || fail "the damaged pack is gone"

# Repaired from the remote if the worktree does not have it.
rm -r data/a
damage
expect 6 mlx fsck
expect 0 mlx fsck --repair --remote origin
expect 0 mlx fsck
same "$(mlx cat data/a:one | sha256sum)" "$original"

# Lost everywhere: what could not be repaired is named, and the rest works.
mv remote away && mkdir remote
damage

rm -r remote && mv away remote
mlx remote remove origin
expect 6 mlx fsck --repair
has "$out" "data/a@v1: one is missing in part"
has "$err" "backup"
expect 0 mlx cat data/b:other
mlx remote add origin "$work/remote"
expect 0 mlx fsck --repair
expect 0 mlx checkout data/a
same "$(sha256sum <data/a/one)" "$original"

# The objects of a pack without an index are found.
pack=$(ls -S .mlx/packs/*.pack | head -1)
truncate -s -60 "$pack"
mlx remote remove origin
expect 6 mlx fsck
expect 0 mlx fsck --repair
expect 0 mlx fsck

# The database against the operations, the journal against both, a pointer against its version.
python3 - <<'PY'
import sqlite3
db = sqlite3.connect(".mlx/meta.db")
db.execute("UPDATE version_makers SET message = 'changed'")
db.commit()
PY
expect 6 mlx fsck
has "$out" "the table 'version_makers' does not match the operations"
expect 0 mlx fsck --repair
expect 0 mlx log data/a --json
same "$(json 'd["versions"][0]["message"]')" first
mlx tag unpushed data/a@v1 >/dev/null  # the remote, and so the packs, have what came before
cp .mlx/journal saved
flip .mlx/journal -20
expect 6 mlx fsck
has "$out" "is in the database only"
expect 0 mlx fsck --repair
expect 0 mlx fsck
sed -i 's/^size .*/size 1/' data/b.mlx
expect 6 mlx fsck
has "$out" "data/b.mlx: claims"
mlx add -q data/b
expect 0 mlx fsck

# bug: if everything of a version made here was missing, fsck said that all was whole.
cd "$work" && mkdir gone && cd gone && mlx init -q >/dev/null
mkdir d && echo 1 >d/a && mlx add -q d >/dev/null && mlx commit -q -m 1 >/dev/null
first=$(ls .mlx/packs/*.pack)
echo 2 >d/a && mlx add -q d >/dev/null && mlx commit -q -m 2 >/dev/null
cp -r .mlx ../kept
# shellcheck disable=SC2086
truncate -s 50 $first
expect 6 mlx fsck
has "$out" "d@v1: "
expect 6 mlx fsck --repair
has "$out" "d@v1: its list of files is missing"
lacks "$out" "all whole"
rm -rf .mlx && mv ../kept .mlx && rm .mlx/packs/*.pack
expect 6 mlx fsck --json
same "$(json '[v["name"] for v in d["versions"]]')" "['d@v1', 'd@v2']"
expect 6 mlx fsck --repair
has "$out" "1 file from the worktree"
expect 0 mlx cat d@v2:a
# bug: one damaged pointer stopped a repair in the middle, without a report of what was done.
pack=$(ls .mlx/packs/*.pack | head -n 1) && truncate -s -20 "$pack" && echo 'artifact other' >other.mlx
expect 6 mlx fsck --repair
has "$out" "repaired: "
has "$out" "other.mlx"
expect 0 mlx cat d@v2:a
