# mlx serve for others: TLS 1.3 with certificates that change, clients' certificates, API keys that come and go while it
# runs, a socket in a file, and what it refuses without them.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

server=""
trap '[ -z "${server:-}" ] || kill -9 "$server" 2>/dev/null || true; cleanup' EXIT
# start ARGS…: in the background; its document is in $work/ready.json once it listens.
start() {
  "$mlx_binary" serve "$@" --json >"$work/ready.json" 2>"$work/serve.err" &
  server=$!
  for _ in $(seq 200); do
    url=$(jq -r .url "$work/ready.json" 2>/dev/null) && [ -n "$url" ] && return
    kill -0 "$server" 2>/dev/null || fail "did not start: $(cat "$work/serve.err")"
    sleep 0.05
  done
  fail "not ready after ten seconds"
}
stop() {
  kill -TERM "$server"
  wait "$server" || fail "ended with $?: $(cat "$work/serve.err")"
  server=""
}
status() { curl -sS -o "$work/body" -w "%{http_code}" --max-time 20 "$@" 2>"$work/curl.err" || true; }
# until COMMAND…: waits until it succeeds.
until_true() {
  for _ in $(seq 60); do
    "$@" && return
    sleep 0.05
  done
  fail "never: $*"
}

mlx init >/dev/null 2>&1
python3 "$here/chat_folder.py" theirs/lm
mlx import model theirs/lm >/dev/null 2>&1

# certificate NAME SUBJECT [AUTHORITY]: NAME.pem and NAME.key, signed by itself or by another.
certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$2" -addext "subjectAltName=IP:127.0.0.1" \
    ${3:+-CA "$3.pem" -CAkey "$3.key"} -keyout "$1.key" -out "$1.pem" 2>/dev/null
}
certificate server first
certificate other second
certificate authority authority
certificate client client authority

# Beyond this machine it listens only with TLS and keys.
error 5 "there is no TLS" mlx serve lm --listen 0.0.0.0:0
error 5 "there are no API keys" mlx serve lm --listen 0.0.0.0:0 --tls-cert server.pem --tls-key server.key
error 2 "TLS needs both" mlx serve lm --tls-cert server.pem
error 2 "no key of this certificate" mlx serve lm --tls-cert server.pem --tls-key other.key
error 2 "no chain of certificates" mlx serve lm --tls-cert "$here/lib.sh" --tls-key server.key
error 3 "nothing.pem" mlx serve lm --tls-cert nothing.pem --tls-key server.key

# TLS 1.3, and nothing below; another certificate is taken while it runs, a broken one is not.
start lm --listen 127.0.0.1:0 --tls-cert server.pem --tls-key server.key
has "$url" "https://127.0.0.1:"
same "$(status --cacert server.pem "$url/v2/health/ready")" 200
same "$(status --cacert other.pem "$url/v2/health/ready")" 000
same "$(status --cacert server.pem --tls-max 1.2 "$url/v2/health/ready")" 000
same "$(status "http://${url#https://}/v2/health/ready")" 000
body='{"prompt":"a","max_tokens":40,"stream":true,"logit_bias":{"256":-100}}'
same "$(curl -sSN --cacert server.pem -H 'Content-Type: application/json' -d "$body" "$url/v1/completions" "$url/v1/completions" | grep -c DONE)" 2
cp other.key server.key && cp other.pem server.pem
until_true eval '[ "$(status --cacert other.pem "$url/v2/health/ready")" = 200 ]'
sleep 1 # the files are looked at once a second
echo broken >server.pem
same "$(status --cacert other.pem "$url/v2/health/ready")" 200
# A client that leaves in the middle of a stream ends its text.
code=0
curl -sSN --cacert other.pem --max-time 0.3 -H 'Content-Type: application/json' \
  -d '{"prompt":"a","n":16,"max_tokens":1000,"stream":true,"logit_bias":{"256":-100}}' "$url/v1/completions" >/dev/null 2>&1 || code=$?
same "$code" 28
until_true eval 'curl -sS --cacert other.pem "$url/metrics" | grep -q "mlx_http_requests_total{code=\"499\"} 1"'
stop

# Clients' certificates.
start lm --listen 0.0.0.0:0 --tls-cert other.pem --tls-key other.key --client-ca authority.pem
url=https://127.0.0.1:${url##*:}
same "$(status --cacert other.pem "$url/v2/health/ready")" 000
same "$(status --cacert other.pem --cert other.pem --key other.key "$url/v2/health/ready")" 000
same "$(status --cacert other.pem --cert client.pem --key client.key "$url/v2/health/ready")" 200
stop

# API keys: shown once, recorded as digests, asked for from then on.
expect 0 mlx key api add ada --per-minute 1000 -n
same "$out" ""
expect 0 mlx key api add ada --expires 30d --per-minute 1000 --json
ada=$(json "d['key']")
same "$(json "d['api_key']['roles'], d['api_key']['models'], d['status']")" "(['infer'], [], 'added')"
same "${#ada}" 47
error 4 "an API key 'ada' already" mlx key api add ada
error 2 "--role boss" mlx key api add bob --role boss
error 2 "expected 1 to 36500" mlx key api add bob --expires 0d
error 2 "not in the future" mlx key api add bob --expires 2020-01-01
error 2 "cannot name a model" mlx key api add bob --model ../x
error 3 "no API key 'bob'" mlx key api revoke bob
watcher=$(mlx key api add watcher --role metrics 2>/dev/null)
bob=$(mlx key api add bob --model other,lm,clf --per-minute 1200 --per-day 50000 2>bob.err)
has "$(cat bob.err)" "there is no model 'other'"
has "$(cat bob.err)" "there is no model 'clf'"
lacks "$(cat bob.err)" "'lm'"
mlx key api revoke bob >/dev/null
bob=$(mlx key api add bob --model other,clf --per-minute 1200 --per-day 50000 2>/dev/null)
! grep -rqF "$ada" .mlx || fail "the key's text is in the repository"
has "$(mlx audit log)" "added the API key 'ada'"
expect 0 mlx key api list
has "$out" "bob  infer  other,clf  1,200 a minute, 50,000 a day  "
has "$out" "watcher  metrics  all models  any number  "
mlx key api list --json >keys.json
start lm --listen 0.0.0.0:0 --tls-cert other.pem --tls-key other.key --log
url=https://127.0.0.1:${url##*:}
as() { status --cacert other.pem -H "Authorization: Bearer $1" "$url$2"; }
same "$(as "$ada" /v1/models)" 200
same "$(as "$bob" /v1/models/lm)" 404
same "$(as "$watcher" /v1/models)" 403
same "$(as "$watcher" /metrics)" 200
same "$(as "${ada}x" /v1/models)" 401
same "$(jq -r .error.code "$work/body")" invalid_api_key
same "$(status --cacert other.pem "$url/v1/models")" 401
same "$(status --cacert other.pem "$url/v2/health/live") $(cat "$work/curl.err")" "200 "
# Revoked, and added, without another start.
expect 0 mlx key api revoke ada
until_true eval '[ "$(as "$ada" /v1/models)" = 401 ]'
same "$(mlx key api revoke ada)" "ada  unchanged"
ada=$(mlx key api add ada 2>/dev/null)
until_true eval '[ "$(as "$ada" /v1/models)" = 200 ]'
has "$(cat "$work/serve.err")" " ms ada"
stop
# The same from a file, which is read again when it changes.
start lm --listen 127.0.0.1:0 --keys keys.json
same "$(jq -c '[.tls, .api_keys]' "$work/ready.json")" "[false,true]"
same "$(status -H "api-key: $bob" "$url/v1/models")" 200
jq '.keys |= map(.revoked = true)' keys.json >keys.new && mv keys.new keys.json
until_true eval '[ "$(status -H "api-key: $bob" "$url/v1/models")" = 401 ]'
echo '{}' >keys.json
until_true grep -q "that were read before still hold" "$work/serve.err"
stop
echo '{"keys":[{}]}' >keys.json
error 2 "'revoked'" mlx serve lm --keys keys.json
# bug: fewer than no requests were any number of them.
mlx key api list --json | jq '.keys |= map(.per_minute = -1)' >keys.json
error 2 "a number of requests is negative" mlx serve lm --keys keys.json
# Who has no right to keys adds none.
expect 0 mlx key trust me "$(mlx key signing)" --may commit
error 5 "keys" mlx key api add eve

# A socket in a file: for its user, gone at the end; one that was left behind is taken over.
start lm --listen unix:serve.sock
same "$url" "unix:$work/serve.sock"
same "$(stat -c %a serve.sock)" 600
through() { status --unix-socket serve.sock -H "api-key: $ada" http://localhost/v1/models; }
same "$(through)" 200
error 4 "another program listens there already" mlx serve lm --listen unix:serve.sock
kill -9 "$server"
wait "$server" 2>/dev/null || true
start lm --listen unix:serve.sock
same "$(through)" 200
stop
[ ! -e serve.sock ] || fail "the socket was left behind"
error 2 "at most 107 bytes" mlx serve lm --listen "unix:$(printf 'long/%.0s' {1..30})"
