# shellcheck shell=bash
# Shared by the CLI tests: a scratch folder, and expectations that say what broke. Sourced with the binary as $1,
# and the kernels to use as $2 (default: the best; the test is skipped if this machine lacks them).
set -euo pipefail
mlx_binary=$(readlink -f "$1")
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
mlx() { "$mlx_binary" "$@"; }
work=$(mktemp -d "${TMPDIR:-/tmp}/mlx-cli.XXXXXX")
mounted=""
cleanup() {
  cd /
  [ -z "$mounted" ] || umount "$mounted" 2>/dev/null || true
  chmod -R u+w "$work" 2>/dev/null || true
  rm -rf "$work" "$work.outside"  # the latter for what must not lie in the repository at $work
}
trap cleanup EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.com
export GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.com NO_COLOR=1 LC_ALL=C.UTF-8
export HOME=$work/.home XDG_CONFIG_HOME=  # the signing key is made there
mkdir "$HOME"
unset MLX_SIGNING_KEY MLX_KILL_AT MLX_THREADS MLX_KERNELS MLX_CUDA_LIBRARIES CLICOLOR_FORCE PAGER
if [ -n "${2:-}" ]; then
  export MLX_KERNELS=$2
  mlx version -v >"$work/.out" 2>&1 || { cat "$work/.out"; exit 77; }
fi

# bars SEED TRAIN TEST SIZE PERIOD: data/bars, a dataset of small images in two classes.
bars() { python3 "$here/bars.py" "$@"; }
# Whether the binary has AddressSanitizer: it wants terabytes of addresses and much more memory than a plan allows for.
sanitized() { grep -q __asan_init "$mlx_binary"; }
# address_space KIB: bounds what this shell and its children may map.
address_space() { sanitized || ulimit -v "$1"; }
# How far apart the steps are that are killed in turn: runs with sanitizers set it.
stride=${MLX_TEST_STRIDE:-1}
fail() {
  echo "FAILED: ${BASH_SOURCE[-1]##*/}:${BASH_LINENO[-2]}: $*" >&2
  exit 1
}
# expect CODE COMMAND...: runs it; its output is in $out and $err afterwards.
expect() {
  local wanted=$1 code=0
  shift
  "$@" >"$work/.out" 2>"$work/.err" </dev/null || code=$?
  out=$(tr -d '\0' <"$work/.out") err=$(cat "$work/.err")
  [ "$code" = "$wanted" ] || fail "$* exited with $code, expected $wanted
stdout: $out
stderr: $err"
}
has() { [[ $1 == *"$2"* ]] || fail "expected '$2' in: $1"; }
lacks() { [[ $1 != *"$2"* ]] || fail "did not expect '$2' in: $1"; }
same() { [ "$1" = "$2" ] || fail "expected '$2', got '$1'"; }
# error CODE TEXT COMMAND...: fails with this code and text on stderr, in at most three lines, and nothing on stdout.
error() {
  local code=$1 text=$2
  shift 2
  expect "$code" "$@"
  has "$err" "$text"
  same "$out" ""
  [ "$(wc -l <"$work/.err")" -le 3 ] || fail "more than three lines: $err"
  [[ $err == "mlx: error: "* ]] || fail "not an error of mlx: $err"
}
# json EXPRESSION: a Python expression over `d`, the one document on $out.
json() {
  python3 -c 'import json,sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1" <<<"$out" || fail "not one JSON document: $out"
}
# tensors VERSION: the tensors of a model as "NAME SHA", one a line, of the stored file.
tensors() {
  mlx cat "$1:weights.safetensors" | python3 -c '
import hashlib, json, sys
data = sys.stdin.buffer.read()
size = int.from_bytes(data[:8], "little")
for name, t in sorted(json.loads(data[8:8 + size]).items()):
    a, b = t["data_offsets"]
    print(name, hashlib.sha256(data[8 + size:][a:b]).hexdigest())'
}
# killed_training WRITE OPTIONS...: `mlx train` that is killed at this write; its run is in $run.
killed_training() {
  local code=0 write=$1
  shift
  MLX_KILL_AT=$write "$mlx_binary" train "$@" >/dev/null 2>&1 || code=$?
  [ "$code" = 137 ] || fail "the training was not killed (exit $code)"
  run=$(mlx log --runs --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["runs"][0]["id"])')
}
# flip FILE OFFSET: changes the byte there, whatever it is (negative: from the end).
flip() {
  python3 - "$@" <<'END'
import sys
with open(sys.argv[1], "r+b") as file:
    at = file.seek(int(sys.argv[2]), 2 if sys.argv[2][0] == "-" else 0)
    byte = file.read(1)[0]
    file.seek(at)
    file.write(bytes([byte ^ 0x55]))
END
}
# What a tree holds: names, kinds, contents.
tree_of() { (cd "$1" && find . -mindepth 1 -not -name '*.db-*' -print0 | sort -z | while IFS= read -rd '' f; do
  if [ -L "$f" ]; then echo "$f -> $(readlink "$f")"; elif [ -f "$f" ]; then echo "$f $(stat -c %a "$f") $(sha256sum <"$f")"; else echo "$f/"; fi; done); }
