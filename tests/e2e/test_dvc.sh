# shellcheck shell=bash
# Import of what the real DVC makes, with the DVC of PyPI in a virtual environment that the build folder keeps.
. "$(dirname "$0")/../cli/lib.sh"
venv=$(dirname "$mlx_binary")/dvc-venv
if ! "$venv/bin/dvc" --version >/dev/null 2>&1; then
  rm -rf "$venv"
  python3 -m venv "$venv" >"$work/pip.log" 2>&1 && timeout 900 "$venv/bin/pip" install -q dvc >>"$work/pip.log" 2>&1 ||
    { echo "skipped: no DVC from PyPI: $(tail -n 1 "$work/pip.log")"; rm -rf "$venv"; exit 77; }
fi
export HOME=$work/home DVC_NO_ANALYTICS=1 && mkdir home
dvc() { "$venv/bin/dvc" "$@"; }
git init -q repo && cd repo && dvc init -q && mlx init -q 2>/dev/null
mkdir -p data/sub "with space" && echo a >data/a && printf 'x\r\ny\r\n' >data/crlf && echo b >"data/sub/ü b" && : >data/empty
echo one >"with space/it's #1.txt"
dvc add -q data "with space/it's #1.txt"
expect 0 mlx import dvc
has "$out" "data  4 files"
expect 0 mlx status --json
same "$(json '[(a["artifact"], a["new"] + a["modified"] + a["deleted"]) for a in d["artifacts"]]')" "[('data', []), (\"with space/it's #1.txt\", [])]"
expect 0 mlx import dvc && lacks "$out" imported
# Cut off from its cache, DVC has to fetch first.
rm -r .dvc/cache && error 3 "dvc fetch" mlx import dvc
