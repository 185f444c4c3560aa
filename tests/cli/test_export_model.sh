# Language models for other programs, through the real binary: what came from a Hugging Face folder or a GGUF file goes out bit for
# bit, what mlx trained and quantized comes back as it is, adapters have the numbers of the model; a bad request, a full disk or a
# kill leaves nothing.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

folder() { python3 "$here/decoder_folder.py" "$@"; }
logits() { expect 0 mlx predict "$1" --tokens "3 1 4 1 5 9 2 6" --logits "$1.npy"; }
# safetensors FILE...: "NAME DTYPE SHAPE SHA" of all tensors, one a line.
safetensors() {
  python3 - "$@" <<'PY'
import hashlib, json, sys
lines = []
for path in sys.argv[1:]:
    data = open(path, "rb").read()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    if header.pop("__metadata__", None) != {"format": "pt"} and "theirs" not in path:
        sys.exit(f"{path}: its metadata")
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        size = {"F32": 4}.get(entry["dtype"], 2)
        if (start + begin) % size:
            sys.exit(f"{path}: '{name}' is not aligned")
        lines.append(f'{name.removeprefix("transformer.")} {entry["dtype"]} {entry["shape"]} {hashlib.sha256(data[start + begin:start + end]).hexdigest()}')
print(*sorted(lines), sep="\n")
PY
}
mlx init >/dev/null 2>&1

# Out as it came in, in every architecture, all types of weights, one file and shards.
folder GPT2LMHeadModel theirs/gpt2 BF16
folder LlamaForCausalLM theirs/llama
folder LlamaForCausalLM theirs/llama16 BF16 3
folder MistralForCausalLM theirs/mistral F16
folder Qwen2ForCausalLM theirs/qwen2 F32 2
folder Qwen3ForCausalLM theirs/qwen3
folder Phi3ForCausalLM theirs/phi3 F32 1 sliding_window=null
folder Gemma2ForCausalLM theirs/gemma2 F32 1 query_pre_attn_scalar=4
folder Gemma3ForCausalLM theirs/gemma3 BF16 1 query_pre_attn_scalar=4 layer_types= rope_parameters=
for name in gpt2 llama llama16 mistral qwen2 qwen3 phi3 gemma2 gemma3; do
  rm theirs/$name/tokenizer.json  # of a kind that llama.cpp has no form for
  mlx import model "theirs/$name" >/dev/null 2>&1
  logits "$name"
  expect 0 mlx export model "$name" --format hf --out "$name.hf" --shard 1KiB
  # Gemma's norms are stored with 1 added, which takes the last bits of numbers near 0: not what they are used for.
  whole() { [[ $name != gemma* ]] || { grep -v norm || true; }; [[ $name == gemma* ]] || cat; }
  same "$(safetensors "$name".hf/model-*.safetensors | whole)" "$(safetensors theirs/"$name"/*.safetensors | whole)"
  [ -e "$name.hf/model.safetensors.index.json" ] || fail "$name: no index"
  expect 0 mlx import model "$name.hf" --name "$name-again"
  logits "$name-again"
  cmp "$name.npy" "$name-again.npy" || fail "$name: other logits after a Hugging Face folder"
  expect 0 mlx export model "$name" --format gguf --out "$name.gguf"
  same "$err" ""
  expect 0 mlx import model "$name.gguf" --name "$name-file"
  logits "$name-file"
  cmp "$name.npy" "$name-file.npy" || fail "$name: other logits after a GGUF file"
  expect 0 mlx export model "$name-file" --format hf --out "$name-file.hf"
  expect 0 mlx import model "$name-file.hf"
  logits "$name-file.hf"
  cmp "$name.npy" "$name-file.hf.npy" || fail "$name: other logits after both"
done
for name in llama16 mistral gpt2; do
  for kept in config.json tokenizer_config.json generation_config.json; do
    cmp "theirs/$name/$kept" "$name.hf/$kept" || fail "$name: another $kept"
  done
done
expect 0 mlx export model llama16@v1 --format hf --out whole --json
same "$(json "d['schema'], d['to'], d['version'], d['architecture'], d['tensors'], d['status'], d['dry_run']")" \
  "('mlx.export/1', 'hf', 'llama16@v1', 'LlamaForCausalLM', 21, 'exported', False)"
same "$(json "sorted(f['name'] for f in d['files'])")" \
  "['config.json', 'generation_config.json', 'model.safetensors', 'tokenizer_config.json']"
same "$(json "sum(f['bytes'] for f in d['files']) == d['bytes']")" True
before=$(tree_of whole)
expect 0 mlx export model llama16@v1 --format hf --out whole
has "$out" "unchanged"
same "$(tree_of whole)" "$before"
expect 0 mlx export model llama16 --format gguf --out llama16.gguf
has "$out" "llama16@v1 -> llama16.gguf  LlamaForCausalLM, 22 tensors, 1 file"
has "$out" "unchanged"
expect 0 mlx export model llama16 --format gguf --dtype f32 --out llama32.gguf
expect 0 mlx import model llama32.gguf
same "$(tensors llama32)" "$(mlx export model llama16 --format hf --dtype f32 --out as32 >/dev/null && mlx import model as32 >/dev/null 2>&1 && tensors as32)"

# A SentencePiece vocabulary keeps its tokens, and what stands around a text.
# bug: the blank that is put before a text was taken for the token that begins it.
python3 "$here/gguf_file.py" theirs/llama marks.gguf F32 'tokenizer.ggml.tokens=["<unk>","<s>","</s>","▁","a","b","▁b","ab","▁ab"]' \
  'tokenizer.ggml.eos_token_id=2'
expect 0 mlx import model marks.gguf
expect 0 mlx export model marks --format gguf --out marks-again.gguf
expect 0 mlx import model marks-again.gguf
same "$(mlx cat marks-again:tokenizer.json | sed 's/"\[PAD10\]":10,"\[PAD9\]":9,//')" "$(mlx cat marks:tokenizer.json)"  # 11 rows, 9 tokens
same "$(mlx cat marks-again:config.json)" "$(mlx cat marks:config.json)"
same "$(mlx cat marks-again:generation_config.json)" "$(mlx cat marks:generation_config.json)"
same "$(mlx cat marks-again:chat_template.jinja)" "{{ messages }}"

# Learned positions: as many as the model was imported with.
expect 0 mlx import model theirs/gpt2 --name short --context 16
expect 0 mlx export model short --format hf --out short.hf
same "$(python3 -c 'import json; print(json.load(open("short.hf/config.json"))["n_positions"])')" 16
expect 0 mlx import model short.hf

# What mlx trained, with its tokenizers of bytes, characters and BPE.
mkdir -p data/words
for i in $(seq 400); do echo "the mill by the river turns $i naïve old stones"; done >data/words/train.txt
mlx add data/words >/dev/null 2>&1
config() { # NAME MODEL-LINES DATA-LINES
  printf '[data]\ndataset = "data/words"\n%s\n[model]\nname = "%s"\n%s\n[train]\nepochs = 1\nbatch = 16\n' "$3" "$1" "$2" >train.toml
}
sizes='layers = 2\nwidth = 64\nheads = 2\ncontext = 32\nfamily ='
for name in gpt2-bytes llama-bytes gpt2-chars llama-bpe; do
  kind=${name#*-} more="tokenizer = \"${name#*-}\""
  [ "$kind" != bpe ] || more="$more\nvocab = 280"
  config "$name" "$(printf "$sizes \"%s\"" "${name%-*}")" "$(printf "$more")"
  expect 0 mlx train
  logits "$name"
  expect 0 mlx tokenizer encode "$name" data/words/train.txt
  encoded=$out
  for format in hf gguf; do
    expect 0 mlx export model "$name" --format $format --out "$name.$format"
    expect 0 mlx import model "$name.$format" --name "$name-$format"
    logits "$name-$format"
    cmp "$name.npy" "$name-$format.npy" || fail "$name: other logits after $format"
    expect 0 mlx tokenizer encode "$name-$format" data/words/train.txt
    same "$out" "$encoded"
  done
done

# Integers in groups: bit for bit in a GGUF file, as numbers in a folder.
for bits in 4 8; do
  for group in 32 64; do
    name=int$bits-$group
    expect 0 mlx quantize llama-bytes@v1 --to int$bits --group $group --json
    version=$(json "d['model']")
    error 2 "in groups, which a Hugging Face folder has no form for" mlx export model "$version" --format hf --out refused
    has "$err" "--dtype f32 writes the numbers that the integers stand for without a loss"
    expect 0 mlx export model "$version" --format gguf --out $name.gguf
    expect 0 mlx import model $name.gguf
    if [ $group = 32 ]; then
      same "$(tensors $name)" "$(tensors "$version")"
    fi
    expect 0 mlx export model "$version" --format hf --dtype f32 --out $name.hf
    expect 0 mlx export model $name --format hf --dtype f32 --out $name-again.hf
    same "$(safetensors $name-again.hf/model.safetensors)" "$(safetensors $name.hf/model.safetensors)"
  done
done

# Weights in blocks: bit for bit in a GGUF file and out of it, in a folder as numbers. A head that shares the embedding's
# weights has blocks of its own.
WIDTH=256 HEAD=64 HIDDEN=256 folder LlamaForCausalLM theirs/wide F16 1 rope_scaling=
WIDTH=256 HEAD=64 HIDDEN=256 folder Qwen2ForCausalLM theirs/tied F16 1
for name in wide-q4_k wide-q2_k tied-q6_k; do
  from=${name%-*} kind=${name#*-}
  rm -f "theirs/$from/tokenizer.json"
  expect 0 mlx import model "theirs/$from"
  expect 0 mlx quantize "$from@v1" --to "$kind" --json
  version=$(json "d['model']")
  expect 0 mlx show "$version" --json
  same "$(json "d['model']['precision']")" "$kind"
  error 2 "which a Hugging Face folder has no form for" mlx export model "$version" --format hf --out refused
  expect 0 mlx export model "$version" --format gguf --out "$name.gguf"
  expect 0 mlx import model "$name.gguf"
  expect 0 mlx predict "$version" --tokens "3 1 4 1 5 9 2 6" --logits "$kind.npy"
  logits "$name"
  cmp "$kind.npy" "$name.npy" || fail "$name: other logits"
  expect 0 mlx export model "$name" --format gguf --out "$name-again.gguf"
  cmp <(tail -c 100000 "$name-again.gguf") <(tail -c 100000 "$name.gguf") || fail "$name: other tensors"
  expect 0 mlx export model "$name" --format hf --dtype f32 --out "$name.hf"
done
error 2 "is already q4_k, expected f32" mlx quantize wide-q4_k --to int4
error 2 "--group is for int8 and int4" mlx quantize wide@v1 --to q4_k --group 32
error 2 "--method gptq needs data" mlx quantize wide@v1 --to q4_k --method gptq

expect 0 mlx quantize llama-bytes@v1 --to int8 --calibrate data/words -s train --json
error 2 "is int8 with ranges of its activations, which other programs have no form for" \
  mlx export model "$(json "d['model']")" --format gguf --out refused

# Adapters: A is that of the layer that mlx has, B its rows, also beside integers; merged in a whole folder.
expect 0 mlx quantize llama-bytes@v1 --to int4 --json
config beside "init = \"$(json "d['model']")\"
lora = { rank = 3, alpha = 6 }" ""
expect 0 mlx train
expect 0 mlx export model beside --format peft --base somewhere/llama --out beside.peft --json
same "$(json "d['to'], d['tensors']")" "('peft', 16)"
error 2 "adapters cannot be merged into them" mlx export model beside --format gguf --out none
config tuned 'init = "llama-bytes@v1"
lora = { rank = 3, alpha = 6 }' ""
expect 0 mlx train
expect 0 mlx export model tuned --format peft --base somewhere/llama --out tuned.peft --json
same "$(json "d['to'], d['tensors']")" "('peft', 16)"
for name in tuned beside; do mlx cat $name:weights.safetensors >$name.safetensors; done
python3 - <<'PY' || fail "the adapters"
import json
def read(path):
    data = open(path, "rb").read()
    start = 8 + int.from_bytes(data[:8], "little")
    return {name: (entry["shape"], data[start:][slice(*entry["data_offsets"])]) for name, entry in json.loads(data[8:start]).items() if name[0] != "_"}
for name in "tuned", "beside":
  config = json.load(open(f"{name}.peft/adapter_config.json"))
  assert (config["peft_type"], config["r"], config["lora_alpha"], config["base_model_name_or_path"]) == ("LORA", 3, 6, "somewhere/llama"), config
  assert config["target_modules"] == ["k_proj", "o_proj", "q_proj", "v_proj"] and not config["fan_in_fan_out"], config
  ours, theirs = read(f"{name}.safetensors"), read(f"{name}.peft/adapter_model.safetensors")
  for block in range(2):
    layer = f"base_model.model.model.layers.{block}.self_attn."
    a, b = (ours[f"block{block}.attention.qkv.weight.lora_{x}"] for x in "ab")
    assert all(theirs[f"{layer}{x}_proj.lora_A.weight"] == a for x in "qkv")
    parts = [theirs[f"{layer}{x}_proj.lora_B.weight"] for x in "qkv"]
    assert b"".join(data for _, data in parts) == b[1] and all(shape == [64, 3] for shape, _ in parts)
    assert theirs[f"{layer}o_proj.lora_B.weight"] == ours[f"block{block}.attention.projection.weight.lora_b"]
PY
expect 0 mlx export model tuned --format hf --out tuned.hf
expect 0 mlx import model tuned.hf
logits tuned
logits tuned.hf
python3 - <<'PY' || fail "merged adapters: other logits"
import struct, sys
a, b = (struct.unpack("<2048f", open(path, "rb").read()[128:]) for path in ("tuned.npy", "tuned.hf.npy"))
sys.exit(max(abs(x - y) for x, y in zip(a, b)) > 1e-4 or max(map(abs, a)) < 1e-2)
PY

# A model from elsewhere takes adapters and training too, on shorter texts as well, and keeps what it came with.
WIDTH=32 HEAD=8 HIDDEN=64 folder Qwen2ForCausalLM theirs/words BF16 1 'torch_dtype="bfloat16"'
expect 0 mlx import model theirs/words
config bug_shorter 'init = "words@v1"
context = 8' ""
expect 0 mlx train
expect 0 mlx export model bug_shorter --format hf --out bug_shorter.hf
expect 0 mlx import model bug_shorter.hf --name again
expect 0 mlx predict bug_shorter --tokens "3 1 4 1 5" --logits shorter.npy
expect 0 mlx predict again --tokens "3 1 4 1 5" --logits again.npy
cmp shorter.npy again.npy || fail "trained on shorter texts: other logits"
config words 'init = "words@v1"
lora = { rank = 2, targets = ["block0.*"] }' ""
expect 0 mlx train
expect 0 mlx export model words --format peft --out words.peft
same "$(python3 -c 'import json; print(len(json.load(open("words.peft/adapter_config.json"))["target_modules"]))')" 7
expect 0 mlx export model words --format hf --out words.hf
same "$(python3 -c 'import json; c = json.load(open("words.hf/config.json")); print(c["torch_dtype"], c["architectures"])')" \
  "float32 ['Qwen2ForCausalLM']"
cmp theirs/words/generation_config.json words.hf/generation_config.json || fail "training lost what the model came with"

# What cannot be exported is refused by name, and nothing is made.
refused() { # CODE TEXT OPTIONS...
  local code=$1 text=$2
  shift 2
  error "$code" "$text" mlx export model "$@"
  [ ! -e none ] && [ -z "$(find . -maxdepth 1 -name '.*mlx-export*')" ] || fail "something was made: $(ls -a)"
}
refused 2 "--format" llama --format onnx --out none
refused 2 "--format" llama --out none
refused 2 "--out" llama --format hf
refused 2 "a model is not written to standard output" llama --format gguf --out -
refused 3 "nobody" nobody --format hf --out none
refused 2 "is a dataset" data/words --format hf --out none
refused 3 "there is no folder" llama --format hf --out nowhere/none
# bug: a dry run promised what cannot be; a model was written between the repository's own files.
error 3 "there is no folder" mlx export model llama --format hf --out nowhere/none -n
error 2 "inside the repository's own files" mlx export model llama --format hf --out .mlx/packs/none
refused 2 "--shard is for --format hf" llama --format gguf --shard 1GB --out none
refused 2 "--shard 12: expected at least" llama --format hf --shard 12 --out none
refused 2 "size" llama --format hf --shard many --out none
refused 2 "--base is for --format peft" llama --format hf --base x --out none
refused 2 "--dtype is for --format hf and gguf" tuned --format peft --dtype f32 --out none
refused 2 "llama@v1 has no adapters" llama --format peft --out none
python3 "$here/bars.py" 1 60 20 8 4
mlx add data/bars >/dev/null 2>&1
printf '[data]\ndataset = "data/bars"\n[model]\nname = "clf"\nfamily = "mlp"\nhidden = [8]\n[train]\nepochs = 1\n' >clf.toml
mlx train -c clf.toml >/dev/null 2>&1
refused 2 "clf@v1 is no language model of an architecture that other programs have: its family is mlp" clf --format hf --out none
folder Qwen3ForCausalLM theirs/odd F32 1 'rope_scaling={"rope_type": "yarn", "factor": 2.0, "attention_factor": 0.5}'
folder Gemma2ForCausalLM theirs/odd2
rm theirs/odd/tokenizer.json theirs/odd2/tokenizer.json
for name in odd odd2; do mlx import model theirs/$name >/dev/null 2>&1; done
refused 2 "llama.cpp does not compute YaRN with an attention factor or a ramp of its own" odd --format gguf --out none
refused 2 "llama.cpp does not compute scores divided by another number" odd2 --format gguf --out none
refused 2 'llama.cpp has no form for a tokenizer of the kind "wordlevel"' words@v1 --format gguf --out none
expect 0 mlx export model llama -n --format hf --out none
has "$out" "would be exported"
[ ! -e none ] || fail "-n wrote"
folder MistralForCausalLM theirs/window F32 1 sliding_window=3
rm theirs/window/tokenizer.json
mlx import model theirs/window >/dev/null 2>&1
expect 0 mlx export model window --format gguf --out window.gguf
has "$err" "window@v1 has windows of 3 tokens, which llama.cpp does not apply"
expect 0 mlx import model window.gguf --name window-again
logits window
logits window-again
cmp window.npy window-again.npy || fail "the window was lost"

# What is there stays: another model, a file, a folder with something else. An empty folder is taken.
standing() { tree_of whole && sha256sum llama16.gguf; }
for place in whole llama16.gguf; do
  before=$(standing)
  error 4 "$place: exists and holds something else" mlx export model qwen3 --format hf --out $place
  error 4 "$place: exists and holds something else" mlx export model qwen3 --format gguf --out $place
  same "$(standing)" "$before"
done
echo more >whole/README
error 4 "holds something else" mlx export model llama16 --format hf --out whole
mkdir empty
expect 0 mlx export model qwen3 --format hf --out empty
[ -e empty/config.json ] || fail "the empty folder"

# A full disk, and a kill at any write: nothing stands at the place, and the next command cleans up and succeeds.
code=0
(trap '' XFSZ; ulimit -f 8; exec "$mlx_binary" export model gpt2-bytes --format hf --out none) >"$work/.out" 2>"$work/.err" </dev/null || code=$?
same "$code" 7
[ ! -e none ] && [ -z "$(find . -maxdepth 1 -name '.none*')" ] || fail "a full disk left something: $(ls -a)"
for format in hf gguf; do
  at=1
  while true; do
    code=0
    MLX_KILL_AT=$at mlx export model llama --format $format --out none >/dev/null 2>&1 || code=$?
    [ "$code" != 0 ] || break
    [ "$code" = 137 ] || fail "exit $code at write $at"
    if [ -e none ]; then  # it was whole already
      expect 0 mlx export model llama --format $format --out none
      has "$out" "unchanged"
      rm -r none
    fi
    at=$((at + stride))
  done
  [ $at -gt 5 ] || fail "only $at writes"
  [ -z "$(find . -maxdepth 1 -name '.none*')" ] || fail "what was killed was not cleaned up: $(ls -a)"
  rm -r none
done
if [ "$(id -u)" != 0 ]; then
  mkdir locked && chmod a-w locked
  error 7 "locked" mlx export model llama --format gguf --out locked/none
fi
