# mlx predict through the real binary: a small language model learns a rhyme and goes on with it.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
error 3 "mlx init" mlx predict gpt
mkdir -p data/rhyme
for _ in $(seq 12); do
  printf 'the cat sat on the mat.\nthe dog sat on the log.\n'
done >data/rhyme/train.txt
cat > gpt.toml <<'TOML'
[data]
dataset = "data/rhyme"
tokenizer = "chars"
[model]
name = "gpt"
family = "gpt2"
layers = 1
width = 32
heads = 2
context = 32
[train]
epochs = 120
batch = 4
optimizer = "adamw"
learning_rate = 0.01
TOML
sed 's/"gpt"/"llama"/; s/"gpt2"/"llama"/; s/^heads.*/heads = 4\nkv_heads = 2/' gpt.toml >llama.toml
mlx init >/dev/null 2>&1
mlx add data/rhyme >/dev/null 2>&1
mlx commit -m rhyme >/dev/null

for model in gpt llama; do
  mlx train -c $model.toml >/dev/null 2>"$work/train.err" || fail "training failed: $(cat "$work/train.err")"
  expect 0 mlx predict $model --prompt "the cat sat on the " --max-tokens 5 --temperature 0
  same "$out" "mat."
  has "$err" "tokens/s"
  # Beyond the context, the same with any number of threads, and another text for another seed.
  expect 0 env MLX_THREADS=1 "$mlx_binary" predict $model --prompt "the " --max-tokens 60 --seed 3 -q
  first=$out
  same "$err" ""
  expect 0 env MLX_THREADS=3 "$mlx_binary" predict $model --prompt "the " --max-tokens 60 --seed 3 -q
  same "$out" "$first"
  expect 0 mlx predict $model --prompt "the " --max-tokens 60 --seed 4 --temperature 2 -q
  [ "$out" != "$first" ] || fail "another seed and temperature gave the same text"
done

# From standard input, several texts, as JSON.
printf 'the dog sat on the \n' >prompt.txt
mlx predict llama --count 2 --max-tokens 8 --temperature 0.1 --stop . --json -q <prompt.txt >"$work/.out"
out=$(cat "$work/.out")
same "$(json "[d['schema'], d['kind'], d['model'], d['prompt'], len(d['texts'])]")" \
  "['mlx.predict/1', 'text', 'llama@v1', 'the dog sat on the ', 2]"
same "$(json "d['texts'][0]['text'] + ' ' + d['texts'][0]['end']")" "log. stop"
same "$(json "len(d['texts'][0]['tokens'])")" 4
expect 0 mlx predict gpt --max-tokens 4 --count 2 --temperature 0 # no prompt: as behind the end of a line
same "$out" "--- 1
the 

--- 2
the "

same "$(printf 'the dog sat on the \n' | mlx predict llama - --max-tokens 8 --temperature 0.1 --stop . -q)" log.
printf 'the dog sat on the \n' | mlx predict llama --max-tokens 8 --temperature 0.1 --stop . --out texts.csv -q
same "$(cat texts.csv)" 'prompt,text,end
the dog sat on the ,log.,stop'
error 2 "are both the prompt" mlx predict llama - --prompt the

# bug: of two stops only the last one held.
same "$(mlx predict llama --prompt 'the dog sat on the ' --max-tokens 8 --temperature 0.1 --stop . --stop sat -q)" log.
same "$(mlx predict llama --prompt 'the dog sat on the ' --max-tokens 8 --temperature 0.1 --stop . --stop o -q)" lo

# What is wrong, and where.
error 2 "the prompt: the character 'X' (U+0058) at offset 4 is not among the" mlx predict gpt --prompt "the X"
error 2 "--stop: the character '#'" mlx predict gpt --prompt "the" --stop "#"
error 2 "--top-p: expected a number above 0" mlx predict gpt --prompt "the" --top-p 0
error 2 "--temperature: expected" mlx predict gpt --prompt "the" --temperature -1
error 2 "--count: expected an integer from 1" mlx predict gpt --prompt "the" --count 0
error 3 "gpf" mlx predict gpf
error 2 "is a dataset" mlx predict data/rhyme
sed 's/^heads.*/heads = 3/' gpt.toml >bad.toml
error 2 "bad.toml:9: [model] heads: 3 heads do not divide the width 32" mlx train -c bad.toml
sed 's/"gpt2"/"cnn"/' gpt.toml >bad.toml
error 2 'bad.toml:6: [model] family: "cnn" takes images, the dataset holds text' mlx train -c bad.toml
