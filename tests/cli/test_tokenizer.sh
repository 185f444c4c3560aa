# mlx tokenizer: made from text, and asked what it makes of text.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

python3 - <<'PY'
import os
os.makedirs("words")
open("words/train.txt", "w").write("the cat sat on the mat\nand that cat has the hat\n" * 50)
PY
expect 0 mlx tokenizer train words --vocab 270 --special '<|end|>' --out made.json
has "$out" "made.json  270 tokens"
cp made.json first.json
expect 0 mlx tokenizer train words/train.txt --vocab 270 --special '<|end|>' --out made.json --json
cmp made.json first.json || fail "the same text made other bytes"
same "$(json "d['schema'], d['tokens'], d['kind']")" "('mlx.tokenizer-train/1', 270, 'bpe')"
error 2 "5000 tokens are wanted" mlx tokenizer train words --vocab 5000 --out made.json
cmp made.json first.json || fail "an error changed the file"
error 2 "--vocab" mlx tokenizer train words --vocab 10
error 2 "either DATA or a config" mlx tokenizer train --vocab 300

# Every text comes back, whatever its bytes.
printf 'the cat<|end|> \xff é 漢' >text
expect 0 mlx tokenizer encode made.json text
ids=$out
expect 0 mlx tokenizer encode made.json text --json
same "$(json "'<|end|>' in d['texts'][0]['tokens'], d['texts'][0]['offsets'][0][0], d['texts'][0]['offsets'][-1]")" "(True, 0, [20, 23])"
same "$(json "' '.join(map(str, d['texts'][0]['ids']))")" "$ids"
echo "$ids" >ids
mlx tokenizer decode made.json ids | head -c -1 >back
python3 -c "assert open('back','rb').read().decode() == open('text','rb').read().decode('utf-8','replace')" || fail "the text did not come back"
printf 'the cat\nthat hat\n' >lines
expect 0 mlx tokenizer encode made.json lines --lines
same "$(wc -l <"$work/.out")" 2
printf 'a\0b\nc\0' >nulls
expect 0 mlx tokenizer encode made.json nulls --null --jsonl
same "$(python3 -c "import json,sys; print([json.loads(line)['text'] for line in open('.out')])")" "['a', 'b\\nc']"

error 2 "'the' is no token" mlx tokenizer decode made.json lines
error 6 "line 1" mlx tokenizer encode text text
error 3 "none.json" mlx tokenizer encode none.json text
printf '\n\3abc' >damaged.model
error 6 "SentencePiece" mlx tokenizer encode damaged.model text
sed 's/"ByteLevel","add/"FixedLength","add/' made.json >unknown.json
error 2 "'FixedLength' is not supported" mlx tokenizer encode unknown.json text

# A model's own.
mlx init >/dev/null 2>&1
mlx add words >/dev/null 2>&1
mlx commit -m words >/dev/null
cat >train.toml <<'TOML'
[data]
dataset = "words"
tokenizer = "bpe"
vocab = 268
[model]
name = "lm"
family = "gpt2"
layers = 1
width = 16
heads = 2
context = 8
[train]
epochs = 1
TOML
expect 0 mlx tokenizer train -c train.toml --out of-config.json
expect 0 mlx train -c train.toml
mlx cat lm:tokenizer.json | cmp - of-config.json || fail "the training made another tokenizer"
expect 0 mlx tokenizer encode lm lines
has "$err" "tokens for"
