# mlx serve through the real binary: its output, its answers, its end, and errors at its start.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
error 3 "mlx init" mlx serve clf
# shellcheck source=trained.sh
source "$here/trained.sh"

# start ARGS…: in the background; its document is in $work/ready.json once it listens.
start() {
  "$mlx_binary" serve "$@" --json >"$work/ready.json" 2>"$work/serve.err" &
  server=$!
  for _ in $(seq 200); do
    python3 -c 'import json,sys; json.load(open(sys.argv[1]))' "$work/ready.json" 2>/dev/null && return
    kill -0 "$server" 2>/dev/null || fail "did not start: $(cat "$work/serve.err")"
    sleep 0.05
  done
  fail "not ready after ten seconds"
}
trap '[ -z "${server:-}" ] || kill -9 "$server" 2>/dev/null || true; cleanup' EXIT

start clf --listen 127.0.0.1:0
python3 - "$work/ready.json" <<'PY' || fail "the server did not answer as it should"
import json, sys, urllib.request
ready = json.load(open(sys.argv[1]))
assert ready["schema"] == "mlx.serve/1" and ready["model"] == "clf" and ready["version"] == "1", ready
image = list(open("data/bars/t10k-images-idx3-ubyte", "rb").read()[16:16 + 72])
body = {"id": "7", "inputs": [{"name": "images", "shape": [2, 6, 6, 1], "datatype": "UINT8", "data": image}]}
request = urllib.request.Request(ready["infer"], json.dumps(body).encode(), {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(request))
outputs = {o["name"]: o["data"] for o in answer["outputs"]}
assert answer["id"] == "7" and outputs["class"] == [0, 1], answer
assert outputs["label"] == ['<b>upright</b> & "more"', "level"], answer
assert "mlx_examples_total 2" in urllib.request.urlopen(ready["url"] + "/metrics").read().decode()
try:
    urllib.request.urlopen(ready["url"] + "/nothing")
    raise SystemExit("404 expected")
except urllib.error.HTTPError as error:
    assert error.code == 404 and "error" in json.load(error)
PY
has "$(cat "$work/serve.err")" "serving clf@v1 at http://127.0.0.1:"
port=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["url"].rsplit(":")[-1])' "$work/ready.json")
error 4 "another program listens there already" mlx serve clf --listen "127.0.0.1:$port"
kill -HUP "$server" # bug: that ended it
sleep 0.1
kill -TERM "$server"
code=0
wait "$server" || code=$?
server=""
same "$code" 0
has "$(cat "$work/serve.err")" "stopped"

start clf --listen 0.0.0.0:0
has "$(cat "$work/serve.err")" "no authentication"
kill -TERM "$server"
wait "$server" || fail "ended with $?"
server=""

# A folder with a model's files, where there is no repository.
outside=$work.outside && mkdir "$outside"
mlx checkout clf@v1 --to "$outside/box" >/dev/null
digest=$(mlx show clf@v1 --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["digest"])')
start ./box -C "$outside" --listen 127.0.0.1:0
python3 - "$work/ready.json" "$digest" <<'PY' || fail "a folder was not served"
import json, sys, urllib.request
ready = json.load(open(sys.argv[1]))
assert ready["model"] == "box" and ready["digest"] == sys.argv[2] and ready["version"] == sys.argv[2].split(":")[-1][:len(ready["version"])], ready
answer = json.load(urllib.request.urlopen(ready["url"] + "/v2/models/box"))
assert answer["name"] == "box", answer
PY
kill -TERM "$server"
wait "$server" || fail "ended with $?"
server=""
error 3 "there is no model in it" mlx serve ./data
error 3 "mlx init" mlx serve nothing -C "$outside"

error 3 "clg" mlx serve clg
error 2 "is a dataset" mlx serve data/bars
for address in 8080 127.0.0.1 127.0.0.1:x 127.0.0.1:65536 ::1:80 :80; do
  error 2 "expected HOST:PORT" mlx serve clf --listen "$address"
done
error 2 "--max-batch" mlx serve clf --max-batch 0
error 2 "no.such.host.invalid" mlx serve clf --listen no.such.host.invalid:0
