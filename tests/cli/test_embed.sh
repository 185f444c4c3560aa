# Texts as vectors, through the real binary: the final layer makes the model's own logits of them, a mean is that of all tokens, files
# have a row for each line, and bad requests leave none.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

folder() { python3 "$here/decoder_folder.py" "$@"; }
mlx init >/dev/null 2>&1
folder LlamaForCausalLM theirs/llama
folder GPT2LMHeadModel theirs/gpt2
folder Gemma2ForCausalLM theirs/gemma2
folder Qwen3ForCausalLM theirs/qwen3
for name in llama gpt2 gemma2 qwen3; do mlx import model theirs/$name >/dev/null 2>&1; done

# The vector of the last token is what the final layer reads; with a soft cap behind it in Gemma 2.
cat >check.py <<'PY'
import json, math, struct, sys
def npy(path):
    data = open(path, "rb").read()
    start = 10 + int.from_bytes(data[8:10], "little")
    shape = eval(data[10:start])["shape"]
    numbers = struct.unpack(f"<{shape[0] * shape[1]}f", data[start:])
    return [numbers[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]
def near(a, b, most=1e-4):
    assert len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < most, (a, b)
def head(name):
    data = open(f"theirs/{name}/model.safetensors", "rb").read()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    entry = next(header[key] for key in ("lm_head.weight", "wte.weight", "model.embed_tokens.weight") if key in header)
    numbers = struct.unpack(f"<{math.prod(entry['shape'])}f", data[start:][slice(*entry["data_offsets"])])
    width = entry["shape"][1]
    return [numbers[i * width:(i + 1) * width] for i in range(entry["shape"][0])]
exec(sys.argv[1])
PY
check() { python3 check.py "$1" || fail "$2"; }
for name in llama gpt2 gemma2 qwen3; do
  expect 0 mlx predict $name --tokens "3 1 4 1 5 9 2 6" --logits logits.npy
  expect 0 mlx predict $name --tokens "3 1 4 1 5 9 2 6" --embed $name.npy --json
  same "$(json "d['schema'], d['kind'], d['texts'], d['tokens'], d['width'], d['pooling'], d['normalized'], d['file']")" \
    "('mlx.predict/1', 'embeddings', 1, 8, 8, 'last', False, '$name.npy')"
  check "cap = (lambda x: 2 * math.tanh(x / 2)) if '$name' == 'gemma2' else (lambda x: x)
near([cap(sum(w * x for w, x in zip(row, npy('$name.npy')[0]))) for row in head('$name')], npy('logits.npy')[-1])" "$name: not what the final layer reads"
done

# A mean is that of all tokens; --normalize makes the length 1. Weights in groups too.
for i in 1 2 3; do mlx predict llama --tokens "$(echo 3 1 4 | cut -d' ' -f-$i)" --embed $i.npy 2>/dev/null; done
expect 0 mlx predict llama --tokens "3 1 4" --pooling mean --embed mean.npy
expect 0 mlx predict llama --tokens "3 1 4" --pooling mean --normalize --embed unit.npy
check "rows = [npy(f'{i}.npy')[0] for i in (1, 2, 3)]
near([sum(x) / 3 for x in zip(*rows)], npy('mean.npy')[0])
length = math.sqrt(sum(x * x for x in npy('mean.npy')[0]))
near([x / length for x in npy('mean.npy')[0]], npy('unit.npy')[0], 1e-6)" "means"
WIDTH=32 HEAD=8 HIDDEN=64 folder Qwen2ForCausalLM theirs/wide
mlx import model theirs/wide >/dev/null 2>&1
expect 0 mlx quantize wide --to int8 --group 32 --point
expect 0 mlx predict wide@v1 --tokens "3 1 4" --embed whole.npy
expect 0 mlx predict wide@v2 --tokens "3 1 4" --embed groups.npy
check "a, b = npy('whole.npy')[0], npy('groups.npy')[0]
near(a, b, 0.1 * max(map(abs, a)))" "groups"

# A row for each line, the same as alone; JSON lines say more.
printf 'the mill\nriver by the stone .\r\nold' >texts.txt
expect 0 mlx predict llama texts.txt --embed rows.npy
same "$err" "3 vectors of 8 numbers in rows.npy"
expect 0 mlx predict llama texts.txt --embed - -q
same "$(wc -l <<<"$out")" 3
for i in 1 2 3; do
  expect 0 mlx predict llama -p "$(sed -n "${i}p" texts.txt | tr -d '\r')" --embed one.jsonl
  check "line = json.loads(open('one.jsonl').read())
assert struct.unpack('<8f', struct.pack('<8f', *line['embedding'])) == npy('rows.npy')[$i - 1]
assert line['tokens'] == (3, 6, 2)[$i - 1], line
assert line['text'] == ('the mill', 'river by the stone .', 'old')[$i - 1], line" "line $i"
done
code=0
printf 'the mill\nold\n' | mlx predict llama - --embed piped.npy 2>/dev/null || code=$?
same "$code" 0
same "$(printf 'the mill\nold\n' | mlx predict llama --embed - -q | wc -l)" 2 # without INPUT too
check "assert list(npy('piped.npy')) == [npy('rows.npy')[i] for i in (0, 2)]" "standard input"
sum=$(sha256sum <rows.npy)
expect 0 env MLX_THREADS=1 "$mlx_binary" predict llama texts.txt --embed rows.npy
same "$(sha256sum <rows.npy)" "$sum"

# bug: bytes that are not UTF-8 stopped JSON lines with an error about a string, after all texts were computed.
printf 'mill \377 \303(\n' >bytes.txt
expect 0 mlx predict llama bytes.txt --embed bytes.npy
expect 0 mlx predict llama bytes.txt --embed bytes.jsonl
check "line = json.loads(open('bytes.jsonl', 'rb').read().decode())
assert line['text'] == 'mill \ufffd \ufffd(', line
assert struct.unpack('<8f', struct.pack('<8f', *line['embedding'])) == npy('bytes.npy')[0]" "bytes"

# Bad requests.
refused() { # CODE TEXT OPTIONS...
  local code=$1 text=$2
  shift 2
  error "$code" "$text" mlx predict "$@"
  [ ! -e none.npy ] || fail "something was written"
}
refused 2 "no file of vectors by its name" llama -p old --embed none.txt
refused 3 "its folder is not there" llama -p old --embed nowhere/none.npy
refused 2 "--embed writes no text" llama -p old --embed none.npy --count 2
refused 2 "--embed writes no text" llama -p old --embed none.npy --logits x.npy
refused 2 "both want standard output" llama -p old --embed - --json
refused 2 "--pooling" llama -p old --embed none.npy --pooling most
refused 2 "--pooling and --normalize are for --embed" llama -p old --pooling mean
refused 2 "there is no text" llama --embed none.npy
refused 2 "--prompt is the text: leave out the files" llama texts.txt -p old --embed none.npy
refused 3 "nothing.txt" llama nothing.txt --embed none.npy
refused 3 "--prompt TEXT" llama "the old mill" --embed none.npy
refused 2 "--prompt TEXT" llama "the old mill"
# Models of other programs are to be imported first, however they are written.
for place in ./theirs/llama theirs/llama "$PWD/theirs/llama"; do
  refused 3 "\`mlx import model $place\`" "$place" -p old
  has "$err" "a model's folder of another program"
done
: >x.gguf
for place in x.gguf ./x.gguf; do refused 3 "x.gguf: a GGUF file of another program" $place -p old; done
error 3 "mlx import model ./x.gguf" mlx eval ./x.gguf --data questions.jsonl
error 3 "mlx import model theirs/llama" mlx serve theirs/llama
refused 2 "expected integers from 0 to 10" llama --tokens "1 11" --embed none.npy
refused 2 "--tokens: 65 tokens, the model takes 64" llama --tokens "$(printf '1 %.0s' {1..65})" --embed none.npy
printf 'old\n%s\n' "$(printf 'mill %.0s' {1..70})" >long.txt
refused 2 "long.txt: line 2: 71 tokens, the model takes 64" llama long.txt --embed none.npy
rm theirs/gpt2/tokenizer.json
mlx import model theirs/gpt2 --name bare >/dev/null 2>&1
refused 2 "bare@v1 has no tokenizer" bare -p old --embed none.npy
bars 1 60 20 8 4
mlx add data/bars >/dev/null 2>&1
printf '[data]\ndataset = "data/bars"\n[model]\nname = "clf"\nfamily = "mlp"\nhidden = [8]\n[train]\nepochs = 1\n' >clf.toml
mlx train -c clf.toml >/dev/null 2>&1
refused 2 "not a language model that ends with a linear layer" clf -p old --embed none.npy
