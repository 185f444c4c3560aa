# What texts of a language model may be asked for, through the real binary: log probabilities, grammars and JSON schemas,
# speculation, in `mlx predict` and from a server.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

mkdir -p data/notes
for i in $(seq 300); do printf '{"name": "no %s", "size": %s}\n' "$i" "$i"; done >data/notes/train.txt
cat >lm.toml <<'TOML'
[data]
dataset = "data/notes"
tokenizer = "bytes"
[model]
name = "lm"
family = "llama"
layers = 2
width = 48
heads = 2
context = 128
[train]
epochs = 10
batch = 4
optimizer = "adamw"
learning_rate = 0.01
TOML
sed 's/"lm"/"small"/; s/^width.*/width = 16/; s/^layers.*/layers = 1/' lm.toml >small.toml
mlx init >/dev/null 2>&1
mlx add data/notes >/dev/null 2>&1
mlx commit -m notes >/dev/null
for name in lm small; do mlx train -c $name.toml >/dev/null 2>"$work/train.err" || fail "$(cat "$work/train.err")"; done

# Log probabilities: of each token, before temperature, the same alone and together.
expect 0 mlx predict lm -p '{"name"' --max-tokens 12 --temperature 3 --logprobs 2 --json -q
same "$(json "[len(d['texts'][0]['logprobs']), {len(p['top']) for p in d['texts'][0]['logprobs']}]")" "[12, {2}]"
same "$(json "[p['token'] for p in d['texts'][0]['logprobs']] == d['texts'][0]['tokens']")" True
same "$(json "all(p['top'][0]['logprob'] >= max(p['top'][1]['logprob'], p['logprob']) and p['top'][0]['logprob'] <= 0 for p in d['texts'][0]['logprobs'])")" True
export MLX_KERNELS=ref # texts of one command are generated together
expect 0 mlx predict lm -p '{"name"' --max-tokens 12 --count 3 --logprobs 3 --json -q
together=$(json "d['texts'][0]")
expect 0 mlx predict lm -p '{"name"' --max-tokens 12 --logprobs 3 --json -q
same "$(json "d['texts'][0]")" "$together"
unset MLX_KERNELS
error 2 "--logprobs: expected an integer from 0 to 100, got 101" mlx predict lm -p x --logprobs 101 --json
error 2 "--logprobs: expected an integer from 0 to 100, got -1" mlx predict lm -p x --logprobs -1 --json
error 2 "printed with --json only" mlx predict lm -p x --logprobs 1

# Grammars: hot texts are of the grammar all the same, and end where it does.
cat >color.gbnf <<'GBNF'
# A colour.
root ::= "rgb(" number ("," ws number){2} ")"
number ::= [0-9] | [1-9] [0-9]{1,2}
ws ::= " "?
GBNF
for seed in 1 2 3; do
  expect 0 mlx predict lm -p x --grammar color.gbnf --temperature 5 --seed $seed -q
  [[ $out =~ ^rgb\([0-9]+,\ ?[0-9]+,\ ?[0-9]+\)$ ]] || fail "not of the grammar: $out"
done
expect 0 mlx predict lm -p x --grammar 'root ::= "yes" | "no"' --json -q
same "$(json "[d['texts'][0]['text'] in ('yes', 'no'), d['texts'][0]['end']]")" "[True, 'grammar']"
expect 0 mlx predict lm -p x --grammar 'root ::= "abcdef"' --max-tokens 3 --json -q
same "$(json "[d['texts'][0]['text'], d['texts'][0]['end']]")" "['abc', 'length']"
cat >note.json <<'JSON'
{"type": "object", "required": ["name", "tags"], "properties": {
  "name": {"type": "string", "maxLength": 8}, "size": {"type": "integer", "minimum": 1, "maximum": 30},
  "tags": {"type": "array", "items": {"enum": ["a", "\u00e4", 1]}, "maxItems": 3}}}
JSON
for seed in 1 2 3 4; do
  expect 0 mlx predict lm -p '' --schema note.json --temperature 2 --seed $seed --json -q
  same "$(json "d['texts'][0]['end']")" grammar
  same "$(json "(lambda v: set(v) <= {'name', 'size', 'tags'} and len(v['name']) <= 8 and 1 <= v.get('size', 1) <= 30 and len(v['tags']) <= 3)(json.loads(d['texts'][0]['text']))")" True
done
MLX_KERNELS=ref expect 0 mlx predict lm -p '' --schema note.json --temperature 2 --count 4 --json -q
same "$(json "[t['end'] for t in d['texts']], len({t['text'] for t in d['texts']}) > 1")" "(['grammar', 'grammar', 'grammar', 'grammar'], True)"
expect 0 mlx predict lm -p '' --schema '{}' --max-tokens 2000 --json -q
same "$(json "d['texts'][0]['end'] == 'length' or json.loads(d['texts'][0]['text']) is not d")" True
error 3 "missing.gbnf" mlx predict lm -p x --grammar missing.gbnf
printf 'root ::= "a"\nb ::= [' >bad.gbnf
error 2 "bad.gbnf:2: a missing ]" mlx predict lm -p x --grammar bad.gbnf
error 2 "left-recursive" mlx predict lm -p x --grammar 'root ::= root "a" | "b"'
error 2 "--schema: /: 'not' is not supported" mlx predict lm -p x --schema '{"not": {}}'
error 2 "say one of them" mlx predict lm -p x --schema '{}' --grammar color.gbnf
error 2 "leave out --grammar" mlx predict lm --tokens 1 --logits out.npy --schema '{}'

# Speculation: the same text, in fewer passes where it repeats itself.
prompt=$(for _ in 1 2 3; do printf '{"name": "no 7", "size": 7}\n'; done)
export MLX_KERNELS=ref
for options in "--temperature 0" "--temperature 1 --seed 4 --repetition-penalty 1.05 --logprobs 1"; do
  # shellcheck disable=SC2086
  expect 0 mlx predict lm -p "$prompt" --max-tokens 120 $options --json -q
  plain=$(json "d['texts']")
  for how in "--speculate ngram" "--speculate ngram:8" "--draft small" "--draft lm"; do
    # shellcheck disable=SC2086
    expect 0 mlx predict lm -p "$prompt" --max-tokens 120 $options $how --json -q
    same "$(json "d['texts']")" "$plain"
    same "$(json "0 <= d['speed']['accepted'] <= d['speed']['proposed']")" True
    [[ $how == --draft* ]] || same "$(json "d['speed']['accepted'] > 5")" True
  done
done
expect 0 mlx predict lm -p "$prompt" --max-tokens 120 --temperature 0 --speculate ngram
has "$err" "proposed tokens were right"
error 2 "expected ngram, or ngram:N with N from 2 to 16" mlx predict lm -p x --speculate ngram:1
error 2 "say one of them" mlx predict lm -p x --speculate ngram --draft small
error 3 "nothing" mlx predict lm -p x --draft nothing
sed 's/"lm"/"letters"/; s/"bytes"/"chars"/; s/^epochs.*/epochs = 1/' lm.toml >letters.toml
mlx train -c letters.toml >/dev/null 2>&1
error 2 "--draft letters@v1: it knows" mlx predict lm -p x --draft letters

# Keys and values in fewer bytes: a text alone is the one beside others, and the one that speculates; a prompt in one piece
# gives nearly the same logits.
for cache in f32:4 f16:2 q8:1.0833333; do  # bytes a number; 24 of a head and a scale in q8
  expect 0 mlx predict lm -p "$prompt" --max-tokens 20 --temperature 1 --cache ${cache%:*} --json -q
  text=$(json "d['texts'][0]")
  same "$(json "round(d['speed']['cache_bytes'] / (2 * 2 * 48 * 128 * ${cache#*:}), 6)")" "$(json "float(round(d['speed']['cache_bytes'] / (2 * 2 * 48 * 128 * ${cache#*:})))")"
  expect 0 mlx predict lm -p "$prompt" --max-tokens 20 --temperature 1 --cache ${cache%:*} --count 3 --json -q
  same "$(json "d['texts'][0]")" "$text"
  expect 0 mlx predict lm -p "$prompt" --max-tokens 20 --temperature 1 --cache ${cache%:*} --speculate ngram --json -q
  same "$(json "d['texts'][0]")" "$text"
  expect 0 mlx predict lm -p "$prompt" --logits ${cache%:*}.npy --cache ${cache%:*}
  MLX_KERNELS= expect 0 mlx predict lm -p "$prompt" --max-tokens 5 --cache ${cache%:*}
  has "$err" "keys and values in ${cache%:*}: "
done
python3 - <<'PY' || fail "other logits"
import struct, sys
def read(path):
    data = open(path, "rb").read()[128:]
    return struct.unpack(f"<{len(data) // 4}f", data)
exact = read("f32.npy")
for name, most in (("f16", 0.01), ("q8", 0.2)):
    off = max(abs(a - b) for a, b in zip(read(name + ".npy"), exact, strict=True)) / max(map(abs, exact))
    if not 0 < off < most:
        sys.exit(f"{name}: off by {off}")
PY
error 2 "--cache" mlx predict lm -p x --cache q4

# A server: the same parameters, and reasons where they are wrong.
expect 0 mlx predict lm -p "$prompt" --max-tokens 100 --temperature 0 --cache f16 --json -q
json "d['texts'][0]['text']" >expected.txt
printf '%s' "$prompt" >prompt.txt
"$mlx_binary" serve lm --listen 127.0.0.1:0 --speculate ngram --cache f16 --json >ready.json 2>serve.err &
server=$!
trap '[ -z "${server:-}" ] || kill -9 "$server" 2>/dev/null || true; cleanup' EXIT
for _ in $(seq 200); do python3 -c 'import json; json.load(open("ready.json"))' 2>/dev/null && break; sleep 0.05; done
python3 - <<'PY' || fail "the server did not answer as it should: $(cat serve.err)"
import json, math, urllib.error, urllib.request
ready = json.load(open("ready.json"))
url = ready["generate"]
assert ready["cache"] == {"type": "f16", "bytes_per_token": 2 * 2 * 48 * 2}, ready

def ask(prompt, **parameters):
    body = json.dumps({"text_input": prompt, "parameters": parameters}).encode()
    return json.load(urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})))

def refused(why, **parameters):
    try:
        ask("x", **parameters)
    except urllib.error.HTTPError as error:
        text = json.load(error)["error"]
        assert error.code == 400 and why in text, text
        return
    raise SystemExit(f"not refused: {parameters}")

assert ask(open("prompt.txt").read(), max_tokens=100, temperature=0)["text_output"] + "\n" == open("expected.txt").read()
metrics = urllib.request.urlopen(url.split("/v2/")[0] + "/metrics").read().decode()
counts = {line.split("{")[0]: float(line.split()[-1]) for line in metrics.splitlines() if "_tokens_total{" in line}
assert counts["mlx_proposed_tokens_total"] >= counts["mlx_accepted_tokens_total"] > 5, counts
answer = ask("x", grammar='root ::= "yes" | "no"', temperature=2)
assert answer["text_output"] in ("yes", "no") and answer["details"]["finish_reason"] == "eos_token", answer
schema = json.load(open("note.json"))
for parameters in ({"json_schema": schema}, {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}):
    value = json.loads(ask("", temperature=2, **parameters)["text_output"])
    assert set(value) <= {"name", "size", "tags"} and "name" in value, value
assert "details" in ask("x", response_format={"type": "text"}, max_tokens=3)
text = ask("", response_format={"type": "json_object"}, max_tokens=400)
assert text["text_output"].startswith("{"), text
assert text["details"]["finish_reason"] == "length" or isinstance(json.loads(text["text_output"]), dict), text
answer = ask('{"name"', logprobs=2, max_tokens=5, temperature=0)
content = answer["details"]["logprobs"]["content"]
assert len(content) == 5 and all(len(each["top_logprobs"]) == 2 for each in content), content
assert b"".join(bytes(each["bytes"]) for each in content).decode() == answer["text_output"], answer
assert all(each["logprob"] == each["top_logprobs"][0]["logprob"] <= 0 for each in content), content
body = json.dumps({"text_input": '{"name"', "parameters": {"logprobs": 1, "max_tokens": 5, "temperature": 0}}).encode()
events = urllib.request.urlopen(urllib.request.Request(url + "_stream", body, {"Content-Type": "application/json"})).read().decode().split("\n\n")[:-1]
streamed = [json.loads(event[6:])["details"]["logprobs"]["content"] for event in events]
assert [one[0]["logprob"] for one in streamed] == [each["logprob"] for each in content], streamed
refused("parameter 'grammar':1: there is no", grammar="root ::= \"\\q\"")
refused("'json_schema': /: 'not' is not supported", json_schema={"not": {}})
refused("do not go together", json_schema={}, grammar='root ::= "a"')
refused("do not go together", json_schema={}, response_format={"type": "json_object"})
refused("expected a 'type' of text, json_object or json_schema", response_format={"type": "xml"})
refused("there is no 'schema'", response_format={"type": "json_schema"})
refused("'logprobs': expected an integer from 0 to 100", logprobs=101)
PY
kill -TERM "$server"
wait "$server" || fail "ended with $?"
server=""
lacks "$(cat serve.err)" warning
