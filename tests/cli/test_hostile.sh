# shellcheck shell=bash
# bug: remotes that lie, over folder, ssh and S3: forged, replayed, reordered, rolled back, cut short, enormous. What they
# are stands in tests/hostile; MLX_HOSTILE=all tries every attack over every kind of remote, other words those whose names
# contain them.
[ -w /dev/shm ] && export TMPDIR=${TMPDIR:-/dev/shm}  # hundreds of repositories, none of which has to last
. "$(dirname "$0")/lib.sh"
for program in python3 ssh-keygen; do
  command -v $program >/dev/null || { echo "skipped: no $program here" >&2; exit 77; }
done
unset "${!AWS_@}" http_proxy HTTP_PROXY MLX_SSH_COMMAND MLX_REMOTE_MLX
mkdir places
PYTHONDONTWRITEBYTECODE=1 python3 "$here/../hostile/run.py" "$mlx_binary" "$work/places" ${MLX_HOSTILE:+"$MLX_HOSTILE"} ||
  fail "a remote that lies is believed"
