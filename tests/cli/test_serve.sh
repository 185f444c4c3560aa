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
import gzip, json, sys, urllib.request
ready = json.load(open(sys.argv[1]))
assert ready["schema"] == "mlx.serve/1" and ready["model"] == "clf" and ready["version"] == "1", ready
image = list(open("data/bars/t10k-images-idx3-ubyte", "rb").read()[16:16 + 72])
body = {"id": "7", "inputs": [{"name": "images", "shape": [2, 6, 6, 1], "datatype": "UINT8", "data": image}]}
request = urllib.request.Request(ready["infer"], json.dumps(body).encode(), {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(request))
outputs = {o["name"]: o["data"] for o in answer["outputs"]}
assert answer["id"] == "7" and outputs["class"] == [0, 1], answer
assert outputs["label"] == ['<b>upright</b> & "more"', "level"], answer
assert 'mlx_examples_total{model="clf"} 2' in urllib.request.urlopen(ready["url"] + "/metrics").read().decode()
small = urllib.request.Request(ready["infer"], gzip.compress(json.dumps(body).encode()), {"Content-Type": "application/json", "Content-Encoding": "gzip"})
assert json.load(urllib.request.urlopen(small)) == answer
bomb = urllib.request.Request(ready["infer"], gzip.compress(b" " * 20_000_000), {"Content-Type": "application/json", "Content-Encoding": "gzip"})
try:
    urllib.request.urlopen(bomb)
    raise SystemExit("413 expected")
except urllib.error.HTTPError as error:
    assert error.code == 413 and "8388608 bytes, once it is expanded" in json.load(error)["error"]
page = urllib.request.urlopen(ready["url"] + "/")
html = page.read().decode()
assert "script-src 'sha256-" in page.headers["Content-Security-Policy"], page.headers
assert 'data-model="clf" data-takes="images"' in html and "&lt;b&gt;upright" in html.replace("&quot;", '"') and "<b>" not in html, html
assert "<dt>Examples</dt><dd>4</dd>" in html, html
try:
    urllib.request.urlopen(ready["url"] + "/nothing")
    raise SystemExit("404 expected")
except urllib.error.HTTPError as error:
    assert error.code == 404 and "error" in json.load(error)
PY
has "$(cat "$work/serve.err")" "serving clf@v1 at http://127.0.0.1:"
weights() { curl -sS "$(jq -r .url "$work/ready.json")/metrics" | grep '^mlx_weights_bytes '; }
alone=$(weights)
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

start clf --listen 0.0.0.0:0 --insecure
has "$(cat "$work/serve.err")" "no authentication"
kill -TERM "$server"
wait "$server" || fail "ended with $?"
server=""

# Another version takes the place of the one that is served when its alias moves, and no request fails.
mlx promote clf@v1 production >/dev/null 2>&1
mlx train --set train.epochs=1 >/dev/null 2>&1
start clf@production fixed=clf@v1 --listen 127.0.0.1:0 --rollback-on errors=20%,p99=20s
python3 - "$work/ready.json" "$work" <<'PY' &
import http.client, json, os, sys, time
ready, work = json.load(open(sys.argv[1])), sys.argv[2]
body = json.dumps({"inputs": [{"name": "images", "shape": [1, 6, 6, 1], "datatype": "UINT8", "data": [7] * 36}]})
seen, end = [], time.time() + 30
connection = http.client.HTTPConnection(ready["url"].removeprefix("http://"), timeout=20)
while seen != ["1", "2", "1"] and time.time() < end:
    connection.request("POST", "/v2/models/clf/infer", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    version = answer.headers["Mlx-Model-Version"]
    assert answer.status == 200 and json.load(answer)["model_version"] == version, answer.status
    if seen[-1:] != [version]:
        seen.append(version)
        open(f"{work}/version.new", "w").write(version)
        os.rename(f"{work}/version.new", f"{work}/version")
assert seen == ["1", "2", "1"], seen
PY
client=$!
serves() {
  for _ in $(seq 200); do
    [ "$(cat "$work/version" 2>/dev/null)" != "$1" ] || return 0
    sleep 0.05
  done
  fail "version $1 is not served: $(cat "$work/serve.err")"
}
serves 1
mlx promote clf@v2 production >/dev/null 2>&1
serves 2
has "$(cat "$work/serve.err")" "clf@production is clf@v2 now"
same "$(curl -sS "$(jq -r .url "$work/ready.json")/v2/models/fixed" | jq -r '.versions[0]')" 1
mlx rollback clf@production >/dev/null 2>&1
wait "$client" || fail "a request failed while versions changed"
# One that does not give its golden outputs is not served: here those of another version.
expect 0 mlx golden clf@v1 --data data/bars
python3 - "$(mlx show clf@v2 --json | jq -r .digest)" <<'PY'
import sqlite3, sys
db = sqlite3.connect(".mlx/meta.db")
kind = type(db.execute("SELECT version FROM attachments WHERE kind = 'golden'").fetchone()[0])
digest = sys.argv[1].split(":")[-1]
db.execute("UPDATE attachments SET version = ? WHERE kind = 'golden'", (bytes.fromhex(digest) if kind is bytes else sys.argv[1],))
db.commit()
PY
mlx promote clf@v2 production >/dev/null 2>&1
url=$(jq -r .url "$work/ready.json")
for _ in $(seq 200); do
  ! grep -q "golden outputs" "$work/serve.err" || break
  sleep 0.05
done
has "$(cat "$work/serve.err")" "clf@production: it does not give its golden outputs data/bars@v1 test: they differ by"
has "$(cat "$work/serve.err")" "the version before is still served"
same "$(curl -sS "$url/v2/models/clf" | jq -r '.versions[0]')" 1
curl -sS "$url/metrics" | grep -q '^mlx_release_refused_total{model="clf"} [1-9]' || fail "a refused release is not counted"
error 1 "golden outputs" mlx serve clf@v2 --listen 127.0.0.1:0
# One whose answers are errors is taken back.
mlx checkout clf@v1 --to nan >/dev/null
python3 - <<'PY'
import struct
data = bytearray(open("nan/weights.safetensors", "rb").read())
data[-4:] = struct.pack("<f", float("nan"))
open("nan/weights.safetensors", "wb").write(data)
PY
mlx import model nan --name clf >/dev/null 2>&1
mlx promote clf@v1 production >/dev/null 2>&1
mlx promote clf@v3 production >/dev/null 2>&1
python3 - "$url" <<'PY' || fail "the bad version was not taken back: $(cat "$work/serve.err")"
import http.client, json, sys, time
connection = http.client.HTTPConnection(sys.argv[1].removeprefix("http://"), timeout=20)
body = json.dumps({"inputs": [{"name": "images", "shape": [1, 6, 6, 1], "datatype": "UINT8", "data": [7] * 36}]})
seen, end = [], time.time() + 20
while time.time() < end:
    connection.request("POST", "/v2/models/clf/infer", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    if seen[-1:] != [answer.status]:
        seen.append(answer.status)
    if seen[-2:] == [500, 200]:
        sys.exit(0)
    time.sleep(0.01)
sys.exit(f"answers were {seen}")
PY
has "$(cat "$work/serve.err")" "clf@production: rolled back from clf@v3 to clf@v1: "
has "$(mlx audit log)" "rollback from v3: mlx serve: "
has "$(mlx show clf@production)" "clf@v1"
curl -sS "$url/metrics" | grep -q '^mlx_release_rolled_back_total{model="clf"} 1' || fail "a release that was taken back is not counted"
error 2 "no model is asked for by one" mlx serve clf@v1 --listen 127.0.0.1:0 --rollback-on errors=1%
for bounds in errors=1 errors=100% p0=1s p99=0ms p99=5 latency=1ms errors=1%, =1%; do
  error 2 "--rollback-on: '" mlx serve clf@v1 --listen 127.0.0.1:0 --rollback-on "$bounds"
done
python3 -c 'import sqlite3; db = sqlite3.connect(".mlx/meta.db"); db.execute("DELETE FROM attachments WHERE kind = \"golden\""); db.commit()'
kill -TERM "$server"
wait "$server" || fail "ended with $?"
server=""

# A folder with a model's files, where there is no repository.
outside=$work.outside && mkdir "$outside"
mlx checkout clf@v1 --to "$outside/box" >/dev/null
digest=$(mlx show clf@v1 --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["digest"])')
start ./box again=./box -C "$outside" --listen 127.0.0.1:0
same "$(weights)" "$alone"  # they are loaded once
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
error 3 "data: not a model's folder" mlx serve ./data
error 3 "mlx init" mlx serve nothing -C "$outside"

# Several models at once, of each kind, with the answers of mlx predict.
mkdir data/offers data/words
python3 - <<'PY'
import random
random.seed(5)
rows = ["rooms,city,price,rent"]
for i in range(120):
    rooms, city = random.randrange(1, 8), random.choice(["Bonn", "Köln, Süd", "Ulm"])
    rows.append(f'{rooms},"{city}",{50 * rooms + 10 * len(city)},{rooms * 7.5}')
open("data/offers/train.csv", "w").write("\n".join(rows) + "\n")
open("data/words/words.txt", "w").write(" ".join(random.choice(["mill", "käse", "stone"]) for _ in range(400)))
PY
mlx add data/offers data/words >/dev/null 2>&1
mlx commit -m more >/dev/null
config() { # NAME DATASET DATA-KEYS MODEL-KEYS
  printf '%s\n' '[data]' "dataset = \"data/$2\"" "$3" '[model]' "name = \"$1\"" "$4" '[train]' 'epochs = 2' 'batch = 20' >"$1.toml"
  mlx train -c "$1.toml" >/dev/null 2>"$work/train.err" || fail "no training of $1: $(cat "$work/train.err")"
}
config price offers 'target = ["price", "rent"]' $'family = "mlp"\nhidden = [8]'
config gpt words 'tokenizer = "bytes"' $'family = "gpt2"\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 32'
start clf@v1 price@v1 gpt old=clf@v1 --listen 127.0.0.1:0
url=$(jq -r .url "$work/ready.json")
same "$(jq -c '[.model, (.models[] | .model + " " + (.infer // .generate | sub("http://[^/]*"; "")))]' "$work/ready.json")" \
  '["clf","clf /v2/models/clf/infer","price /v2/models/price/infer","gpt /v2/models/gpt/generate","old /v2/models/old/infer"]'
has "$(cat "$work/serve.err")" "serving price@v1 at $url  (POST $url/v2/models/price/infer)"
ask() { # PATH BODY: the answer's body, whatever its status
  curl -sS --max-time 20 -H 'Content-Type: application/json' --data-binary "$2" "$url$1"
}
same "$(curl -sS -X POST "$url/v2/repository/index" | jq -c '[.[] | .name + " " + .state]')" \
  '["clf READY","price READY","gpt READY","old READY"]'
# Rows: the same bits, whatever the form.
printf '{"rooms":2,"city":"Köln, Süd"}\n{"rooms":7.5,"city":"Rome"}\n' >asked.jsonl
predicted=$(mlx predict price asked.jsonl --json | jq -c '[.predictions[].values]')
columns='{"id":"3","inputs":[
  {"name":"city","datatype":"BYTES","shape":[2,1],"data":[["Köln, Süd"],["Rome"]]},
  {"name":"rooms","datatype":"FP64","shape":[2],"data":[2,7.5]}]}'
for body in "$columns" "{\"rows\": $(jq -sc . asked.jsonl)}"; do
  same "$(ask /v2/models/price/infer "$body" |
    jq -c '.outputs | map({(.name): .data}) | add | [[.price, .rent] | transpose[] | {price: .[0], rent: .[1]}]')" "$predicted"
done
# Text: that of mlx predict, whole and as events.
text=$(mlx predict gpt --prompt 'mill k' --max-tokens 60 --temperature 1.2 --top-k 20 --top-p 0.9 --seed 4 --json -q | jq .texts[0].text)
body='{"text_input":"mill k","parameters":{"max_tokens":60,"temperature":1.2,"top_k":20,"top_p":0.9,"seed":4}}'
same "$(ask /v2/models/gpt/generate "$body" | jq .text_output)" "$text"
curl -sSN --max-time 20 -D "$work/head" -H 'Content-Type: application/json' -d "$body" "$url/v2/models/gpt/generate_stream" >"$work/events"
grep -qi '^content-type: text/event-stream' "$work/head" || fail "no event stream: $(cat "$work/head")"
same "$(sed -n 's/^data: //p' "$work/events" | jq -s 'map(.text_output) | add')" "$text"
events() { grep -c '^data: {"model_name"' "$work/events" || true; }
[ "$(events)" -ge 60 ] || fail "$(events) events for 60 tokens"
# What is wrong with a request is said, with its place.
has "$(ask /v2/models/price/infer '{"rows":[{"rooms":"two","city":"Ulm"}]}')" "the request: row 1: column 'rooms': 'two' is not a number"
has "$(ask /v2/models/gpt/generate '{"text_input":"a","parameters":{"top_p":2}}')" "'top_p': expected a number above 0 and at most 1, got 2"
has "$(ask /v2/models/gpt/infer '{}')" "POST /v2/models/gpt/generate asks it"
has "$(ask /v2/models/nope/infer '{}')" "this server has 'clf', version 1; 'price', version 1"
# A client that leaves ends its text. bug: a signal cut off the text that was being generated.
code=0
curl -sSN --max-time 0.5 -H 'Content-Type: application/json' -d '{"text_input":"a","parameters":{"max_tokens":16777216}}' \
  "$url/v2/models/gpt/generate_stream" >/dev/null 2>&1 || code=$?
same "$code" 28
same "$(ask /v2/models/gpt/generate '{"text_input":"a","parameters":{"max_tokens":2}}' | jq -r .details.finish_reason)" length
rm "$work/events"
curl -sSN --max-time 20 -H 'Content-Type: application/json' -d '{"text_input":"a","parameters":{"max_tokens":4000}}' \
  "$url/v2/models/gpt/generate_stream" >"$work/events" &
client=$!
for _ in $(seq 400); do
  [ ! -s "$work/events" ] || break
  sleep 0.02
done
# bug: a signal also refused the rows of a request that had begun to arrive.
python3 - "$url" "$work" <<'PY' &
import os, socket, sys, time
url, work = sys.argv[1:]
host, port = url.removeprefix("http://").split(":")
body = b'{"rows":[{"rooms":2,"city":"Rome"}]}'
head = f"POST /v2/models/price/infer HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
connection = socket.create_connection((host, int(port)), timeout=20)
connection.sendall(head.encode() + body[:9])
time.sleep(0.1)
open(work + "/half", "w").close()
while not os.path.exists(work + "/rest"): time.sleep(0.02)
connection.sendall(body[9:])
open(work + "/answer", "wb").write(connection.recv(65536))
PY
late=$!
for _ in $(seq 400); do
  [ ! -e "$work/half" ] || break
  sleep 0.02
done
kill -TERM "$server"
sleep 0.3
touch "$work/rest"
wait "$late"
has "$(head -n 1 "$work/answer")" " 200 "
wait "$client" || fail "the text was cut off: $(tail -n 2 "$work/events")"
[ "$(events)" -ge 4000 ] || fail "$(events) events for 4000 tokens: $(tail -n 2 "$work/events")"
wait "$server" || fail "ended with $?"
server=""

# OpenAI's interface, and others' that chats speak, for a model with a chat template, by its alias.
python3 "$here/chat_folder.py" theirs/lm
mlx import model theirs/lm >/dev/null 2>&1
mlx promote lm@v1 production >/dev/null 2>&1
start lm@production --listen 127.0.0.1:0
url=$(jq -r .url "$work/ready.json")
same "$(curl -sS "$url/v1/models" | jq -r '.data[].id')" lm@production
text=$(mlx predict lm --prompt 'mill k' --max-tokens 20 --temperature 0.7 --seed 4 --logit-bias 256=-100 --json -q | jq .texts[0].text)
body='{"model":"lm@production","prompt":"mill k","max_tokens":20,"temperature":0.7,"seed":4,"logit_bias":{"256":-100}}'
same "$(ask /v1/completions "$body" | jq '.choices[0].text')" "$text"
chat='{"model":"lm","messages":[{"role":"user","content":"Hi"}],"max_tokens":200,"seed":4,"tools":[{"type":"function","function":
  {"name":"f","parameters":{"type":"object","properties":{"a":{"enum":["b","c"]}},"required":["a"],"additionalProperties":false}}}]}'
same "$(ask /v1/chat/completions "$(jq -c '.tool_choice = "required"' <<<"$chat")" |
  jq -c '.choices[0] | [.finish_reason, .message.tool_calls[0].function.name, (.message.tool_calls[0].function.arguments | fromjson | keys)]')" \
  '["tool_calls","f",["a"]]'
events=$(ask /v1/chat/completions "$(jq -c '.stream = true | .stream_options.include_usage = true | .max_tokens = 5' <<<"$chat")" | sed -n 's/^data: //p')
same "$(tail -n 1 <<<"$events")" "[DONE]"
same "$(head -n -1 <<<"$events" | jq -sr '[.[].choices[]?.delta.content // ""] | add')" \
  "$(ask /v1/chat/completions "$(jq -c '.max_tokens = 5' <<<"$chat")" | jq -r '.choices[0].message.content')"
# The second turn of a chat does not compute the first again.
long=$(printf 'stone %.0s' {1..40})
turns=$(jq -c --arg text "$long" '.messages = [{role: "user", content: $text}] | del(.tools)' <<<"$chat")
answer=$(ask /v1/chat/completions "$turns" | jq -c '.choices[0].message')
same "$(ask /v1/chat/completions "$(jq -c --argjson answer "$answer" '.messages += [$answer, {role: "user", content: "And?"}]' <<<"$turns")" |
  jq '.usage.prompt_tokens_details.cached_tokens >= 128')" true
same "$(ask /v1/embeddings '{"input":["one","two"]}' | jq -c '[.data[].embedding | map(. * .) | add | . * 1000 | round]')" '[1000,1000]'
same "$(ask /v1/messages '{"max_tokens":4,"messages":[{"role":"user","content":"Hi"}]}' | jq -r .type)" message
same "$(ask /api/chat '{"messages":[{"role":"user","content":"Hi"}],"stream":false,"options":{"num_predict":4}}' | jq .done)" true
same "$(ask /api/chat '{"messages":[]}' | jq -c '[.done, .done_reason, .message.content]')" '[true,"load",""]'
same "$(ask /api/generate '{"model":"lm","keep_alive":0}' | jq -c '[.done, .done_reason, .response]')" '[true,"unload",""]'
same "$(ask /v1/chat/completions '{"model":"no","messages":[]}' | jq -r '.error.message | startswith("\u0027messages\u0027")')" true
same "$(ask /v1/completions '{"model":"no","prompt":"a"}' | jq -r .error.code)" model_not_found
# All choices of a client that leaves end at once.
code=0
curl -sSN --max-time 0.3 -H 'Content-Type: application/json' -d '{"prompt":"a","n":16,"max_tokens":1000,"stream":true,"logit_bias":{"256":-100}}' \
  "$url/v1/completions" >/dev/null 2>&1 || code=$?
same "$code" 28
same "$(ask /v1/completions '{"prompt":"a","max_tokens":1}' | jq -r '.usage.completion_tokens')" 1
kill -TERM "$server"
wait "$server" || fail "ended with $?"
server=""

error 2 "would both be served as 'clf'" mlx serve clf price clf@v1
error 2 "expected MODEL or NAME=MODEL" mlx serve clf new=
error 3 "clg" mlx serve clf clg
error 3 "clg" mlx serve clg
error 2 "is a dataset" mlx serve data/bars
for address in 8080 127.0.0.1 127.0.0.1:x 127.0.0.1:65536 ::1:80 :80; do
  error 2 "expected HOST:PORT" mlx serve clf --listen "$address"
done
error 2 "--max-batch" mlx serve clf --max-batch 0
error 2 "no.such.host.invalid" mlx serve clf --listen no.such.host.invalid:0 --insecure
