# Encoders through the real binary: states are those of a computation in double, whatever other texts there are; poolings, files of
# sentence-transformers, smaller weights; what is not supported is refused by name.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

folder() { python3 "$here/encoder_folder.py" "$@"; }
mlx init >/dev/null 2>&1
cat >check.py <<'PY'
import json, math, struct, subprocess, sys
def npy(path):
    data = open(path, "rb").read()
    start = 10 + int.from_bytes(data[8:10], "little")
    shape = eval(data[10:start])["shape"]
    numbers = struct.unpack(f"<{shape[0] * shape[1]}f", data[start:])
    return [numbers[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]
def near(a, b, most=1e-4):
    assert len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < most, (a, b)
def unit(x):
    return [a / math.sqrt(sum(b * b for b in x)) for a in x]
exec(sys.argv[1])
PY
check() { python3 check.py "$1" || fail "$2"; }

tokens="1 4 5 8 7 9 2"
for name in BertModel XLMRobertaForMaskedLM DistilBertModel; do
  folder $name theirs/$name
  expect 0 mlx import model theirs/$name --json
  same "$(json "d['architecture'], d['status']")" "('$name', 'imported')"
  expect 0 mlx predict $name --tokens "$tokens" --logits states.npy --json
  same "$(json "d['kind'], d['tokens'], d['width']")" "('states', [1, 4, 5, 8, 7, 9, 2], 32)"
  # shellcheck disable=SC2086
  python3 "$here/encoder_folder.py" states $name $tokens >states.json
  check "for ours, theirs in zip(npy('states.npy'), json.load(open('states.json')), strict=True): near(ours, theirs)" "$name: states"
done
expect 0 mlx import model theirs/BertModel
has "$out" unchanged

# A vocab.txt is the tokenizer that a tokenizer.json is, and the version holds that.
folder BertModel theirs/words
rm theirs/words/tokenizer.json
printf '%s\n' '[PAD]' '[CLS]' '[SEP]' '[UNK]' the mill stone river by turns old >theirs/words/vocab.txt
echo '{"mask_token": null}' >theirs/words/special_tokens_map.json
expect 0 mlx import model theirs/words
lacks "$err" "--tokens, not text"
for model in BertModel words; do
  echo "The mill turns, bý the ancient [SEP] river" | mlx tokenizer encode $model --special --jsonl >$model.tokens 2>/dev/null || fail "$model: no tokens"
done
cmp BertModel.tokens words.tokens || fail "vocab.txt: other tokens"
mlx cat words:tokenizer.json | grep -q WordPiece || fail "the version has no tokenizer.json"
echo '{"tokenizer_class": "TapexTokenizer"}' >theirs/words/tokenizer_config.json
error 2 "vocab.txt: the tokenizer 'TapexTokenizer' is not supported" mlx import model theirs/words
rm theirs/words/tokenizer_config.json
ln -sf /etc/passwd theirs/words/vocab.txt
error 5 "a symbolic link that leaves the folder" mlx import model theirs/words

# A vector is made of a text's own states, and has the same bits alone and among others.
expect 0 mlx predict BertModel -p "the mill turns" --logits states.npy --json
same "$(json "d['tokens']")" "[1, 4, 5, 9, 2]"
{ echo "the mill turns"; for i in {1..19}; do printf 'stone by the river %s\n' "$(printf 'old %.0s' $(seq $((i % 14))))"; done; } >texts.txt
for how in mean cls max last; do
  expect 0 mlx predict BertModel texts.txt --pooling $how --embed $how.npy
  expect 0 mlx predict BertModel -p "the mill turns" --pooling $how --embed alone.npy
  check "assert npy('alone.npy')[0] == npy('$how.npy')[0]" "$how: other bits alone"
done
check "rows = npy('states.npy')
near([sum(x) / len(rows) for x in zip(*rows)], npy('mean.npy')[0], 1e-6)
near([max(x) for x in zip(*rows)], npy('max.npy')[0], 1e-6)
near(rows[0], npy('cls.npy')[0], 1e-6)
near(rows[-1], npy('last.npy')[0], 1e-6)" "poolings"
expect 0 mlx predict BertModel texts.txt --embed default.npy --json
same "$(json "d['pooling'], d['normalized'], d['texts']")" "('mean', False, 20)"
cmp mean.npy default.npy
tail -n 1 texts.txt >last.txt
expect 0 mlx predict BertModel last.txt --embed alone.npy
check "assert npy('alone.npy')[0] == npy('mean.npy')[-1]" "the last line"

# The files of sentence-transformers, and texts beyond the context.
sentences() { # the modules of a copy in theirs/sentences
  rm -rf theirs/sentences
  cp -r theirs/BertModel theirs/sentences
  mkdir theirs/sentences/1_Pooling
  echo '{"word_embedding_dimension": 32, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}' \
    >theirs/sentences/1_Pooling/config.json
  echo '{"max_seq_length": 6, "do_lower_case": false}' >theirs/sentences/sentence_bert_config.json
  python3 - "$@" <<'PY'
import json, sys
paths = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
json.dump([{"idx": i, "name": str(i), "path": paths.get(kind, kind), "type": "sentence_transformers.models." + kind}
           for i, kind in enumerate(sys.argv[1:])], open("theirs/sentences/modules.json", "w"))
PY
}
sentences Transformer Pooling Normalize
expect 0 mlx import model theirs/sentences
expect 0 mlx predict sentences -p "the mill turns" --embed vector.npy --json
same "$(json "d['pooling'], d['normalized']")" "('cls', True)"
check "near(unit(npy('cls.npy')[0]), npy('vector.npy')[0], 1e-6)" "cls, normalized"
error 2 "--prompt: 7 tokens, the model takes 6" mlx predict sentences -p "the old mill stone turns" --embed none.npy
expect 0 mlx predict sentences -p "the old mill stone turns by" --truncate --embed - --pooling mean
same "$(python3 -c "import json; print(json.load(open('.out'))['tokens'])")" 6
expect 0 mlx predict sentences -p "the old mill stone turns by" --truncate --embed cut.npy
expect 0 mlx predict sentences -p "the old mill stone" --embed short.npy
cmp cut.npy short.npy
refused() { # TEXT: of theirs/sentences
  error 2 "$1" mlx import model theirs/sentences --name none
}
sentences Transformer Pooling Dense
refused "the module 'sentence_transformers.models.Dense' as number 3 is not supported"
sentences Transformer Pooling
echo '{"pooling_mode_weightedmean_tokens": true}' >theirs/sentences/1_Pooling/config.json
refused "pooling_mode_weightedmean_tokens is not supported"
echo '{"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true}' >theirs/sentences/1_Pooling/config.json
refused "more than one mode of pooling is not supported"
sentences Transformer Pooling
echo '{"default_prompt_name": "query"}' >theirs/sentences/config_sentence_transformers.json
refused "default_prompt_name is not supported"

# Smaller weights: nearly the same vectors.
for to in int8 int4; do
  expect 0 mlx quantize BertModel@v1 --to $to --point
  expect 0 mlx predict BertModel texts.txt --embed $to.npy
done
check "for to, most in (('int8', 0.02), ('int4', 0.35)):
    for a, b in zip(npy('mean.npy'), npy(to + '.npy'), strict=True): near(a, b, most * max(map(abs, a)))" "smaller weights"
expect 0 mlx predict BertModel -p "the mill turns" --embed alone.npy
check "assert npy('alone.npy')[0] == npy('int4.npy')[0]" "int4: other bits alone"

# What it cannot do is refused, and so is what is no encoder that we know.
error 2 "is an encoder: it gives vectors and writes no text" mlx predict BertModel@v1 -p "the mill"
error 2 "is an encoder: only language models are exported" mlx export model BertModel@v1 --format hf --out gone
# bug: an empty line became the vector of the tokens around nothing.
printf 'the mill\n\nturns\n' >gap.txt
error 2 "gap.txt: line 2: the text is empty" mlx predict BertModel@v1 gap.txt --embed none.npy
error 2 "--truncate is for --embed" mlx predict BertModel@v1 -p "the mill" --truncate
error 2 "expected integers from 0 to 10" mlx predict BertModel@v1 --tokens "1 11" --embed none.npy
mkdir -p data/text && echo "the mill turns by the old river" >data/text/test.txt && cp data/text/test.txt data/text/train.txt
mlx add data/text >/dev/null 2>&1
error 2 "an encoder gives vectors: it predicts no tokens" mlx eval BertModel@v1 --data data/text --split test
error 2 "is an encoder: its weights become int8 or int4 in groups, without data" mlx quantize BertModel@v1 --calibrate data/text
error 2 "is an encoder: its weights become int8 or int4 in groups, without data" mlx quantize BertModel@v1 --to int4 --method gptq --calibrate data/text
printf '[data]\ndataset = "data/text"\n[model]\nname = "tuned"\ninit = "BertModel@v1"\n[train]\nepochs = 1\n' >train.toml
error 2 "an encoder gives vectors, and cannot be trained" mlx train -c train.toml

# A server gives the same vectors.
"$mlx_binary" serve BertModel@v1 --listen 127.0.0.1:0 --json >ready.json 2>serve.err &
server=$!
trap 'kill -9 "$server" 2>/dev/null || true; cleanup' EXIT
for _ in $(seq 200); do
  url=$(jq -r .url ready.json 2>/dev/null) && [ -n "$url" ] && break
  kill -0 "$server" 2>/dev/null || fail "did not start: $(cat serve.err)"
  sleep 0.05
done
same "$(jq -r .infer ready.json)" "$url/v2/models/BertModel/infer"
expect 0 mlx predict BertModel@v1 texts.txt --normalize --embed unit.npy
python3 -c 'import json; print(json.dumps({"input": open("texts.txt").read().splitlines()}))' >ask.json
curl -sS -H 'Content-Type: application/json' -d @ask.json "$url/v1/embeddings" >vectors.json
check "near(sum((each['embedding'] for each in json.load(open('vectors.json'))['data']), []), sum(map(list, npy('unit.npy')), []), 1e-7)" "served"
kill -TERM "$server"
wait "$server" || fail "ended with $?: $(cat serve.err)"
error 2 "BertModel" mlx export model BertModel@v1 --format hf --out exported
folder BertModel theirs/odd 'architectures=["BertForQuestionAnswering"]'
error 2 'the architecture "BertForQuestionAnswering" is not supported' mlx import model theirs/odd
has "$err" "XLMRobertaModel"
has "$err" "LlamaForCausalLM"
folder BertModel theirs/odd 'position_embedding_type="relative_key"'
error 2 "the position_embedding_type 'relative_key' is not supported" mlx import model theirs/odd
folder BertModel theirs/odd 'hidden_act="mish"'
error 2 "the activation 'mish' is not supported" mlx import model theirs/odd
folder XLMRobertaForMaskedLM theirs/odd 'pad_token_id=39'
error 6 "leave none behind 'pad_token_id'" mlx import model theirs/odd
