# Distillation through the real binary: a student learns from a teacher's logits, as `mlx train` with [distill] does; unchanged, the
# same bits with one thread, killed and resumed; what does not fit is refused.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

mlx init >/dev/null 2>&1
bars 1 200 60 8 4
mlx add data/bars >/dev/null 2>&1
config() { # NAME HIDDEN [MORE]
  printf '[data]\ndataset = "data/bars"\nhold_out = 40\n[model]\nname = "%s"\nfamily = "mlp"\nhidden = [%s]\n[train]\nepochs = 3\nbatch = 16\noptimizer = "adamw"\n%s\n' "$@" "" >"$1.toml"
}
config teacher 32
mlx train -c teacher.toml >/dev/null 2>&1
config student 6
expect 0 mlx distill teacher -c student.toml --temperature 3 --share 0.75 --json
same "$(json "d['model'], d['unchanged'], d['summary']['teacher']")" "('student@v1', False, 'teacher@v1')"
id=$(json "d['digest']")
expect 0 mlx distill teacher -c student.toml --temperature 3 --share 0.75
has "$out" unchanged
expect 0 mlx lineage student
has "$out" "teacher@v1"
expect 0 mlx eval student --data data/bars --split test --require 'accuracy >= 0.9'
expect 0 mlx show student@v1 --json
lacks "$out" "teacher.dense"

# The same work by the config's table, with one thread, and killed and resumed.
printf '[distill]\nteacher = "teacher@v1"\ntemperature = 3.0\nshare = 0.75\n' >>student.toml
expect 0 mlx train -c student.toml
has "$out" unchanged
expect 0 env MLX_THREADS=1 "$mlx_binary" train -c student.toml --force --json
same "$(json "d['digest']")" "$id"
killed_training 16 -c student.toml --force
expect 0 mlx train -c student.toml --resume "$run" --json
same "$(json "d['digest']")" "$id"
expect 0 mlx distill teacher -c student.toml --share 0.5 --json
same "$(json "d['unchanged'], d['digest'] == '$id'")" "(False, False)"

# With a share of 1 the student agrees with a teacher that knows nothing of the labels.
sed 's/name = "teacher"/name = "random"/; s/epochs = 3/epochs = 1\nlearning_rate = 1e-9/' teacher.toml >random.toml
mlx train -c random.toml >/dev/null 2>&1
config agrees 32
expect 0 mlx distill random -c agrees.toml --share 1 --set train.epochs=12 --set train.learning_rate=5e-3
expect 0 mlx predict random data/bars --split test --out random.csv
expect 0 mlx predict agrees data/bars --split test --out agrees.csv
python3 - <<'PY' || fail "the student does not say what its teacher says"
rows = [[line.split(",")[-2] for line in open(name + ".csv")][1:] for name in ("random", "agrees")]
assert sum(a == b for a, b in zip(*rows)) > 0.85 * len(rows[0]), rows
PY

# A language model, of a teacher in integers; smaller, and of another family.
python3 - <<'PY'
import os, random
random.seed(6)
os.makedirs("data/words")
open("data/words/words.txt", "w").write(" ".join(random.choice(["mill", "stone", "river", "wheel"]) for _ in range(1000)))
PY
mlx add data/words >/dev/null 2>&1
language() { # NAME FAMILY LAYERS WIDTH
  printf '[data]\ndataset = "data/words"\nhold_out = 300\n[model]\nname = "%s"\nfamily = "%s"\nlayers = %s\nwidth = %s\nheads = 2\ncontext = 16\n[train]\nepochs = 2\nbatch = 16\noptimizer = "adamw"\n' "$@" >"$1.toml"
}
language large llama 2 64
mlx train -c large.toml >/dev/null 2>&1
mlx quantize large --to int4 --point >/dev/null 2>&1
language little gpt2 1 32
expect 0 mlx distill large@v2 -c little.toml --json
same "$(json "d['model'], d['summary']['memory']['peak'] > 0")" "('little@v1', True)"
expect 0 mlx distill large@v2 -c little.toml
has "$out" unchanged

# What does not fit.
error 3 "nothing" mlx distill nothing -c student.toml
error 2 "share" mlx distill teacher -c student.toml --share 2
error 2 "temperature" mlx distill teacher -c student.toml --temperature -1
error 2 "[distill] teacher = \"large@v1\"" mlx distill large@v1 -c student.toml
sed 's/context = 16/context = 32/' little.toml >long.toml
error 2 "it takes 16 tokens, the model 32: set [model] context" mlx distill large@v1 -c long.toml
error 2 "is for one process" mlx train -c student.toml --ranks 2 --force
printf '[distill]\ntemperature = 2.0\n' >>long.toml
error 2 "teacher" mlx train -c long.toml
