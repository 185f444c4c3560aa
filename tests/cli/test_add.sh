# shellcheck shell=bash
# What can be added and how: patterns, parts of datasets, and the inputs that break tools.
. "$(dirname "$0")/lib.sh"
git init -q project && cd project
mlx init -q
paths() { json '[a["artifact"] for a in d["artifacts"]]'; }
files() { mlx ls "$1" --json | python3 -c 'import json,sys; print(*[f["path"] for f in json.load(sys.stdin)["files"]])'; }

# Patterns are relative to the current folder; they skip pointers, hidden names and what is inside a match.
mkdir -p data/one/deep data/two .hidden
echo a >data/a.csv && echo b >data/b.csv && echo c >data/c.txt && echo h >data/.h.csv
echo 1 >data/one/1.csv && echo 2 >data/one/deep/2.csv && echo t >data/two/t.csv && echo x >.hidden/x.csv
expect 0 mlx add -n --json 'data/*.csv'
same "$(paths)" "['data/a.csv', 'data/b.csv']"
expect 0 mlx -C data add --json '*.csv'
same "$(paths)" "['data/a.csv', 'data/b.csv']"
expect 0 mlx add --json 'data/*.csv' data/a.csv
same "$(json '[a["status"] for a in d["artifacts"]]')" "['unchanged', 'unchanged']"
expect 0 mlx add -n --json '**/?.csv'
same "$(paths)" "['data/a.csv', 'data/b.csv', 'data/one/1.csv', 'data/one/deep/2.csv', 'data/two/t.csv']"
expect 0 mlx add -n --json 'data/.*.csv'
same "$(paths)" "['data/.h.csv']"
expect 0 mlx add --json 'data/o*' 'data/one/**'
same "$(paths)" "['data/one']"
error 3 "matches no file" mlx add 'data/*.png'
echo star >'data/*.png'
expect 0 mlx add --json 'data/*.png'
same "$(paths)" "['data/*.png']"
mlx commit -q -m first

# Adding a file or folder inside a dataset updates only that part; deleted files are removed from the dataset.
echo new >data/one/new && echo other >data/one/other && echo changed >data/one/1.csv
expect 0 mlx add -n data/one/new
has "$out" "new       new"
lacks "$out" 1.csv
expect 0 mlx add data/one/new
has "$out" "data/one  3 files"
same "$(files data/one)" "1.csv deep/2.csv new"
same "$(mlx cat data/one:1.csv)" 1
expect 0 mlx add data/one/new
has "$out" unchanged
expect 0 mlx status --json data/one
same "$(json '(d["artifacts"][0]["checked_out"], [e["path"] for e in d["artifacts"][0]["new"] + d["artifacts"][0]["modified"]])')" "(None, ['other', '1.csv'])"
rm -r data/one/deep
expect 0 mlx -C data/one add deep
same "$(files data/one)" "1.csv new"
mkdir data/one/sub && echo s >data/one/sub/s
expect 0 mlx add --json data/one/sub data/one/other
same "$(paths), $(files data/one)" "['data/one'], 1.csv new other sub/s"
rm data/one/other && mkdir data/one/other && echo o >data/one/other/o
expect 0 mlx add data/one/other/o
same "$(files data/one)" "1.csv new other/o sub/s"
expect 0 mlx add 'data/one/*.csv'
same "$(mlx cat data/one:1.csv)" changed
expect 0 mlx status --json data/one
same "$(json 'd["artifacts"][0]["status"]')" clean
mv data/one/new ../new
error 3 "no such file" mlx add data/one/none
error 2 "no files left" mlx add data/one/new data/one/1.csv data/one/other data/one/sub -n -C "$(mkdir -p ../empty && cp -a .mlx data ../empty && rm -r ../empty/data/one && echo ../empty)"
echo '*.tmp' >data/one/.mlxignore && echo t >data/one/x.tmp
error 2 "left out by .mlxignore" mlx add data/one/x.tmp
mv ../new data/one/new

# Symbolic links are stored as links, also in a loop; hard links share their content; sparse and empty files work.
mkdir odd && cd odd
ln -s . loop && ln -s ../odd out && ln -s b a && ln -s a b && ln -s /nowhere dangling
echo shared >h1 && ln h1 h2
: >empty && truncate -s 64M sparse && echo end >>sparse
printf x >"$(printf 'new\nline')" && printf y >"$(printf 'latin-\xe9')" && printf z >"$(printf '\x01\x7f\xff\\')"
cd ..
expect 0 mlx add odd
expect 0 mlx ls odd --json
same "$(json '{f["path"]: f["digest"] for f in d["files"]}["h1"] == {f["path"]: f["digest"] for f in d["files"]}["h2"]')" True
same "$(json 'sorted(f["path_hex"] for f in d["files"] if "path_hex" in f)')" "['017fff5c', '6c6174696e2de9']"
[ "$(du -sm .mlx/packs | cut -f1)" -le 2 ] || fail "a sparse file takes $(du -sh .mlx/packs)"
expect 0 mlx checkout odd --to ../odd2
same "$(tree_of ../odd2)" "$(tree_of odd)"
expect 0 mlx add "odd/$(printf 'latin-\xe9')"
has "$out" unchanged

# An unreadable file is named, and no pointer has moved, not even that of data added before it.
mkdir -p fine secret && echo f >fine/f && echo s >secret/s && echo ok >secret/ok && chmod 000 secret/s
guest=()
if [ "$(id -u)" = 0 ]; then
  command -v setpriv >/dev/null && setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$mlx_binary" &&
    guest=(setpriv --reuid=65534 --regid=65534 --clear-groups) && chmod 755 "$work" && chown -R 65534:65534 . || guest=(false)
fi
if [ "${guest[*]}" != false ]; then
  error 7 "secret/s" "${guest[@]}" "$mlx_binary" add fine secret
  [ ! -e fine.mlx ] && [ ! -e secret.mlx ] || fail "half added"
  chmod 644 secret/s && chmod 000 secret
  error 7 "secret" "${guest[@]}" "$mlx_binary" add fine secret
  chmod 755 secret
  [ "$(id -u)" != 0 ] || chown -R 0:0 .
fi
chmod 644 secret/s

# A file that is written to all the time is an error that names it, and no pointer.
mkdir busy && head -c 24M /dev/zero >busy/log && touch ../go
while [ -e ../go ]; do echo line >>busy/log; done &
writer=$!
expect 4 mlx add fine busy
rm ../go && wait "$writer"
has "$err" "busy/log: changed while it was read"
[ ! -e fine.mlx ] && [ ! -e busy.mlx ] || fail "half added"
expect 0 mlx add fine busy
expect 0 mlx fsck

# Too long a path is a clean error, or works; nothing is half added either way.
python3 - <<'PY'
import os
os.mkdir("long"); os.chdir("long")
for _ in range(20):
    os.mkdir("d" * 200); os.chdir("d" * 200)
open("f", "w").write("deep")
PY
code=0
mlx add long >"$work/.out" 2>"$work/.err" || code=$?
case $code in
  0) same "$(mlx ls long --json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["files"][0]["path"]))')" 4021 ;;
  7) has "$(cat "$work/.err")" "name too long" && [ ! -e long.mlx ] ;;
  *) fail "exit $code: $(cat "$work/.err")" ;;
esac
python3 -c 'import shutil; shutil.rmtree("long")'

# bug: through a link to a folder, data and pointers were stored from and to outside of the repository.
cd "$work" && mkdir -p links outside && echo 1 >outside/a && cd links && mlx init -q >/dev/null 2>&1
ln -s ../outside out && mkdir real && echo 1 >real/a && ln -s real lnk
error 4 "symbolic link to a folder" mlx add out/a
error 4 "symbolic link to a folder" mlx add lnk/a
same "$(ls ../outside)" a
# bug: a name that is refused stood in .gitignore afterwards.
mkdir $'new\nline' && echo 1 >$'new\nline/a'
error 2 "control character" mlx add $'new\nline'
[ ! -e .gitignore ] || fail "a refused name is in .gitignore"
# A shell's pattern names pointers too.
mkdir -p many/a many/b && echo 1 >many/a/1 && echo 2 >many/b/2
expect 0 mlx add many/*
expect 0 mlx add many/*
has "$out" unchanged
error 2 "is a pointer" mlx add many/a.mlx
