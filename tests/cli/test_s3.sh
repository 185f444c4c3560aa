# shellcheck shell=bash
# An S3 remote against a strict server of our own (tests/store/s3_server.py), which checks signatures and fails on demand:
# push, clone, pull, only what is new, cut and resumed, two at once, bad settings, and no secret in any output.
. "$(dirname "$0")/lib.sh"
unset "${!AWS_@}" http_proxy HTTP_PROXY
start_server() { # NAME BUCKET...: its port in $port
  local name=$1
  shift
  python3 "$here/../store/s3_server.py" "$@" >"$work/$name.port" &
  for _ in $(seq 100); do
    [ -s "$work/$name.port" ] && break
    sleep 0.05
  done
  port=$(cut -d' ' -f1 "$work/$name.port")
  [ -n "$port" ] || fail "the server does not start"
}
fault() { curl -sf -X PUT -d "$1" "http://127.0.0.1:$port/_control" >/dev/null; }
# requests: prints "METHOD KEY STATUS" of the requests since the last call, sorted by time.
requests() { curl -sf "http://127.0.0.1:$port/_log" | python3 -c 'import json,sys
for r in json.load(sys.stdin): print(*r[:3], r[4])'; }
quiet_secrets() { lacks "$(cat "$work/.out" "$work/.err")" s3cr3t; }

start_server main bucket other
export AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port AWS_REGION=eu-test-1 HOME=$work/home AWS_MAX_ATTEMPTS=3
export AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=s3cr3t/of+tests

git init -q -b main a && cd a
mlx init -q
mkdir -p data/x/sub && seq 100000 >data/x/n.txt && echo a >data/x/sub/a.txt && head -c 3000000 /dev/urandom >data/x/r.bin
mlx add -q data/x && mlx commit -q -m first
expect 0 mlx remote add origin "s3://bucket/team a/+store"
error 3 "holds no mlx remote" mlx fetch
expect 0 mlx push -v
quiet_secrets
has "$err" "PUT s3://bucket/team a/+store/catalogue: 200"
expect 0 mlx push
has "$out" unchanged
git add -A && git commit -qm first

# A clone gets the same bytes; it caches indexes of the remote and does not fetch them again.
cd .. && git clone -q a b && cd b
expect 0 mlx pull
same "$(tree_of data/x)" "$(tree_of ../a/data/x)"
requests >/dev/null
expect 0 mlx pull
has "$out" unchanged
lacks "$(requests)" packs/
expect 0 mlx fsck
# Damaged ones are fetched again.
for f in .mlx/cache/remotes/s3/*.idx; do flip "$f" 1100; done
expect 0 mlx pull
has "$(requests)" packs/

# The second push sends only what is new.
cd ../a
echo changed >data/x/sub/a.txt && mlx add -q data/x && mlx commit -q -m second
requests >/dev/null
expect 0 mlx push
sent=$(requests | awk '$1 == "PUT" { sum += $NF } END { print sum }')
[ "$sent" -lt 20000 ] || fail "the second push sent $sent bytes"
cd ../b
expect 0 mlx fetch --all
expect 0 mlx cat data/x@v2:sub/a.txt
same "$out" changed

# Passing trouble is tried again: errors of the server, closed connections, lost answers, cut bodies.
cd ../a
for trouble in '"do": "status", "status": 503, "code": "SlowDown"' '"do": "reset"' '"do": "lost"'; do
  echo "$trouble" >data/x/sub/b.txt && mlx add -q data/x && mlx commit -q -m more
  fault "{\"faults\": [{\"method\": \"PUT\", \"match\": \"packs/\", $trouble}, {\"method\": \"PUT\", \"match\": \"catalogue\", \"times\": 2, $trouble}]}"
  expect 0 mlx push
done
fault '{"faults": [{"method": "GET", "match": "catalogue", "do": "cut"}, {"method": "GET", "match": "packs/", "do": "cut", "times": 2}]}'
expect 0 mlx -C ../b fetch --all
expect 0 mlx -C ../b fsck
# Changed bytes are refused.
echo flipped >data/x/sub/c.txt && mlx add -q data/x && mlx commit -q -m flip && mlx push -q
fault '{"faults": [{"method": "GET", "match": "packs/", "do": "flip", "times": 99}]}'
error 6 "" mlx -C ../b fetch --all
fault '{}'
expect 0 mlx -C ../b fetch --all
expect 0 mlx -C ../b fsck

# Cut off while the catalogue is written: uploaded packs are not sent again.
head -c 3000000 /dev/urandom >data/x/s.bin
mlx add -q data/x && mlx commit -q -m cut
fault '{"faults": [{"method": "PUT", "match": "catalogue", "do": "reset", "times": 99}]}'
error 7 "does not answer" mlx push
quiet_secrets
fault '{}'
requests >/dev/null
expect 0 mlx push
sent=$(requests | awk '$1 == "PUT" && /packs/ { sum += $NF } END { print sum }')
[ "$sent" -lt 100000 ] || fail "a push that was cut sent $sent bytes again"
# bug: an answer that dripped a byte a second held a command up for good.
fault '{"faults": [{"method": "GET", "match": "catalogue", "do": "drip", "times": 99}]}'
MLX_S3_STALL_SECONDS=1 AWS_MAX_ATTEMPTS=1 error 7 "does not answer" mlx -C ../b fetch
fault '{}'
# Killed in the middle.
head -c 3000000 /dev/urandom >data/x/t.bin
mlx add -q data/x && mlx commit -q -m killed
fault '{"faults": [{"method": "PUT", "match": "packs/", "do": "stall", "seconds": 60}]}'
"$mlx_binary" push -q 2>/dev/null &
pid=$!
for _ in $(seq 100); do
  [ -n "$(find .mlx/cache/remotes -name 'tmp-*.0')" ] && break
  sleep 0.02
done
kill -TERM $pid
code=0
wait $pid || code=$?
same $code 143
fault '{}'
expect 0 mlx push
expect 0 mlx -C ../b fetch --all
expect 0 mlx -C ../b fsck
[ -z "$(find .mlx/cache/remotes -name 'tmp-*')" ] || fail "temporary files stay"

# Two at once: nobody's versions are lost; the slower one pulls first.
mlx -C ../b pull -q
for clone in a b; do (cd "../$clone" && mkdir -p "data/$clone" && echo $clone >"data/$clone/f" && mlx add -q "data/$clone" && mlx commit -q -m $clone) >/dev/null; done
pids=()
for clone in a b; do
  (mlx -C ../$clone push -q || (mlx -C ../$clone pull -q && mlx -C ../$clone push -q)) >/dev/null 2>&1 &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || fail "one of two pushes at once is lost"; done
mlx -C ../a fetch -q --all
expect 0 mlx -C ../a cat data/b@v1:f
same "$out" b
mlx -C ../b fetch -q --all
expect 0 mlx -C ../b cat data/a@v1:f

# bug: a pack that was deleted went unnoticed while this clone kept its index: pushes built on the hole.
cd ../a
head -c 2000000 /dev/urandom >data/x/u.bin && mlx add -q data/x && mlx commit -q -m u && mlx push -q
largest() { # the name of the largest pack that is there
  curl -sf "http://127.0.0.1:$port/_objects" | python3 -c 'import json,sys
print(max((size, key) for key, size in json.load(sys.stdin).items() if "packs/" in key)[1])'
}
lose() { curl -sf -X PUT -d "$1" "http://127.0.0.1:$port/_lose" >/dev/null; }
for how in delete cut; do
  pack=$(largest)
  lose "{\"key\": \"$pack\", \"how\": \"$how\"}"
  expect 1 mlx push --check
  has "$err" "push --repair"
  echo $how >data/x/on-top && mlx add -q data/x && mlx commit -q -m $how
  requests >/dev/null
  expect 0 mlx push
  has "$err" "is gone, or cut short"
  has "$(requests)" "HEAD"
  expect 0 mlx push --repair
  expect 0 mlx push --check
  rm -rf ../fresh && expect 0 mlx clone -q "s3://bucket/team a/+store" ../fresh
  expect 0 mlx -C ../fresh fetch --all
  expect 0 mlx -C ../fresh fsck
  expect 0 mlx push
  has "$out" unchanged
done
# bug: a pack of operations that was deleted was no reason for a check or a push to say anything, and nobody could clone.
packs() { curl -sf "http://127.0.0.1:$port/_objects" | python3 -c 'import json,sys
print("\n".join(sorted(key for key in json.load(sys.stdin) if "packs/" in key)))'; }
rm -rf ../fresh && packs >../packs-before
mlx tag -q tagged data/x@v1 && mlx push -q
lose "{\"key\": \"$(packs | comm -13 ../packs-before - | grep 'pack$')\", \"how\": \"delete\"}"
error 6 "lacks operation" mlx clone -q "s3://bucket/team a/+store" ../fresh
expect 1 mlx push --check
has "$out" "nobody can clone it"
expect 0 mlx push
has "$err" "has lost 1 operation"
expect 0 mlx clone -q "s3://bucket/team a/+store" ../fresh
expect 0 mlx push --check
# bug: a catalogue that was lost or damaged was never mended.
catalogue="team a/+store/catalogue"
for how in delete cut; do
  lose "{\"key\": \"$catalogue\", \"how\": \"$how\"}"
  expect 0 mlx fetch
  expect 0 mlx push --repair
  lose "{\"key\": \"$catalogue.copy\", \"how\": \"delete\"}"
  expect 0 mlx fetch
  expect 0 mlx push --repair
done
for copy in "$catalogue" "$catalogue.copy"; do lose "{\"key\": \"$copy\", \"how\": \"cut\"}"; done
error 6 "push --repair" mlx fetch
error 6 "push --repair" mlx push
expect 0 mlx push --repair
expect 0 mlx fetch
rm -rf ../fresh && expect 0 mlx clone -q "s3://bucket/team a/+store" ../fresh

# Errors say what is wrong and what to do.
AWS_SECRET_ACCESS_KEY=s3cr3t/another error 5 "SignatureDoesNotMatch" mlx fetch
quiet_secrets
AWS_ACCESS_KEY_ID=AKIDNONE error 5 "AWS_ACCESS_KEY_ID" mlx fetch
AWS_ACCESS_KEY_ID=AKIDNOBODY AWS_SECRET_ACCESS_KEY=s3cr3t/of+nobody error 5 "s3:GetObject" mlx fetch
AWS_SECRET_ACCESS_KEY='' error 2 "AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY" mlx fetch
AWS_SESSION_TOKEN=s3cr3t/token error 5 "AWS_SESSION_TOKEN" mlx fetch
quiet_secrets
fault '{"clock": 7200}'
error 7 "clock is 120 minutes behind the server's" mlx fetch
fault '{}'
AWS_ENDPOINT_URL_S3=http://127.0.0.1:1 AWS_MAX_ATTEMPTS=1 error 7 "127.0.0.1:1 does not answer" mlx fetch
AWS_ENDPOINT_URL_S3=http://s3.example.com error 5 "unencrypted" mlx fetch
AWS_ENDPOINT_URL_S3=ftp://s3.example.com error 2 "endpoint" mlx fetch
mlx remote add nowhere s3://no-such-bucket/x && mlx remote add odd s3://bucket/../x && mlx remote add new s3://other
error 3 "the bucket does not exist" mlx push nowhere
error 2 "s3://BUCKET/PREFIX" mlx push odd
# A bucket of another region is found by what the server says.
AWS_REGION=us-east-1 expect 0 mlx fetch

# Keys from profiles and from a program; the variables win.
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
error 2 "no credentials" mlx push new
mkdir -p "$HOME/.aws"
cat >"$HOME/.aws/credentials" <<TEXT
# ours
[default]
aws_access_key_id = AKIDNONE
aws_secret_access_key = s3cr3t/none
[team]
aws_access_key_id = AKIDTOKEN
aws_secret_access_key = s3cr3t/of+token
aws_session_token = token/of+tests==
TEXT
cat >"$HOME/.aws/config" <<TEXT
[profile team]
region = eu-test-1
services = local
[profile program]
credential_process = '$work/keys of.sh' --now
[profile role]
role_arn = arn:aws:iam::1:role/x
[services local]
s3 =
  endpoint_url = $AWS_ENDPOINT_URL_S3
TEXT
printf '#!/bin/sh\n[ "$1" = --now ] && echo \047{"Version": 1, "AccessKeyId": "AKIDTEST", "SecretAccessKey": "s3cr3t/of+tests"}\047\n' >"$work/keys of.sh"
chmod +x "$work/keys of.sh"
error 5 "AWS_PROFILE" mlx push new
endpoint=$AWS_ENDPOINT_URL_S3
unset AWS_ENDPOINT_URL_S3
AWS_PROFILE=team expect 0 mlx push new
AWS_PROFILE=program AWS_ENDPOINT_URL=$endpoint expect 0 mlx push new -v
has "$out" unchanged
quiet_secrets
AWS_PROFILE=role error 2 "role_arn" mlx push new
AWS_PROFILE=none error 2 "'none'" mlx push new

# A server without conditional writes is refused before anything is published there.
start_server lax --ignore-conditions lax
export AWS_ENDPOINT_URL=http://127.0.0.1:$port
mlx remote add lax s3://lax
AWS_PROFILE=program error 8 "ignores If-None-Match" mlx push lax
lacks "$(requests)" "PUT catalogue"
