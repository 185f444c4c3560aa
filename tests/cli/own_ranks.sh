# shellcheck shell=bash
# For tests that train on several ranks of this machine, with the real MPI; skips where there is none. Sourced after
# lib.sh. `all_gone` fails if a process of this test is left, and none is after its end.
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun"; exit 77; }
[ -f "$(dirname "$mlx_binary")/lib/mlx/mlx_mpi.so" ] || { echo "skipped: mlx was built without Open MPI"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# The processes of this test: those of its ranks have its folder as theirs.
here_run() { for process in $(pgrep -x 'mlx|mpirun' || true); do [ "$(readlink "/proc/$process/cwd" 2>/dev/null)" != "$work" ] || echo "$process"; done; }
all_gone() {
  for _ in {1..100}; do [ -n "$(here_run)" ] || return 0; sleep 0.1; done
  fail "still running: $(ps -o pid,args -p "$(here_run | paste -sd,)")"
}
trap 'kill -9 $(here_run) 2>/dev/null || true; cleanup' EXIT
digest() { json "d['digest']"; }
