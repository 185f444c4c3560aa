# Training with the stages of one model on several ranks of this machine, with the real MPI: the bits of one rank.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=own_ranks.sh
source "$here/own_ranks.sh"
# shellcheck source=families.sh
source "$here/families.sh"
same_loss() { python3 -c "import sys; sys.exit(abs($(json "d['summary']['loss']") / $1 - 1) > 1e-5)" || fail "the loss is $(json "d['summary']['loss']"), and $1 on one rank"; }

# Two stages, alone and with data parallel, have the digest of one rank. The key does not hold the stages.
for name in gpt2 llama; do
  settings=(--set train.accumulate=4)
  expect 0 mlx train -c $name.toml "${settings[@]}" --json
  one=$(digest)
  expect 0 mlx train -c $name.toml "${settings[@]}" --ranks 2 --pp 2 --json
  same "$(json "d['unchanged']")" True
  for ranks in 2 4; do
    expect 0 mlx train -c $name.toml "${settings[@]}" --ranks $ranks --pp 2 --verify-every 1 --force --json
    same "$name on $ranks: $(digest)" "$name on $ranks: $one"
    same "$(json "d['summary']['pp'], d['summary']['ranks'], d['summary']['communication']['bytes_sent'] > 0, 'tp' in d['summary']")" "(2, $ranks, True, False)"
  done
done
# With tensor parallel they have the bits of the parts alone.
settings=(--set train.accumulate=4 --set train.optimizer=adamw)
for name in gpt2 llama; do
  expect 0 mlx train -c $name.toml "${settings[@]}" --json
  one=$(json "d['summary']['loss']")
  expect 0 mlx train -c $name.toml "${settings[@]}" --ranks 2 --tp 2 --json
  parts=$(digest)
  same_loss "$one"
  expect 0 mlx train -c $name.toml "${settings[@]}" --ranks 4 --tp 2 --pp 2 --verify-every 1 --force --json
  same "$name in parts and stages: $(digest)" "$name in parts and stages: $parts"
done
# A batch is cut into four micro-batches for each stage, unless it says how many: as many as divide it.
expect 0 mlx train -c llama.toml --ranks 2 --pp 2 --force --json -n
same "$(json "d['pp'], d['accumulate'], [s['micro_batches'] for s in d['stages']], [s['memory']['peak'] > 0 for s in d['stages']]")" "(2, 5, [2, 1], [True, True])"
same "$(json "[(s['first'], s['last']) for s in d['stages']]")" "[('tokens', 'block0.mlp.down'), ('norm', 'logits')]"
expect 0 mlx train -c llama.toml --ranks 4 --pp 2 --set train.accumulate=4 --force -n
has "$out" 'would train llama on 4 ranks, 2 for each model, a batch in 4 parts'
has "$out" '  stage 1  tokens to block0.mlp.down, '
has "$out" ', activations of 2 micro-batches '
expect 0 mlx train -c llama.toml --ranks 4 --force -n --json
same "$(json "d['pp'], d['stages']")" "(1, [])"

# Interrupted and killed, it goes on with any other stages, to the bits of one that nobody stopped.
sed 's/^epochs = 2/epochs = 2000\naccumulate = 4\ncheckpoint_every = "20 steps"/' llama.toml >long.toml
long() { mlx train -c long.toml "$@"; }
stopped() { # SIGNAL CODE RANK ARGUMENT...: signals a rank, or the launcher
  local signal=$1 wanted=$2 rank=$3 code=0 process
  shift 3
  "$mlx_binary" train -c long.toml "$@" >/dev/null 2>"$work/.err" &
  local launcher=$!
  for _ in {1..100}; do
    mlx log --runs --json | python3 -c 'import json,sys; sys.exit(json.load(sys.stdin)["runs"][0]["status"] != "running")' && [ -n "$(pgrep -P "$(pgrep -P $launcher | head -1)" 2>/dev/null)" ] && break
    sleep 0.05
  done
  sleep 0.4
  process=$launcher
  [ "$rank" = launcher ] || process=$(for p in $(here_run); do if grep -qxz "OMPI_COMM_WORLD_RANK=$rank" "/proc/$p/environ" 2>/dev/null; then echo "$p"; fi; done)
  kill "-$signal" "$process"
  wait $launcher || code=$?
  same "$rank $signal ended with $code" "$rank $signal ended with $wanted"
  all_gone
}
stopped TERM 143 launcher --ranks 2 --pp 2
has "$(cat .err)" 'a checkpoint is kept'
stopped KILL 7 1 --ranks 2 --pp 2
has "$(cat .err)" 'rank 1 on '
has "$(cat .err)" ' was ended by signal 9'
stopped KILL 7 0 --ranks 4 --pp 2
stopped KILL 7 2 --ranks 3 --pp 3
expect 0 long --json
resumed=$(digest)
same "$(json "d['summary']['resumed_from'] > 0")" True
expect 0 long --force --ranks 3 --pp 3 --json
same "$resumed" "$(digest)"
# A state that a divided model left goes on in another division, as a run of its own.
expect 0 mlx train -c gpt2.toml --set train.accumulate=4 --set train.optimizer=adamw --ranks 4 --tp 2 --pp 2 --json
run=$(json "d['run']")
expect 0 mlx train -c gpt2.toml --set train.accumulate=4 --set train.optimizer=adamw --resume "run:$run" --set train.epochs=3 --ranks 3 --pp 3 --json
same "$(json "d['summary']['resumed_from'] > 0, 'tp' in d['summary'], d['summary']['pp']")" "(True, False, 3)"

# What is too large for one rank trains on two, and each takes what was forecast.
printf '%s\n' '[data]' 'dataset = "data/words"' '[model]' 'name = "large"' 'family = "llama"' 'layers = 4' 'width = 256' 'heads = 4' 'context = 32' '[train]' 'epochs = 1' 'batch = 4' 'accumulate = 4' 'optimizer = "adamw"' >large.toml
needed() { error 2 '1.0 KiB are allowed' mlx train -c large.toml --memory 1KiB "$@" && sed -n 's/.*--memory \([0-9]*\)MiB.*/\1/p' <<<"$err" | head -1; }
alone=$(needed) staged=$(needed --ranks 2 --pp 2)
[ "$staged" -lt $((alone * 9 / 10)) ] || fail "$staged MiB are needed in two stages, $alone MiB in one"
between=$(((alone + staged) / 2))
error 2 ' are allowed' mlx train -c large.toml --memory "${between}MiB"
expect 0 mlx train -c large.toml --memory "${between}MiB" --ranks 2 --pp 2 --json
capped=$(digest)
sanitized || same "$(json "d['summary']['peak_memory'] <= ($between << 20) * 1.05")" True
expect 0 mlx train -c large.toml --force --json
same "$capped" "$(digest)"

# A trace has what each stage did when: forward and backward of each micro-batch, and waiting for the other stage.
expect 0 mlx train -c gpt2.toml --set train.accumulate=4 --set train.epochs=4 --ranks 2 --pp 2 --force --trace steps.json --json
python3 - <<'PY' || fail 'the trace lacks what the stages did'
import json
events = [e for e in json.load(open("steps.json")) if e["ph"] == "X"]
for process in (1, 2):
    own = [e for e in events if e["pid"] == process]
    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in own if e["cat"] == "step")
    passes = sorted((e["ts"], e["name"]) for e in own if e["cat"] == "pipeline")
    names = [name for at, name in passes if steps[1][0] <= at < steps[1][1] and not name.startswith("backward of")]
    forward, backward = [n for n in names if n.startswith("forward")], [n for n in names if n.startswith("backward")]
    assert forward == [f"forward {i}" for i in range(4)] and backward == [f"backward {i}" for i in range(4)], names
    assert names[:2] == (["forward 0", "forward 1"] if process == 1 else ["forward 0", "backward 0"]), names
    assert any(e["name"] == f"wait for stage {3 - process}" and e["cat"] == "wait" for e in own)
PY

# What cannot be is said before anything is started.
error 2 'gpt2.toml: [train] pp = 2: the number of ranks, 1, is no multiple of it' mlx train -c gpt2.toml --pp 2
has "$err" '--ranks 2, or --pp 1'
error 2 'tp = 2, pp = 2: the number of ranks, 6, is no multiple of their product, 4' mlx train -c llama.toml --ranks 6 --tp 2 --pp 2
error 2 'pp = 4: the model can be cut into 3 stages at most' mlx train -c gpt2.toml --ranks 4 --pp 4
error 2 'pp = 2: the model can be cut into 1 stage at most' mlx train -c mlp.toml --ranks 2 --pp 2
error 2 'pp = 2: the model keeps running statistics' mlx train -c resnet.toml --ranks 2 --pp 2
error 2 'pp = 2: stages work on different micro-batches of a batch, and it has one' mlx train -c gpt2.toml --set train.batch=1 --ranks 2 --pp 2
error 2 'pp = 2: the workers of local SGD hold whole models' mlx train -c gpt2.toml --sync-every 4 --ranks 2 --pp 2
error 2 'pp = 2: adapters are trained by ranks that hold the whole model' mlx train -c gpt2.toml --set 'model.init=gpt2' --set model.lora.rank=2 --ranks 2 --pp 2
error 2 'accumulate = 3 micro-batches cannot be shared among 4 ranks, 2 for each model' mlx train -c llama.toml --set train.batch=21 --set train.accumulate=3 --ranks 4 --pp 2
error 2 "zero = 1: the optimizer's state is divided among ranks that hold whole models" mlx train -c llama.toml --set train.accumulate=4 --ranks 4 --pp 2 --zero 1
has "$err" 'leave zero or pp out'
error 2 'balance: ranks that hold parts of a model have the same batch' mlx train -c llama.toml --set train.accumulate=4 --ranks 4 --pp 2 --balance
for pp in -1 0; do error 2 "--pp $pp: expected the number of stages" mlx train -c llama.toml --ranks 2 --pp $pp; done
all_gone
