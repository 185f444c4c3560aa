# shellcheck shell=bash
# Projects and names that somebody hostile made: nothing is written outside of the worktree, no metadata is taken over,
# and nothing that others wrote reaches the terminal as it is.
. "$(dirname "$0")/lib.sh"
PATH="$(dirname "$mlx_binary"):$PATH"

# A project with a dataset and a remote, as its maintainer has it.
mkdir good && cd good && git init -q -b main .
expect 0 mlx init
mkdir -p data/x && echo 1 >data/x/1 && mlx add -q data/x >/dev/null && mlx commit -q -m one >/dev/null
mlx remote add origin "$work/store" >/dev/null && mlx push -q >/dev/null
git add -A && git commit -qm project

# hostile NAME: a bare repository with the project, changed by the commands on stdin.
hostile() {
  cd "$work" && git clone -q good "$1.work" && cd "$1.work"
  bash -eu
  git add -A -f && git commit -qm "$1" && cd "$work" && git clone -q --bare "$1.work" "$1.git" && rm -rf "$1.work"
}
mkdir "$work/outside" && echo precious >"$work/outside/file"
untouched() { same "$(ls -A "$work/outside") $(cat "$work/outside/file")" "file precious"; }
export outside=$work/outside

# bug: links that git tracks led writes out of the worktree.
hostile gitignore <<<'rm data/.gitignore; ln -s "$outside/file" data/.gitignore'
expect 0 mlx clone gitignore.git c1
expect 4 mlx -C c1 checkout
has "$err" "data/.gitignore is a symbolic link"
expect 4 mlx -C c1 checkout data/x
untouched
hostile dangling <<<'rm data/.gitignore; ln -s "$outside/new" data/.gitignore'
git clone -q dangling.git c3 && expect 0 mlx -C c3 pull
expect 4 mlx -C c3 checkout
has "$err" "data/.gitignore is a symbolic link"
untouched
hostile folder <<<'git rm -q -r data; rm -rf data; ln -s "$outside" data'
git clone -q folder.git c4
expect 0 mlx -C c4 pull && expect 0 mlx -C c4 fetch --all
error 4 "data is a symbolic link" mlx -C c4 checkout data/x@v1
untouched
hostile models <<<'ln -s "$outside" models'
mkdir clean && cd clean && expect 0 mlx clone ../models.git c5
cd c5 && mkdir -p new && echo 2 >new/2 && git rm -q --cached data/x.mlx
for file in .gitattributes .gitignore; do
  rm -f $file && ln -s "$outside/file" $file
done
mv mlx.toml "$work/settings" && cp "$work/settings" "$work/settings.before" && ln -s "$work/settings" mlx.toml
error 4 "mlx.toml is a symbolic link" mlx remote add other "$work/other"
error 4 "mlx.toml is a symbolic link" mlx config --tracked core.threads 1
cmp "$work/settings" "$work/settings.before"
# bug: links led what was read to devices without end.
error 4 "mlx.toml is a symbolic link" mlx status
ln -sf /dev/zero mlx.toml && error 4 "mlx.toml is a symbolic link" mlx status
rm mlx.toml && cp "$work/settings" mlx.toml
ln -s /dev/zero new/.mlxignore && error 4 ".mlxignore is a symbolic link" mlx add new && rm new/.mlxignore
error 4 ".gitignore is a symbolic link" mlx add new
error 4 ".gitattributes is a symbolic link" mlx init
ln -s "$outside/file" new.mlx && rm .gitignore
error 4 "new.mlx is a symbolic link" mlx add new
untouched
# core.hooksPath may name a folder that the project has.
cd "$work" && hostile hooks <<<'ln -s "$outside" hooks'
git clone -q hooks.git c6 && git -C c6 config core.hooksPath hooks
expect 0 mlx -C c6 pull
has "$err" "symbolic link"
untouched

# bug: a .mlx that git tracks was taken over by clone, pull and every other command.
cd "$work" && hostile tracked <<<'mkdir .mlx; echo "0123456789abcdef" >.mlx/actor; printf "[core]\nthreads = 1\n" >.mlx/config.toml'
error 5 ".mlx/actor: git tracks it" mlx clone tracked.git c7
[ ! -e c7 ] || fail "the clone is left"
git clone -q tracked.git c8
error 5 "git tracks it" mlx -C c8 pull
error 5 "git tracks it" mlx -C c8 init
error 5 "git tracks it" mlx -C c8 status
same "$(ls -A c8/.mlx)" "actor
config.toml"
hostile upper <<<'mkdir .MLX; echo x >.MLX/actor'
error 5 ".MLX/actor: git tracks it" mlx clone upper.git c9
hostile linked <<<'ln -s "$outside" .mlx'
error 5 "is a symbolic link" mlx clone linked.git c10
git clone -q linked.git c11
error 5 "is a symbolic link" mlx -C c11 pull
error 5 "is a symbolic link" mlx -C c11 init
untouched
# One that comes later, over the files of a repository that stands: git replaces ignored files without a word.
git clone -q good c12 && expect 0 mlx -C c12 pull
expect 0 mlx -C c12 status
git -C c12 pull -q "$work/tracked.git" main
error 5 "git tracks it" mlx -C c12 status
# A repository below the root of the git repository, and one whose owner tracked it by mistake.
cd "$work" && git init -q -b main top && mkdir top/sub && expect 0 mlx init top/sub
expect 0 mlx -C top/sub status
git -C top add -f sub/.mlx/actor
error 5 "sub/.mlx/actor: git tracks it" mlx -C top/sub status
has "$err" "git rm -r --cached sub/.mlx"
git -C top rm -r -q --cached sub/.mlx
expect 0 mlx -C top/sub status

# bug: a file called *.mlx that is no pointer stopped nearly every command.
mkdir "$work/other" && cd "$work/other" && git init -q -b main . && expect 0 mlx init
mkdir -p scripts analysis/data d && printf 'PK\003\004live script' >scripts/plot.mlx
printf 'PK\003\004' >analysis.mlx && echo 1 >analysis/data/1
head -c 100000 /dev/zero | tr '\0' x >large.mlx && ln -s /dev/zero endless.mlx && mkfifo pipe.mlx
printf 'any bytes' >d/file.mlx && echo "artifact of the scanner" >d/notes.mlx
expect 0 mlx status # bug: before `add` this was a damaged pointer
expect 0 mlx add d analysis/data
echo "artifact nothing" >d/like.mlx # in a dataset's folder nothing is a pointer
expect 0 mlx add d
expect 0 mlx status
expect 0 mlx commit -m x
has "$out" "analysis/data"
expect 0 mlx gc
expect 0 mlx fsck
expect 0 mlx log
mlx remote add origin "$work/other.store" >/dev/null
expect 0 mlx push
expect 0 mlx pull
expect 0 mlx push --check
git add -A && git commit -qm x
echo "refs/heads/main $(git rev-parse HEAD) refs/heads/main $(printf '%040d' 0)" >"$work/hook"
expect 0 bash -c "mlx push --check --hook <'$work/hook'"
# A single file of that name is data as well, and a pointer that was damaged is not taken for another program's file.
printf 'PK\003\004' >live.mlx && expect 0 mlx add live.mlx
expect 0 mlx status
cp d.mlx kept && printf 'garbage' >d.mlx
error 6 "d.mlx:1" mlx status
: >d.mlx
error 6 "d.mlx:1" mlx status
head -c 100 /dev/zero >d.mlx
error 6 "d.mlx:1" mlx status
mv kept d.mlx && expect 0 mlx status

# bug: what was only added "is not called" so, and the hint proposed the same name.
mkdir -p fresh && echo 1 >fresh/1 && expect 0 mlx add fresh
error 3 "'fresh' has no versions" mlx log fresh@v1
lacks "$err" "did you mean"

# bug: messages and names of others reached the terminal as they were.
cd "$work" && mkdir escapes && cd escapes && expect 0 mlx init
mkdir d && echo 1 >d/1 && mlx add -q d >/dev/null
hidden=$(printf 'red \033[31m title \033]0;x\007 c1 \302\233 turned \342\200\256 bell \010 end')
expect 0 mlx commit -m "$hidden"
# clean COMMAND...: prints nothing that a terminal acts on.
clean() {
  { "$@" 2>&1 || true; } >"$work/.shown"
  python3 - "$work/.shown" <<'PY'
import sys
text = open(sys.argv[1], "rb").read().decode()
bad = [c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or 0x202a <= ord(c) <= 0x202e]
sys.exit(f"{bad} in {text!r}" if bad else 0)
PY
}
clean mlx log || fail "mlx log"
clean mlx show d || fail "mlx show"
clean mlx audit log || fail "mlx audit log"
clean mlx audit log --jsonl || fail "mlx audit log --jsonl"
clean mlx log --json || fail "mlx log --json"
clean mlx show "$hidden" || fail "an error"
clean mlx -v show "d@$hidden" || fail "an error with -v"
has "$(mlx log)" 'red \x1b[31m title'
expect 0 mlx log --json
same "$(json 'd["versions"][0]["message"]')" "$hidden"
# Our own colours are real ones.
has "$(NO_COLOR='' mlx log --color always)" $'\033['
lacks "$(NO_COLOR='' mlx log --color always)" $'\033[31m title'
# Contents are as they are.
printf '\033[31m\000\377' >d/raw && mlx add -q d >/dev/null && mlx commit -q -m raw >/dev/null
mlx cat d:raw | cmp - d/raw || fail "mlx cat changed bytes"

# bug: a link where clone makes its folder, planted in a shared folder or tracked by git, led to a folder that it emptied.
cd "$work" && mkdir place && ln -s "$outside" place/.c20.mlx-clone && ln -s "$outside" place/.c20.mlx-clone-0123456789abcdef
mkdir place/.c20.mlx-clone-theirs && echo kept >place/.c20.mlx-clone-theirs/file
echo "folder 1 2" >place/.c20.mlx-clone-theirs.mark
expect 0 mlx clone store place/c20
untouched
same "$(cat place/.c20.mlx-clone-theirs/file)" kept
expect 4 mlx clone store place/.c20.mlx-clone
untouched
