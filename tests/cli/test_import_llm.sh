# Language models out of folders that `transformers` writes, through the real binary: they give the logits that
# `transformers` gave for the same weights, keep what they came with, answer and serve, and a folder that is not whole
# changes nothing.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

folder() { python3 "$here/decoder_folder.py" "$@"; }
mlx init >/dev/null 2>&1
# near MODEL LOGITS: the logits behind the last of these tokens.
near() {
  expect 0 mlx predict "$1" --tokens "3 1 4 1 5 9 2 6" --logits out.npy
  python3 - "$2" <<'PY' || fail "$1: other logits"
import struct, sys
data = open("out.npy", "rb").read()
start = 10 + int.from_bytes(data[8:10], "little")
assert data[:8] == b"\x93NUMPY\x01\0" and b"'<f4'" in data[:start] and b"(8, 11)" in data[:start] and start % 64 == 0, data[:start]
last = struct.unpack("<88f", data[start:])[77:]
wanted = list(map(float, sys.argv[1].split()))
worst = max(abs(a - b) for a, b in zip(last, wanted, strict=True))
sys.exit(f"off by {worst}: {' '.join(f'{x:.5f}' for x in last)}" if not worst < 2e-4 else 0)
PY
}

# Every architecture, all types of weights, one file and shards.
declare -A logits=(
  [gpt2]="-1.50075 -0.11056 -0.60043 0.99582 1.39309 1.44254 -0.20740 -1.21269 -1.17611 -2.03110 -0.19613"
  [llama]="2.41763 -0.43382 -0.57852 0.40185 0.69843 2.40358 2.37712 0.60982 1.68075 1.85794 -0.33816"
  [llama16]="2.39705 -0.42977 -0.58293 0.38347 0.70293 2.39636 2.36402 0.60600 1.66561 1.83938 -0.33324"
  [mistral]="0.59899 -0.74185 -0.74551 1.55770 2.08415 1.95472 2.41572 0.86175 -0.11251 0.08852 -0.58026"
  [qwen3]="1.27774 -0.14665 -1.88056 1.11105 2.33487 1.13135 2.14176 1.21726 -0.21493 0.73196 -0.09881"
  [phi3]="2.27985 0.51165 0.12364 0.98595 -0.06723 0.18993 1.74290 2.05157 2.22600 1.88531 -0.11985"
  [gemma2]="-1.64220 1.92330 -1.40144 0.26912 -0.53488 -0.37263 -1.11355 -1.42589 1.98720 -1.75575 1.97342"
  [gemma3]="-0.06375 2.32015 -2.93136 2.61098 -3.96719 -0.84688 -0.25671 0.44599 -1.13177 1.24664 2.13462"
  [qwen2]="-3.00059 0.87846 -1.80356 -2.37209 -0.57283 -2.18118 -2.74340 -0.74387 -2.83858 -5.35476 0.41649"
)
folder GPT2LMHeadModel theirs/gpt2
folder LlamaForCausalLM theirs/llama
folder LlamaForCausalLM theirs/llama16 BF16 3
folder MistralForCausalLM theirs/mistral F16
folder Qwen2ForCausalLM theirs/qwen2 F32 2
folder Qwen3ForCausalLM theirs/qwen3
folder Phi3ForCausalLM theirs/phi3
folder Gemma2ForCausalLM theirs/gemma2 F32 2
folder Gemma3ForCausalLM theirs/gemma3
expect 0 mlx import model theirs/llama -n
has "$out" "llama  LlamaForCausalLM, 25 operations, 15 tensors  would be imported"
error 3 "llama" mlx show llama
for name in gpt2 llama llama16 mistral qwen2 qwen3 phi3 gemma2 gemma3; do
  expect 0 mlx import model "theirs/$name" --json
  same "$(json "d['model'], d['status']")" "('$name@v1', 'imported')"
  near "$name" "${logits[$name]}"
done
expect 0 mlx import model theirs/llama
has "$out" "unchanged"

# Step by step as all at once, over the ends of windows: a text that went on has the logits of that text, and each token
# was the most likely one. So it is with weights in groups.
for name in Qwen3 Phi3 Gemma2 Gemma3; do
  WIDTH=32 HEAD=8 HIDDEN=64 folder ${name}ForCausalLM "theirs/wide$name" BF16
  expect 0 mlx import model "theirs/wide$name"
  expect 0 mlx quantize "wide$name" --to int8 --group 32
  for model in "wide$name@v1" "wide$name"; do
    expect 0 mlx predict "$model" --tokens "3 1 4" --max-tokens 9 --temperature 0 --json
    went_on=$(json "' '.join(map(str, d['texts'][0]['tokens']))")
    expect 0 mlx predict "$model" --tokens "3 1 4 $went_on" --logits out.npy
    python3 - "3 1 4 $went_on" <<'PY' || fail "$model: other tokens"
import struct, sys
tokens = list(map(int, sys.argv[1].split()))
data = open("out.npy", "rb").read()
logits = struct.unpack(f"<{11 * len(tokens)}f", data[10 + int.from_bytes(data[8:10], "little"):])
best = [max(range(11), key=logits[11 * i:11 * i + 11].__getitem__) for i in range(2, len(tokens) - 1)]
sys.exit(f"{tokens[3:]} instead of {best}" if best != tokens[3:] or len(tokens) < 4 else 0)
PY
  done
done

# Weights as they came, and what came with them.
types() { mlx cat "$1:weights.safetensors" | python3 -c '
import json, sys
data = sys.stdin.buffer.read()
print(*sorted({t["dtype"] for t in json.loads(data[8:8 + int.from_bytes(data[:8], "little")]).values()}))'; }
same "$(types llama) $(types llama16) $(types mistral)" "F32 BF16 F16"
# bug: weights in half precision counted as f32, and were more than the version holds.
expect 0 mlx show llama --json
bytes=$(json "d['totals']['weight_bytes']")
expect 0 mlx show llama16 --json
same "$(json "2 * d['totals']['weight_bytes'], d['totals']['activation_bytes'] > 0")" "($bytes, True)"
for file in config.json generation_config.json tokenizer_config.json tokenizer.json; do
  mlx cat "llama16:$file" | cmp - "theirs/llama16/$file" || fail "$file was not kept"
done
# A checkout is the same version: outside of the repository, and brought back.
mlx checkout llama16 --to back >/dev/null 2>&1
expect 0 mlx import model back --name llama16
has "$out" "unchanged"
near ./back "${logits[llama16]}"

# Text: the prompt begins with the tokenizer's <s>, and tokens are the same prompt.
expect 0 mlx predict llama -p "the old mill" --temperature 0 --max-tokens 5 --json
text=$(json "d['texts'][0]['tokens']")
expect 0 mlx predict llama --tokens "0, 2 8 3" --temperature 0 --max-tokens 5 --json
same "$(json "d['texts'][0]['tokens']")" "$text"
rm theirs/mistral/tokenizer.json
expect 0 mlx import model theirs/mistral --name bare
has "$err" "no tokenizer.json, no tokenizer.model and no vocabulary"
error 2 "bare@v1 has no tokenizer" mlx predict bare -p text
expect 0 mlx predict bare --tokens "1 2" --max-tokens 3 --temperature 0
[[ $out =~ ^([0-9]+\ ){3}$ ]] || fail "expected three tokens: $out"

# vocab.json and merges.txt: the version has a tokenizer.json, which goes out again.
folder GPT2LMHeadModel theirs/pairs
rm theirs/pairs/tokenizer.json
echo '{"<|endoftext|>": 0, "o": 1, "l": 2, "d": 3, "Ġ": 4, "ol": 5, "old": 6, "Ġold": 7}' >theirs/pairs/vocab.json
printf '#version: 0.2\no l\nol d\nĠ old\n' >theirs/pairs/merges.txt
echo '{"<extra>": 8}' >theirs/pairs/added_tokens.json
expect 0 mlx import model theirs/pairs
same "$(printf 'old old<extra>d<|endoftext|>' | mlx tokenizer encode pairs 2>/dev/null)" "6 7 8 3 0"
expect 0 mlx predict pairs -p "old old" --temperature 0 --max-tokens 3 --json
expect 0 mlx export model pairs --format hf --out pairs-out
mlx cat pairs:tokenizer.json | cmp - pairs-out/tokenizer.json || fail "another tokenizer.json went out"
echo '{"<extra>": 9}' >theirs/pairs/added_tokens.json
error 6 "added_tokens.json: '<extra>' has the number 9, in the vocabulary it is 8" mlx import model theirs/pairs
echo '{"a": 8, "b": 9, "c": 10, "d e": 11}' >theirs/pairs/added_tokens.json
error 6 "the vocabulary: 12 tokens, config.json says 11" mlx import model theirs/pairs
rm theirs/pairs/merges.txt
error 3 "vocab.json: there is no merges.txt beside it" mlx import model theirs/pairs

# Evaluation reads text with its tokenizer.
mkdir -p data/words
printf 'the old mill turns by the river . stone %.0s' {1..40} >data/words/test.txt
mlx add data/words >/dev/null 2>&1
expect 0 mlx eval llama16 -d data/words -s test --json
same "$(json "d['loss'] > 0, d['unit']")" "(True, 'tokens')"
error 2 "the model has no tokenizer" mlx eval bare -d data/words -s test

# Bad questions.
error 2 "--tokens: '11': expected integers from 0 to 10" mlx predict llama --tokens "1 11"
error 2 "--tokens: 'x'" mlx predict llama --tokens x
error 2 "leave out --prompt" mlx predict llama --tokens 1 -p the
error 2 "leave out --count" mlx predict llama --tokens 1 --logits out.npy --count 2
error 3 "its folder is not there" mlx predict llama --tokens 1 --logits nowhere/out.npy
error 2 "the prompt has 65 tokens, the model takes 64" mlx predict llama --tokens "$(printf '1 %.0s' {1..65})" --logits out.npy

# NaN in weights is imported with a warning.
folder LlamaForCausalLM theirs/nan
printf '\xff\xff\xff\x7f' | dd of=theirs/nan/model.safetensors bs=1 seek=$(($(stat -c %s theirs/nan/model.safetensors) - 4)) conv=notrunc status=none
expect 0 mlx import model theirs/nan
has "$err" "1 of 21 tensors hold NaN or infinity, first 'lm_head.weight'"

# A shorter context, and a sliding window that is no longer than it: then it is none.
folder MistralForCausalLM theirs/window F32 1 sliding_window=16
folder MistralForCausalLM theirs/whole F32 1
expect 0 mlx import model theirs/window
expect 0 mlx import model theirs/whole --context 16
expect 0 mlx import model theirs/window --context 16
mlx cat window:model.json | cmp - <(mlx cat whole:model.json) || fail "a window as long as the context changed the model"
error 2 "the model takes 16" mlx predict window --tokens "$(printf '1 %.0s' {1..17})" --logits out.npy
error 2 "a context of 65 was asked for" mlx import model theirs/window --context 65
error 2 "expected 1 to" mlx import model theirs/window --context=-1
error 2 "--context is for folders with a config.json" mlx import model back --context 16

# Folders that are not whole: one clear error each, and no model.
broken() { # CODE TEXT
  error "$1" "$2" mlx import model theirs/broken
  error 3 "broken" mlx show broken
  rm -rf theirs/broken
}
make() { folder LlamaForCausalLM theirs/broken "$@"; }
make F32 1 'architectures=["MambaForCausalLM"]' && broken 2 'the architecture "MambaForCausalLM" is not supported'
make F32 1 'rope_scaling={"rope_type":"longrope","factor":2}' && broken 2 "rope_type 'longrope' is not supported"
make F32 1 'layer_types=["sliding_attention"]' && broken 6 "'layer_types': expected an array of 2 types"
make F32 1 'quantization_config={"quant_method":"awq"}' && broken 2 'a quantization ("awq") is not supported'
make F32 1 vocab_size=-5 && broken 6 "'vocab_size': expected an integer from 1 to"
make F32 1 vocab_size=9223372036854775807 && broken 6 "'vocab_size': expected an integer from 1 to"
make F32 1 num_hidden_layers= && broken 6 "the key 'num_hidden_layers' is missing"
make F32 1 num_hidden_layers=1000 && broken 6 "is missing"
make F32 1 num_hidden_layers=1 && broken 2 "LlamaForCausalLM has no tensor 'model.layers.1."
make F32 1 intermediate_size=13 && broken 6 "[12,8], config.json says [13,8]"
make F32 1 tie_word_embeddings=true && broken 6 "'lm_head.weight' is not the embedding"
make F32 1 vocab_size=10 && broken 6 "[11,8], config.json says [10,8]"
make F32 1 vocab_size=9 && broken 6 "[11,8], config.json says [9,8]"
make && sed -i 's/"old": 8/"old": 8, "a": 10, "b": 11/' theirs/broken/tokenizer.json && broken 6 "tokenizer.json: 12 tokens, config.json says 11"
make && echo '{"architectures": [' >theirs/broken/config.json && broken 6 "config.json: "
make && head -c 300 theirs/broken/model.safetensors >part && mv part theirs/broken/model.safetensors && broken 6 "model.safetensors: "
make && sed -i '1s/F32/I32/' theirs/broken/model.safetensors && broken 2 "is I32, which is not supported"
make && rm theirs/broken/model.safetensors && broken 3 "no model.safetensors and no model.safetensors.index.json"
make F32 3 && rm theirs/broken/model-00002-* && broken 3 "model-00002-of-00003.safetensors: model.safetensors.index.json names it"
index=theirs/broken/model.safetensors.index.json
make F32 3 && sed -i 's/model-00002/..\/model-00002/' $index && broken 6 "which is no file of the folder"
make F32 3 && sed -i 's/model-00001/model-00003/' $index && broken 6 "is missing, which model.safetensors.index.json says is there"
make F32 3 && echo '{"weight_map": {}}' >$index && broken 6 "0 shards"
make F32 3 && echo '{"weight_map": {"a": 3}}' >$index && broken 6 "expected the name of a file"
make F32 2 && cp theirs/broken/model-00001-of-00002.safetensors theirs/broken/again.safetensors &&
  sed -i 's/"lm_head.weight": "[^"]*"/"lm_head.weight": "again.safetensors"/' $index && broken 6 "again.safetensors too"
make && mv theirs/broken/model.safetensors outside.safetensors && ln -s ../../outside.safetensors theirs/broken/model.safetensors &&
  broken 5 "a symbolic link that leaves the folder"
make && rm theirs/broken/model.safetensors && mkfifo theirs/broken/model.safetensors && broken 6 "model.safetensors"
mkdir theirs/empty
error 3 "not a model's folder: there is no model.json and no config.json" mlx import model theirs/empty

# A chat template that cannot work is told of, and the model is imported.
folder LlamaForCausalLM theirs/template F32 1
printf "{{ messages|groupby('role') }}" >theirs/template/chat_template.jinja
expect 0 mlx import model theirs/template
has "$err" "the chat template, line 1: the filter 'groupby' is not supported"
has "$err" "the model cannot chat"
