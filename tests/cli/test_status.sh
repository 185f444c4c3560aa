# shellcheck shell=bash
# What status says: moves, modes, single paths, and folders that hold another version than their pointer names.
. "$(dirname "$0")/lib.sh"
git init -q -b main project && cd project
mlx init -q
mkdir -p data/x/deep data/y
for name in a b c; do echo "content of $name" >data/x/$name; done
echo y >data/y/f
mlx add -q data/x data/y && mlx commit -q -m first && git add -A && git commit -q -m first
same_status() { expect 0 mlx status --json "$@" && json 'd["artifacts"][0]["status"]'; }

# Moved, executable, and what stays in the old fields.
mv data/x/a data/x/deep/renamed
chmod +x data/x/b
expect 0 mlx status
has "$out" "moved     a -> deep/renamed"
has "$out" "mode      b (644 -> 755)"
lacks "$out" "deleted"
expect 0 mlx status --json
same "$(json '[(m["from"]["path"], m["to"]["path"]) for m in d["artifacts"][0]["moved"]]')" "[('a', 'deep/renamed')]"
same "$(json '[[e["path"] for e in d["artifacts"][0][k]] for k in ("new", "deleted", "modified", "mode_changed")]')" \
  "[['deep/renamed'], ['a'], ['b'], ['b']]"
expect 0 mlx status data/y
has "$out" data/y
lacks "$out" data/x
expect 0 mlx -C data status y
lacks "$out" data/x
expect 0 mlx status data
has "$out" data/x
has "$out" data/y
error 3 "no dataset" mlx status data/none

# After a switch the folder still is the other branch's.
git switch -q -c other
mlx add -q data/x && mlx commit -q -m second && git add -A && git commit -q -m second
git switch -q main
expect 0 mlx status data/x
has "$out" "data/x@v1  behind"
has "$out" "(v2), pointer: "
has "$out" "(v1)"
has "$out" "mlx checkout data/x"
expect 0 mlx status --json
same "$(json '[(a["status"], a["checked_out"] and a["checked_out"]["version"]) for a in d["artifacts"]]')" \
  "[('behind', 'data/x@v2'), ('clean', None)]"
same "$(json '[len(v) for v in d["artifacts"][0]["since_checkout"].values()]')" "[0, 0, 0, 0, 0]"
# A folder that is a version is recognised without the note too; other folders are not.
rm .mlx/cache.db*
same "$(same_status data/x)" behind
echo more >data/x/more
expect 0 mlx status --json data/x
same "$(json 'd["artifacts"][0]["status"], d["artifacts"][0]["checked_out"]')" "('modified', None)"
rm data/x/more
# A rebuild of the database knows nothing wrong.
expect 0 mlx fsck --rebuild
same "$(same_status data/x)" behind
# Clean folders are simply replaced.
expect 0 mlx checkout
same "$(same_status data/x)" clean
[ -e data/x/a ] && [ ! -e data/x/deep ] || fail "not v1: $(ls -R data/x)"

# Changed, and the pointer moved: both are said, and only the changes are listed.
git switch -q other
echo mine >data/x/mine
expect 0 mlx status data/x
has "$out" modified
has "$out" "(v1), pointer: "
has "$out" "new       mine"
lacks "$out" renamed
expect 0 mlx status data/x --json
same "$(json '[e["path"] for e in d["artifacts"][0]["since_checkout"]["new"]]')" "['mine']"
same "$(json 'sorted(e["path"] for e in d["artifacts"][0]["deleted"] + d["artifacts"][0]["new"])')" "['a', 'deep/renamed', 'mine']"
error 4 mine mlx checkout
rm data/x/mine
expect 0 mlx checkout
same "$(same_status data/x)" clean

# Changing a file and changing it back is no drift.
git switch -q main
mlx checkout -q
cp -a data/x keep && echo b2 >data/x/b && rm -r data/x && cp -a keep data/x
same "$(same_status data/x)" clean
# A pull notes it as well.
mlx remote add -q origin ../store && mlx push -q && git add -A && git commit -q -m remote
git clone -q . ../clone && cd ../clone && rm -rf .mlx && mlx init -q && expect 0 mlx pull
git switch -q -c third && echo c >data/x/c2 && mlx add -q data/x && git add -A && git commit -q -m third
git switch -q main
expect 0 mlx status data/x
has "$out" behind

# bug: one dataset with a FIFO, or a link in its place, stopped status for all.
cd "$work" && mkdir odd && cd odd && mlx init -q >/dev/null 2>&1
mkdir -p a b c elsewhere && for f in a b c; do echo $f >$f/1; done && mlx add -q a b c >/dev/null && mlx commit -q -m x >/dev/null
mkfifo a/fifo && mv b elsewhere/b && ln -s elsewhere/b b
expect 0 mlx status --json
same "$(json '[x["status"] for x in d["artifacts"]]')" "['unreadable', 'unreadable', 'clean']"
expect 0 mlx status
has "$out" "a/fifo"
