# shellcheck shell=bash
# The conformance suite of remotes (tests/store/remote_suite.h) through a real sshd.
test_store=$(dirname "$(readlink -f "$1")")/test_store
[ -x "$test_store" ] || { echo "skipped: $test_store is not built" >&2; exit 77; }
. "$(dirname "$0")/lib.sh"
. "$here/sshd.sh"
MLX_TEST_REMOTE="ssh://there$work/suite" MLX_TEST_REMOTE_FOLDER="$work/suite" \
  "$test_store" -tc="remote suite: the remote in MLX_TEST_REMOTE" >"$work/log" 2>&1 || fail "$(tail -40 "$work/log")"
ran=$(sed -n 's/.*assertions: *\([0-9]*\) .*/\1/p' "$work/log")
[ "$ran" -gt 1000 ] || fail "only $ran assertions ran"
