# Language models out of GGUF files, through the real binary: in floating point they give the bits of the same model in a folder
# of Hugging Face, quantized ones their integers as they came; they answer and read text; a file that lies changes nothing.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

folder() { python3 "$here/decoder_folder.py" "$@"; }
file() { python3 "$here/gguf_file.py" "$@"; }
logits() { expect 0 mlx predict "$1" --tokens "3 1 4 1 5 9 2 6" --logits "$1.npy"; }
mlx init >/dev/null 2>&1

# The same weights give the same bits, whether they come in a folder or a file.
folder GPT2LMHeadModel theirs/gpt2
folder LlamaForCausalLM theirs/llama F32 1 rope_scaling=
folder LlamaForCausalLM theirs/llama16 BF16 1 rope_scaling=
folder Qwen2ForCausalLM theirs/qwen2 F16
folder Qwen3ForCausalLM theirs/qwen3
folder Phi3ForCausalLM theirs/phi3
folder Gemma2ForCausalLM theirs/gemma2 F32 1 query_pre_attn_scalar=4
folder Gemma3ForCausalLM theirs/gemma3 F32 1 query_pre_attn_scalar=4 layer_types= rope_parameters=
for name in gpt2 llama llama16 qwen2 qwen3 phi3 gemma2 gemma3; do
  rm "theirs/$name/tokenizer.json"
  file "theirs/$name" "$name-file.gguf" F32
  mlx import model "theirs/$name" >/dev/null 2>&1
  expect 0 mlx import model "$name-file.gguf" --json
  same "$(json "d['model'], d['status']")" "('$name-file@v1', 'imported')"
  logits "$name"
  logits "$name-file"
  cmp "$name.npy" "$name-file.npy" || fail "$name: other logits"
  for part in model.json weights.safetensors; do
    same "$(mlx cat "$name:$part" | sha256sum)" "$(mlx cat "$name-file:$part" | sha256sum)"
  done
done
expect 0 mlx import model llama-file.gguf -n --name other
has "$out" "other  LlamaForCausalLM, 25 operations, 15 tensors  would be imported"
error 3 "other" mlx show other
expect 0 mlx import model llama-file.gguf
has "$out" "unchanged"
mlx cat llama-file:chat_template.jinja | cmp - <(printf '{{ messages }}') || fail "the chat template was not kept"

# Integers in groups stay what they are; the numbers that they stand for, in a folder, give nearly the same logits.
near() {
  logits "$1"
  logits "$2"
  python3 - "$1.npy" "$2.npy" "$3" <<'PY' || fail "$1: other logits"
import struct, sys
def read(path):
    data = open(path, "rb").read()
    return struct.unpack("<88f", data[10 + int.from_bytes(data[8:10], "little"):])
ours, wanted = map(read, sys.argv[1:3])
off = max(abs(a - b) for a, b in zip(ours, wanted, strict=True)) / max(map(abs, wanted))
sys.exit(f"off by {off}" if not off < float(sys.argv[3]) else 0)
PY
}
types() { mlx cat "$1:weights.safetensors" | python3 -c '
import json, sys
data = sys.stdin.buffer.read()
print(*sorted({t["dtype"] for t in json.loads(data[8:8 + int.from_bytes(data[:8], "little")]).values()}))'; }
WIDTH=32 HEAD=8 HIDDEN=64 folder LlamaForCausalLM theirs/wide F32 1 rope_scaling=
WIDTH=32 HEAD=8 HIDDEN=64 folder Qwen2ForCausalLM theirs/tied
for model in wide-Q8_0 tied-Q8_0 wide-Q4_0 tied-Q4_0 wide-Q4_1 wide-Q5_0 tied-Q5_1; do
  file "theirs/${model%-*}" "$model.gguf" "${model#*-}"
  expect 0 mlx import model "$model.gguf"
  expect 0 mlx import model "$model.gguf.exact" --name "${model%-*}-exact"
  near "$model" "${model%-*}-exact" 0.03
done
same "$(types wide-Q8_0), $(types wide-Q4_0), $(types tied-Q5_1)" "F16 F32 I8 U8, F16 F32 U8, F32 U8"
expect 0 mlx show wide-Q4_0 --json
same "$(json "d['model']['precision']")" "int4"
expect 0 mlx show wide-Q5_0 --json
same "$(json "d['model']['precision']")" "q5_0"
error 2 "int4" mlx quantize wide-Q4_0 --to int8 --group 32

# A scale that is NaN is imported with a warning.
file theirs/wide nan.gguf Q8_0 @blk.0.ffn_down.weight=byte:1:126
expect 0 mlx import model nan.gguf
has "$err" "1 of 21 tensors hold NaN or infinity, first 'blk.0.ffn_down.weight'"

# Text, with the tokenizer of the file; step by step as all at once.
printf 'ab a<unk>b' >text
expect 0 mlx tokenizer encode wide-Q8_0 text
same "$out" "8 6 0 3 5"
expect 0 mlx predict wide-Q8_0 -p "ab a" --temperature 0 --max-tokens 5 --json
tokens=$(json "d['texts'][0]['tokens']")
expect 0 mlx predict wide-Q8_0 --tokens "1 8 6" --temperature 0 --max-tokens 5 --json
same "$(json "d['texts'][0]['tokens']")" "$tokens"
mkdir -p data/words
printf 'ab a b ab %.0s' {1..40} >data/words/test.txt
mlx add data/words >/dev/null 2>&1
expect 0 mlx eval wide-Q4_0 -d data/words -s test --json
same "$(json "d['loss'] > 0, d['unit']")" "(True, 'tokens')"
file theirs/llama bare.gguf F32 tokenizer.ggml.model=
expect 0 mlx import model bare.gguf --context 16
has "$err" "bare.gguf has no tokenizer: the model takes --tokens, not text"
error 2 "the model takes 16" mlx predict bare --tokens "$(printf '1 %.0s' {1..17})" --logits out.npy

# What is not supported is refused by name, and files that lie are errors. Neither makes a model.
broken() { # CODE TEXT WHAT=VALUE...
  local code=$1 text=$2
  shift 2
  file theirs/wide broken.gguf Q8_0 "$@"
  error "$code" "$text" mlx import model broken.gguf
  local why=$err
  error 3 "broken" mlx show broken
  err=$why
}
broken 2 "the architecture 'mamba' is not supported" 'general.architecture="mamba"'
has "$err" "supported: llama, qwen2, qwen3, phi3, gemma2, gemma3, gpt2"
broken 6 "the key 'general.architecture' is missing" general.architecture=
broken 2 "rope scaling 'longrope' is not supported" 'llama.rope.scaling.type="longrope"'
broken 2 "holds the integer -128, expected -127 to 127" @blk.0.ffn_down.weight=byte:2:128
broken 2 "the key 'llama.logit_scale' is not known" llama.logit_scale=0.5
broken 2 "a model in 3 files is not supported" split.count=3
broken 2 "a mixture of experts is not supported" llama.expert_count=8
broken 2 "a tokenizer 't5' is not supported" 'tokenizer.ggml.model="t5"'
broken 2 "cut words 'tekken' is not supported" 'tokenizer.ggml.model="gpt2"' 'tokenizer.ggml.pre="tekken"'
broken 2 "the tensor 'blk.0.ffn_up.weight' is IQ4_NL, which is not supported" @blk.0.ffn_up.weight=type:20
has "$err" "supported: F32, F16, BF16, Q8_0"
broken 2 "is type 77, which is not supported" @blk.0.ffn_up.weight=type:77
broken 6 "the key 'llama.block_count' is missing" llama.block_count=
broken 6 "'llama.block_count': expected an integer from 1 to" 'llama.block_count="2"'
broken 6 "the tensor 'blk.2.attn_q.weight' [32,32] is missing" llama.block_count=3
broken 2 "has no tensor 'blk.1." llama.block_count=1
broken 6 "'blk.0.ffn_gate.weight' is [64,32], the metadata say [48,32]" llama.feed_forward_length=48
broken 6 "do not divide" llama.attention.head_count_kv=3
broken 6 "'tokenizer.ggml.scores': expected a number for each token" 'tokenizer.ggml.scores=[0.5]'
broken 6 "the token 'a' is there twice" 'tokenizer.ggml.tokens=["<unk>","<s>","</s>","a","a","b","c","d","e"]'
broken 6 "12 tokens, the embedding has 11 rows" 'tokenizer.ggml.tokens=["0","1","2","3","4","5","6","7","8","9","10","11"]' \
  'tokenizer.ggml.scores=[0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0]' tokenizer.ggml.token_type=
broken 6 "the tensor 'blk.0.attn_k.weight' [16,32] is missing" @drop=blk.0.attn_k.weight
broken 6 "broken.gguf: " @again=output_norm.weight
broken 6 "tensors that overlap" @blk.1.ffn_norm.weight=offset:0
broken 6 "a tensor outside of the file" @blk.1.ffn_norm.weight=offset:"$((1 << 62))"
broken 6 "is not aligned to 32 bytes" @output.weight=offset:+1
broken 6 "more than 2^64" @blk.0.ffn_up.weight=dims:["$((1 << 62)),$((1 << 62))]"
broken 6 "broken.gguf: " @blk.0.ffn_up.weight=dims:[64,0]
broken 6 "rows that end inside a block" @blk.0.ffn_up.weight=dims:[16,128]
for cut in 3 24 100 1500 9000; do broken 6 "broken.gguf: " @cut=$cut; done
error 6 "broken.gguf: " mlx import model broken.gguf -n
cp theirs/wide/model.safetensors other.gguf
error 6 "does not begin with GGUF" mlx import model other.gguf
mkfifo pipe.gguf
error 6 "pipe.gguf" mlx import model pipe.gguf
error 3 "not a model's folder" mlx import model nowhere.gguf
