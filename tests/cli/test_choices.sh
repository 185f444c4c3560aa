# Multiple choice by likelihood, through the real binary: the counts are those of the model's own logits, kept with the version, and
# wrong files are refused by the line.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

mlx init >/dev/null 2>&1
python3 "$here/decoder_folder.py" LlamaForCausalLM theirs/lm
mlx import model theirs/lm >/dev/null 2>&1
cat >questions.jsonl <<'E2'
{"question": "the mill", "choices": ["turns by the river", "old"], "answer": 0}
{"context": "the old stone", "choices": ["river", "turns", "by the mill . the mill"], "answer": "river", "id": 7}

{"question": "by the river", "choices": ["the old mill turns", "stone", "."], "answer": "B"}
{"question": "stone ", "choices": ["mill", "river by"], "answer": 1}
E2
cat >expected.py <<'PY'
import json, math, struct, subprocess, sys
WORDS = ["<s>", "<unk>", "the", "mill", "stone", "river", "by", "turns", "old", "."]
def tokens(text):
    return [0] + [WORDS.index(word) for word in text.split()]
def rows(ids):
    subprocess.run([sys.argv[1], "predict", "lm", "--tokens", " ".join(map(str, ids)), "--logits", "out.npy"], check=True, capture_output=True)
    data = open("out.npy", "rb").read()
    start = 10 + int.from_bytes(data[8:10], "little")
    shape = eval(data[10:start])["shape"]
    numbers = struct.unpack(f"<{shape[0] * shape[1]}f", data[start:])
    return [numbers[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]
right, right_by_length, count = 0, 0, 0
for line in open("questions.jsonl"):
    if not line.strip():
        continue
    question = json.loads(line)
    text, choices, answer = question.get("question", question.get("context")), question["choices"], question["answer"]
    answer = answer if isinstance(answer, int) else choices.index(answer) if answer in choices else ord(answer) - 65
    sums = []
    for choice in choices:
        ids, first = tokens(text + " " + choice), len(tokens(text))
        logits = rows(ids)
        sums.append(sum(logits[i - 1][ids[i]] - math.log(sum(map(math.exp, logits[i - 1]))) for i in range(first, len(ids))))
    count += 1
    right += sums.index(max(sums)) == answer
    normal = [s / len(choice) for s, choice in zip(sums, choices)]
    right_by_length += normal.index(max(normal)) == answer
print(f"({count}, {right}, {right_by_length})")
PY
expect 0 mlx eval lm --data questions.jsonl --json
same "$(json "d['count'], d['correct'], d['correct_norm']")" "$(python3 expected.py "$mlx_binary")"
same "$(json "d['target'], d['unit'], d['unchanged'], d['recorded'], d['file'], sorted(d['metrics'])")" \
  "('choices', 'questions', False, True, 'questions.jsonl', ['accuracy', 'accuracy_norm', 'accuracy_norm_stderr', 'accuracy_stderr'])"
same "$(json "d['data']")" "sha256:$(sha256sum questions.jsonl | cut -d' ' -f1)"
accuracy=$(json "d['metrics']['accuracy']")
expect 0 mlx eval lm --data questions.jsonl
has "$out" "4 questions"
has "$out" unchanged
expect 1 mlx eval lm --data questions.jsonl --require "accuracy > $accuracy" --require 'accuracy_norm >= 0'
has "$out" "not met"
expect 0 mlx show lm
has "$out" choices
expect 0 mlx log --runs
has "$out" eval

# A question is answered alike among others, and one that is too long loses its beginning.
tail -n 1 questions.jsonl >one.jsonl
expect 0 mlx eval lm --data one.jsonl --json
python3 -c "
import json
json.dump({'question': 'old ' * 200 + 'the mill', 'choices': ['turns', 'by'], 'answer': 0}, open('long.jsonl', 'w'))"
expect 0 mlx eval lm --data long.jsonl

# A model in a folder, outside of the repository's versions: measured and not recorded.
mlx checkout lm --to "$work.outside" >/dev/null 2>&1
rm -f "$work.outside/generation_config.json"
expect 0 mlx eval "$work.outside" --data questions.jsonl --json
same "$(json "d['recorded'], d['metrics']['accuracy']")" "(False, $accuracy)"

bad() { # LINE TEXT
  printf '%s\n%s\n' "$(head -n 1 questions.jsonl)" "$1" >bad.jsonl
  error 2 "bad.jsonl: line 2: $2" mlx eval lm --data bad.jsonl
}
bad '["the mill"]' "it is no object"
bad '{"choices": ["a", "b"], "answer": 0}' "there is no 'question' and no 'context'"
bad '{"question": 3, "choices": ["a", "b"], "answer": 0}' "'question' is no text"
bad '{"question": "the", "choices": ["mill"], "answer": 0}' "1 choices, expected 2 to 1024"
bad '{"question": "the", "choices": ["mill", ""], "answer": 0}' "a choice is no text"
bad '{"question": "the", "choices": ["mill", "by"]}' "there is no 'answer'"
bad '{"question": "the", "choices": ["mill", "by"], "answer": 2}' "'answer' is none of the choices"
bad '{"question": "the", "choices": ["mill", "by"], "answer": "river"}' "'answer' is none of the choices"
: >bad.jsonl
error 2 "bad.jsonl: there is no question" mlx eval lm --data bad.jsonl
error 2 "--split and --memory are for datasets" mlx eval lm --data questions.jsonl --split test
error 2 "has no metric 'top5'" mlx eval lm --data questions.jsonl --require 'top5 > 0'
