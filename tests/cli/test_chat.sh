# Conversations with language models, through the real binary: the chat template that a model came with decides what the
# model reads, a line or a list of messages gets an answer, and a template that lies is refused.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

# model_folder NAME [KEY=VALUE...]: a small language model of words, without a template; its answers end with ".".
model_folder() {
  python3 "$here/decoder_folder.py" LlamaForCausalLM "theirs/$1" F32 1 "${@:2}"
  echo '{"bos_token": {"content": "<s>"}, "eos_token": null}' >"theirs/$1/tokenizer_config.json"
  echo '{"eos_token_id": [9]}' >"theirs/$1/generation_config.json"
}
template='{{ bos_token }}
{%- for m in messages %}
  {%- if m.role == "user" %} by {{ m.content | trim }}{% elif m.role == "assistant" %} turns {{ m.content | trim }}{% else %} the {{ m["content"] }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %} turns{% endif %}'
mlx init >/dev/null 2>&1
model_folder plain
model_folder lm
printf '%s\n' "$template" >theirs/lm/chat_template.jinja
model_folder old
python3 - "$template" <<'PY'
import json, sys
config = json.load(open("theirs/old/tokenizer_config.json"))
config["chat_template"] = [{"name": "tool_use", "template": "{{ tools }}"}, {"name": "default", "template": sys.argv[1]}]
json.dump(config, open("theirs/old/tokenizer_config.json", "w"))
PY
for name in plain lm old; do expect 0 mlx import model "theirs/$name"; done

# One answer to messages out of a pipe, a file, or the command line.
messages='[{"role": "system", "content": "mill"}, {"role": "user", "content": " old stone\n"}]'
chat() { mlx predict lm --chat --temperature 0 --max-tokens 4 --logit-bias 9=-100 "$@"; }
echo "$messages" | chat --json >pipe.json
out=$(cat pipe.json)
same "$(json "d['kind'], d['prompt'], d['speed']['prompt_tokens']")" "('chat', '<s> the mill by old stone turns', 7)"
same "$(json "d['message']['role'], d['message']['content'] == d['texts'][0]['text'], len(d['texts'][0]['tokens']), d['texts'][0]['end']")" \
  "('assistant', True, 4, 'length')"
answer=$(json "d['message']['content']")
echo "$messages" >messages.json
same "$(chat messages.json)" "$answer"
same "$(chat - <messages.json)" "$answer"
same "$(chat --system mill -p ' old stone ')" "$answer"
same "$(mlx predict old --chat --temperature 0 --max-tokens 4 --logit-bias 9=-100 messages.json)" "$answer"
expect 0 mlx predict lm --tokens "0 2 3 8 4 7" --temperature 0 --max-tokens 0 --json # the words of the prompt, but for one

# The token that generation_config.json names ends an answer, and is no part of it.
expect 0 mlx predict lm --chat -p "old stone" --logit-bias 9=100 --json
same "$(json "d['texts']")" "[{'text': '', 'tokens': [], 'end': 'stop'}]"

# A line of a pipe is a message, and what was said before is read again; an empty line ends it.
printf 'river\nold stone\n\nmill\n' | chat >lines
same "$(wc -l <lines)" 2
first=$(sed -n 1p lines)
printf '[{"role":"user","content":"river"},{"role":"assistant","content":"%s"},{"role":"user","content":"old stone"}]' "$first" >history.json
same "$(sed -n 2p lines)" "$(chat history.json)"
same "$(printf 'river' | chat)" "$first"
same "$(chat </dev/null)" ""

# The name of a special token is that token, whoever wrote it.
expect 0 mlx predict lm --chat -p "<s> river" --json --max-tokens 1
same "$(json "d['speed']['prompt_tokens']")" 5

# A terminal shows a prompt; Ctrl-C ends an answer, and the conversation goes on.
model_folder long max_position_embeddings=200000
cp theirs/lm/chat_template.jinja theirs/long
expect 0 mlx import model theirs/long
python3 - "$mlx_binary" <<'PY' || fail "in a terminal"
import os, pty, re, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], ["mlx", "predict", "long", "--chat", "--max-tokens", "190000", "--logit-bias", "9=-100"])
seen, read = b"", 0
def until(pattern, seconds=60):
    global seen, read
    end = time.time() + seconds
    while not (found := re.search(pattern, seen[read:])):
        if time.time() > end or not select.select([fd], [], [], end - time.time())[0]:
            sys.exit(f"no {pattern} in {seen[-300:]}")
        seen += os.read(fd, 65536)
    read += found.end()
for message in (b"river\n", b"old stone\n"):
    until(rb"> $")
    os.write(fd, message)
    until(rb"\n(\S+ ?){3}")
    os.write(fd, b"\x03")
until(rb"> $")
os.write(fd, b"\n")
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(f"exit {status}" if status else 0)
PY

# Weights in groups keep the template; so does a GGUF file, with the tokens that begin and end.
WIDTH=32 HEAD=8 HIDDEN=64 model_folder wide
cp theirs/lm/chat_template.jinja theirs/wide
expect 0 mlx import model theirs/wide
expect 0 mlx quantize wide --to int8 --group 32
expect 0 mlx predict wide --chat messages.json --max-tokens 1 --json
same "$(json "d['prompt']")" "<s> the mill by old stone turns"
python3 "$here/gguf_file.py" theirs/lm lm.gguf F32
expect 0 mlx import model lm.gguf --name file
same "$(mlx cat file:generation_config.json)" '{"bos_token_id":1,"unk_token_id":0}'
expect 0 mlx predict file --chat messages.json --max-tokens 1 --json
has "$(json "d['prompt']")" "{'role': 'user', 'content': ' old stone\\n'}"

# What does not fit is refused, in words.
error 2 "plain@v1 has no chat template" mlx predict plain --chat -p river
error 2 "--chat and --tokens do not go together" mlx predict lm --chat --tokens 1
error 2 "--chat and --out do not go together" mlx predict lm --chat -p river --out x.csv
error 2 "--system is for --chat" mlx predict lm --system mill -p river
error 2 "both what the model answers" mlx predict lm --chat messages.json -p river
error 3 "--prompt TEXT" mlx predict lm --chat "old stone"
error 2 "message of the role system" mlx predict lm --chat messages.json --system mill
error 2 "--temperature: expected" mlx predict lm --chat -p river --temperature -1
error 2 "not UTF-8" mlx predict lm --chat -p $'\xff'
error 3 "none.json" mlx predict lm --chat none.json
for bad in '{' '{}' '[]' '[1]' '[{"content": "river"}]' '[{"role": "user"}]' '[{"role": 1, "content": "river"}]'; do
  echo "$bad" >bad.json
  error 2 "bad.json" mlx predict lm --chat bad.json
done
long=$(printf 'river %.0s' {1..70})
error 2 "the conversation has 73 tokens, the model's context 64" mlx predict lm --chat -p "$long"

# A template that refuses, is none, is not supported or does not end: an error that names it and its line.
refused() {
  local text=$1 template=$2
  rm -rf theirs/bad && cp -r theirs/plain theirs/bad
  printf '%s' "$template" >theirs/bad/chat_template.jinja
  expect 0 mlx import model theirs/bad --name bad
  error "${3:-2}" "the chat template, line $text" mlx predict bad --chat -p river
}
refused "2: roles must alternate" $'\n{{ raise_exception("roles must alternate") }}'
refused "1: the statement 'include' is not supported" '{% include "/etc/passwd" %}'
refused "2: expected {% endfor %}" $'\n{% for m in messages %}' 6
refused "1: the template takes too long" '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}'
refused "1: '__class__' is undefined" '{{ messages.__class__.__mro__ }}'
