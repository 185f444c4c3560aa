# shellcheck shell=bash
# The S3 remote against somebody else's idea of S3: moto's server, from PyPI, in a virtual environment that is made once
# beside the binary. Skipped (77) if PyPI cannot be reached.
. "$(dirname "$0")/lib.sh"
unset "${!AWS_@}" http_proxy HTTP_PROXY
binaries=$(dirname "$mlx_binary")
moto=$binaries/moto-venv
exec 8>"$moto.lock"
flock 8
if [ ! -e "$moto/complete" ]; then
  python3 -m venv "$moto"
  if ! "$moto/bin/pip" install -q 'moto[server]>=5.1' >"$work/pip.log" 2>&1; then
    grep -qiE 'connection|timed out|name resolution|no matching distribution' "$work/pip.log" || fail "pip: $(tail -3 "$work/pip.log")"
    echo "skipped: PyPI cannot be reached"
    exit 77
  fi
  touch "$moto/complete"
fi
exec 8>&-

: >"$work/moto.log"  # bug: it was read before the server's process had made it
"$moto/bin/moto_server" -H 127.0.0.1 -p 0 >"$work/moto.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; cleanup' EXIT
for _ in $(seq 300); do
  port=$(sed -n 's|.*Running on http://127.0.0.1:\([0-9]*\).*|\1|p' "$work/moto.log")
  [ -n "$port" ] && break
  sleep 0.05
done
[ -n "$port" ] || fail "moto does not start: $(tail -3 "$work/moto.log")"
export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=s3cr3t AWS_REGION=us-east-1
curl -sf -X PUT "$AWS_ENDPOINT_URL/bucket" >/dev/null || fail "no bucket"

if [ -x "$binaries/test_store" ]; then
  MLX_TEST_REMOTE=s3://bucket/suite expect 0 "$binaries/test_store" -tc="remote suite: the remote in MLX_TEST_REMOTE"
fi
git init -q -b main a && cd a
mlx init -q
mkdir -p data/x && seq 300000 >data/x/n.txt && head -c 5000000 /dev/urandom >data/x/r.bin
mlx add -q data/x && mlx commit -q -m first && mlx remote add origin s3://bucket/team -q
error 3 "the bucket holds no mlx remote" mlx fetch
expect 0 mlx push
git add -A && git commit -qm first
git clone -q . ../b && cd ../b
expect 0 mlx pull
same "$(tree_of data/x)" "$(tree_of ../a/data/x)"
expect 0 mlx fsck
expect 0 mlx push
has "$out" unchanged
mlx remote add -q gone s3://gone
error 3 "the bucket does not exist" mlx push gone
