# Training on several ranks of this machine, with the real MPI: the same bits on any number, whatever ends a rank.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=own_ranks.sh
source "$here/own_ranks.sh"

# Every family, with batch norm, dropout, stochastic depth, clipping, averages and several optimizers between them.
# shellcheck source=families.sh
source "$here/families.sh"
python3 - <<'PY'
import json, os, random
random.seed(4)
os.makedirs("data/chat")
with open("data/chat/train.jsonl", "w") as out:  # answers of different lengths: micro-batches have different numbers of labels
    for _ in range(60):
        turns = [{"role": role, "content": " ".join(random.choices(["mill", "stone", "river"], k=random.randint(1, 9)))} for role in ("user", "assistant")]
        out.write(json.dumps({"messages": turns}) + "\n")
PY
mlx add data/chat >/dev/null 2>&1
data=() train=()
config chat chat 'family = "gpt2"' 'layers = 1' 'width = 24' 'heads = 2' 'context = 40'
for name in cnn resnet mobile gpt2 llama mlp chat; do
  expect 0 mlx train -c $name.toml --set train.accumulate=4 --json
  one=$(digest)
  for ranks in 2 4; do
    expect 0 mlx train -c $name.toml --set train.accumulate=4 --ranks $ranks --force --json
    same "$name on $ranks: $(digest)" "$name on $ranks: $one"
    same "$(json "d['summary']['ranks']")" $ranks
  done
  # The key does not hold the number of ranks: what one has trained is known to two.
  expect 0 mlx train -c $name.toml --set train.accumulate=4 --ranks 2 --json
  same "$(json "d['unchanged']")" True
done
# Micro-batches that are no power of two, and ranks that have no whole part of the tree.
for ranks in 2 3 6; do
  expect 0 mlx train -c mlp.toml --set train.batch=12 --set train.accumulate=6 --ranks $ranks --force --json
  same "$(digest)" "${six:=$(digest)}"
done
# Without accumulate there is one micro-batch a rank, and training follows that of one rank.
expect 0 mlx train -c gpt2.toml --json
one=$(json "d['summary']['loss']")
expect 0 mlx train -c gpt2.toml --ranks 2 --json
python3 -c "import sys; sys.exit(abs($(json "d['summary']['loss']") / $one - 1) > 1e-5)" || fail "the loss of two ranks is not that of one"
same "$(json "d['summary']['communication']['bytes_sent'] > 0")" True

# Ranks that hold the parts of one model: whoever shares its micro-batches, the bits are the same, and they follow those
# of one rank.
for name in gpt2 llama; do
  settings=(--set train.accumulate=2 --set train.optimizer=adamw)
  expect 0 mlx train -c $name.toml "${settings[@]}" --json
  one=$(json "d['summary']['loss']") whole=$(digest)
  expect 0 mlx train -c $name.toml "${settings[@]}" --ranks 2 --tp 2 --verify-every 1 --json
  parts=$(digest) run=$(json "d['run']")
  same "$(json "d['summary']['tp'], d['summary']['communication']['bytes_sent'] > 0, abs(d['summary']['loss'] / $one - 1) < 1e-5")" "(2, True, True)"
  [ "$parts" != "$whole" ] || fail "$name: $whole is the model of one rank and of two parts"
  expect 0 mlx train -c $name.toml "${settings[@]}" --ranks 4 --tp 2 --verify-every 1 --force --json
  same "$name on 4: $(digest)" "$name on 4: $parts"
  # It is a model like any other, and its training goes on in one rank.
  expect 0 mlx eval $name --data data/words --split train --json
  expect 0 mlx train -c $name.toml "${settings[@]}" --resume "run:$run" --set train.epochs=3 --json
  same "$(json "d['summary']['resumed_from'] > 0, 'tp' in d['summary']")" "(True, False)"
done
mlx train -c llama.toml --tp 2 --ranks 2 --precision bf16 >/dev/null 2>.err || has "$(cat .err)" 'bf16'
# What is too large for one rank trains on two: each needs less.
printf '%s\n' '[data]' 'dataset = "data/words"' '[model]' 'name = "large"' 'family = "llama"' 'layers = 4' 'width = 256' 'heads = 4' 'context = 32' '[train]' 'epochs = 1' 'batch = 2' 'optimizer = "adamw"' >large.toml
needed() { error 2 '1.0 KiB are allowed' mlx train -c large.toml --memory 1KiB "$@" && sed -n 's/.*--memory \([0-9]*\)MiB.*/\1/p' <<<"$err" | head -1; }
alone=$(needed) divided=$(needed --ranks 2 --tp 2)
[ "$divided" -lt $((alone * 9 / 10)) ] || fail "$divided MiB are needed in two parts, $alone MiB in one"
error 2 ' are allowed' mlx train -c large.toml --memory "$(((alone + divided) / 2))MiB"
expect 0 mlx train -c large.toml --memory "$(((alone + divided) / 2))MiB" --ranks 2 --tp 2 --json
grep -q __asan_init "$mlx_binary" || same "$(json "d['summary']['peak_memory'] <= ($alone + $divided << 19) * 1.05")" True

# Images are mixed with those of other ranks as on one.
mixed=(--set data.augment.mixup=0.3 --set data.augment.shift=1 --set train.accumulate=4)
expect 0 mlx train -c resnet.toml "${mixed[@]}" --json
one=$(digest)
for ranks in 2 4; do
  expect 0 mlx train -c resnet.toml "${mixed[@]}" --ranks $ranks --force --json
  same "mixed on $ranks: $(digest)" "mixed on $ranks: $one"
done

# Ranks that share the optimizer's state: the bits of one rank, in the model and in the state that it leaves, and less
# memory for each.
shared=(--set train.batch=12 --set train.accumulate=6)
expect 0 mlx train -c llama.toml "${shared[@]}" --json
one=$(digest) run=$(json "d['run']")
for ranks in 2 3; do
  expect 0 mlx train -c llama.toml "${shared[@]}" --ranks $ranks --zero 1 --verify-every 1 --force --json
  same "zero on $ranks: $(digest)" "zero on $ranks: $one"
  same "$(json "d['summary']['zero'], d['summary']['communication']['bytes_sent'] > 0")" '(1, True)'
done
expect 0 mlx train -c llama.toml "${shared[@]}" --resume "run:$(json "d['run']")" --set train.epochs=3 --json
expect 0 mlx train -c llama.toml "${shared[@]}" --resume "run:$run" --set train.epochs=3 --zero 1 --json
same "$(json "d['unchanged']")" True
memory_of() { mlx train -c large.toml --set train.batch=4 --ranks 4 -n --json "$@" | python3 -c 'import json,sys; d = json.load(sys.stdin); print(d["hosts"][0]["rank_memory"])'; }
all=$(memory_of) share=$(memory_of --zero 1)
[ "$share" -lt $((all * 9 / 10)) ] || fail "$share bytes with a share of the optimizer's state, $all with all of it"

# Started by MPI itself.
expect 0 mpirun -q --np 2 --oversubscribe --bind-to none "$mlx_binary" train -c gpt2.toml --set train.accumulate=2 --force --json
expect 0 mlx train -c gpt2.toml --set train.accumulate=2 --json
same "$(json "d['unchanged']")" True
error 2 '--ranks 3: MPI has started 2' mpirun -q --np 2 --oversubscribe --bind-to none sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exec "$0" train -c gpt2.toml --ranks 3; else sleep 9; fi' "$mlx_binary"

# A long training: interrupted, and ended in every way. It goes on from its checkpoint on any number of ranks, to the bits
# of one that nobody stopped.
sed 's/^epochs = 2/epochs = 5000\naccumulate = 4\ncheckpoint_every = "100 steps"/' cnn.toml >long.toml
long() { mlx train -c long.toml "$@"; }
stopped() { # HOW SIGNAL CODE: signals the launcher, or a rank
  local code=0 process
  "$mlx_binary" train -c long.toml --ranks 2 >/dev/null 2>"$work/.err" &
  local launcher=$!
  for _ in {1..100}; do
    # A checkpoint is there, or a signal would only show that nothing was begun.
    mlx log --runs --json | python3 -c 'import json,sys; sys.exit(json.load(sys.stdin)["runs"][0]["status"] != "running")' && [ -n "$(pgrep -P "$(pgrep -P $launcher | head -1)" 2>/dev/null)" ] && break
    sleep 0.05
  done
  sleep 0.4
  case $1 in
    launcher) process=$launcher ;;
    rank)
      for _ in {1..100}; do
        process=$(for p in $(here_run); do if grep -qxz "OMPI_COMM_WORLD_RANK=$4" "/proc/$p/environ" 2>/dev/null; then echo "$p"; fi; done)
        [ -z "$process" ] || break
        sleep 0.05
      done
      ;;
  esac
  kill "-$2" "$process"
  wait $launcher || code=$?
  same "$1 $2 ended with $code" "$1 $2 ended with $3"
  all_gone
}
stopped launcher TERM 143
has "$(cat .err)" 'a checkpoint is kept'
stopped launcher KILL 137
stopped rank KILL 7 1
has "$(cat .err)" 'rank 1 on '
has "$(cat .err)" ' was ended by signal 9'
has "$(cat .err)" 'the same command continues from the last checkpoint, on any number of ranks'
stopped rank KILL 7 0
# A rank that hangs is named, and the others do not wait for it.
stopped rank STOP 7 1
has "$(cat .err)" 'error: rank 1 on '
has "$(cat .err)" ' has said nothing for 8 s; at step '
expect 0 long --ranks 4 --json
resumed=$(digest)
same "$(json "'resumed_from' in d['summary']")" True
expect 0 long --force --json
same "$resumed" "$(digest)"

# What the launcher sees of its ranks: how fast they go, off a terminal in the line of each interval; a slow one, told
# once with what it waits for; and all of it in the run. The text of a warning is kept as that of its rank.
slow() { # STOPPED RUNNING LATER: stops rank 1 most of the time, as another process on its core would, until it is gone
  local process=
  until [ -n "$process" ]; do sleep 0.1; process=$(for p in $(here_run); do if grep -qxz OMPI_COMM_WORLD_RANK=1 "/proc/$p/environ" 2>/dev/null; then echo "$p"; fi; done); done
  sleep "$3"
  while kill -STOP "$process" 2>/dev/null; do sleep "$1"; kill -CONT "$process" 2>/dev/null; sleep "$2"; done
}
# It computes for most of a step: where messages take that time, nobody is told.
config wide bars 'family = "cnn"' 'layers = [{ conv = 256 }, { conv = 256 }, { pool = "max", size = 2 }, { flatten = true }]'
sed -i 's/^epochs = 2/epochs = 5000/' wide.toml
"$mlx_binary" train -c wide.toml --ranks 2 >"$work/.out" 2>"$work/.err" &
launcher=$!
slow 0.4 0.08 1 & slower=$!
for _ in {1..400}; do grep -q ' is slow: ' "$work/.err" && grep -q 'slowest rank' "$work/.err" && break; sleep 0.1; done
kill -TERM $launcher
code=0; wait $launcher || code=$?
same "$code" 143
wait $slower || true
all_gone
has "$(cat .err)" 'mlx: warning: rank 1 on '
has "$(cat .err)" ' a step where the other takes '
has "$(cat .err)" '; it waits for a core: it gets '
has "$(grep '^training ' .err)" ' images/s  slowest rank '
has "$(grep '^training ' .err)" ' waiting '
same "$(grep -c ' is slow: ' .err)" 1
lacks "$(cat .err)" $'\x1e'
run=$(mlx log --runs --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["runs"][0]["id"])')
expect 0 mlx show "$run" --rank-log 0
has "$out" 'error: interrupted after step'
lacks "$out" 'is slow'
lacks "$out" 'training '
same "$(mlx show "$run" --json | python3 -c 'import json,sys; print([l["of"].split(" on ")[0] for l in json.load(sys.stdin)["logs"]])')" "['rank 0']"
has "$(mlx show "$run")" '  (--rank-log N prints one)'
expect 0 mlx show "$run" --rank-log all --json
same "$(json "d['kind'], len(d['logs'])")" "('log', 1)"
error 3 'nothing is kept of rank 1' mlx show "$run" --rank-log 1
error 2 'expected the number of a rank' mlx show "$run" --rank-log x
error 2 'a version has no ranks' mlx show mlp --rank-log 0
expect 0 mlx train -c gpt2.toml --ranks 2 --force --json
run=$(json "d['run']")
same "$(json "[r['rank'] for r in d['summary']['communication']['ranks']]")" "[0, 1]"
same "$(json "all(r['bytes_sent'] > 0 and 0 <= r['waiting_share'] <= 1 and r['tokens_per_second'] > 0 for r in d['summary']['communication']['ranks'])")" True
same "$(json "abs(d['summary']['rank_hours'] - 2 * d['summary']['seconds'] / 3600) < 1e-12 and d['summary']['core_hours'] > 0")" True
has "$(mlx show "run:$run")" 'computing'
expect 0 mlx show "run:$run" --metric ranks/communication_share --json
same "$(json "len(d['points']) > 0 and all(0 <= p['value'] <= 1 for p in d['points'])")" True
error 3 'no rank said anything' mlx show "run:$run" --rank-log 0
expect 0 mlx train -c gpt2.toml --ranks 2 --force
has "$out" '2 ranks: '
has "$out" ' rank-hours'
expect 0 mlx train -c gpt2.toml --ranks 2 --force --quiet
same "$err" ''

# Ranks that get work by how fast they are: the bits of one rank, whatever was measured.
sed -i 's/^epochs = .*/epochs = 10/; s/^batch = .*/batch = 16\naccumulate = 16/' wide.toml
expect 0 mlx train -c wide.toml --json
one=$(digest)
slow 0.2 0.07 0 & slower=$!
expect 0 mlx train -c wide.toml --ranks 2 --balance --verify-every 1 --force --json
wait $slower || true
same "$(digest)" "$one"
same "$(json "sum(r['micro_batches'] for r in d['summary']['communication']['ranks'])")" 16

# A profile of all ranks, in one trace: a process each, on one clock.
expect 0 mlx train -c cnn.toml --set train.accumulate=2 --ranks 2 --force --profile --trace steps.json
has "$out" 'exchange'
has "$out" '  rank 1 on '
has "$out" '  waiting '
python3 - <<'PY' || fail "steps.json is no trace of two ranks: $(head -c 300 steps.json)"
import json
events = json.load(open("steps.json"))
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
assert [names[pid].split(" on ")[0] for pid in sorted(names)] == ["rank 0", "rank 1"], names
spans = [e for e in events if e["ph"] == "X"]
of = lambda pid, cat: [e for e in spans if e["pid"] == pid and e["cat"] == cat]
first, second = of(1, "step"), of(2, "step")
assert len(first) == len(second) > 2 and [e["name"] for e in first] == [e["name"] for e in second]
for a, b in zip(first, second):  # the same step, at the same time
    assert a["ts"] < b["ts"] + b["dur"] and b["ts"] < a["ts"] + a["dur"], (a, b)
for pid in 1, 2:
    assert of(pid, "conv2d") and of(pid, "wait")
    exchanges = of(pid, "exchange")
    assert len(exchanges) >= len(first) and min(e["tid"] for e in exchanges) == 2 and exchanges[0]["name"] == "bucket 0"
assert min(e["ts"] for e in spans) == 0
PY
expect 0 mlx train -c cnn.toml --set train.accumulate=2 --ranks 2 --force --profile --json
same "$(json "[r['name'].split(' on ')[0] for r in d['profile']['ranks']]")" "['rank 0', 'rank 1']"
same "$(json "all(0 <= r['waiting_seconds'] <= r['seconds'] and r['bytes_sent'] > 0 and r['exchange_seconds'] > 0 for r in d['profile']['ranks'])")" True
same "$(json "d['profile']['waiting_seconds'] == d['profile']['ranks'][0]['waiting_seconds']")" True
# The report draws what each rank did.
expect 0 mlx report cnn --out report.html
has "$(cat report.html)" '<svg class="ranks"'
has "$(cat report.html)" 'rect class="computing"'
has "$(cat report.html)" '>rank 1 · '

# Ranks that compare their bits find them the same.
expect 0 mlx train -c gpt2.toml --set train.accumulate=2 --ranks 2 --verify-every 1 --force --json
verified=$(digest)
expect 0 mlx train -c gpt2.toml --set train.accumulate=2 --json
same "$verified" "$(digest)"

# Half the bytes on the wire: other bits, the same on any number of ranks.
for ranks in 1 2 4; do
  expect 0 mlx train -c cnn.toml --set train.accumulate=4 --wire bf16 --ranks $ranks --force --json
  same "$(digest)" "${rounded:=$(digest)}"
done
[ "$rounded" != "$(mlx train -c cnn.toml --set train.accumulate=4 --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["digest"])')" ] || fail "bf16 on the wire changed no bit"

# Local SGD: the same workers make the same model, stopped between two exchanges and resumed or not.
apart() { mlx train -c cnn.toml --sync-every 7 --ranks 2 "$@"; }
expect 0 apart --json
together=$(digest)
expect 0 apart --json
same "$(json "d['unchanged']")" True
expect 0 apart --verify-every 1 --force --json
same "$together" "$(digest)"
expect 0 mlx train -c cnn.toml --set train.sync_every=7 --ranks 4 --json
[ "$together" != "$(digest)" ] || fail "four workers made the model of two"
sed -i 's/^accumulate = 4$/sync_every = 7/; s/checkpoint_every = .*/checkpoint_every = "20 steps"/; s/^epochs = .*/epochs = 2500/' long.toml
stopped launcher TERM 143
has "$(cat .err)" 'a checkpoint is kept'
stopped rank KILL 7 1
expect 0 long --ranks 2 --json
resumed=$(digest)
same "$(json "'resumed_from' in d['summary']")" True
expect 0 long --ranks 2 --force --json
same "$resumed" "$(digest)"
error 2 'workers = 3, and there are 2 ranks' mlx train -c mlp.toml --set train.sync_every=4 --set train.workers=3 --set train.batch=12 --ranks 2
error 2 'local SGD ([train] sync_every) continues only with all of its workers' mlx train -c mlp.toml --sync-every 4 --ranks 2 --min-ranks 1
error 2 'sync_every' mlx train -c mlp.toml --sync-every -1 --ranks 2

# What cannot be is said before anything is started.
error 2 "gpt2.toml: [train] tp = 2: the number of ranks, 1, is no multiple of it" mlx train -c gpt2.toml --tp 2
has "$err" '--ranks 2, or --tp 1'
error 2 'tp = 3: '"'block0.attention' has 2 heads, which 3 ranks do not divide" mlx train -c gpt2.toml --set train.optimizer=adamw --ranks 3 --tp 3
error 2 "tp = 4: 'block0.attention.rope' has 2 heads of keys and values, which 4 ranks do not divide" mlx train -c llama.toml --ranks 4 --tp 4
error 2 'tp = 2: the model has no layers that several ranks can divide' mlx train -c resnet.toml --ranks 2 --tp 2
error 2 "tp = 2: 'dense1' has 17 outputs, which 2 ranks do not divide" mlx train -c cnn.toml --ranks 2 --tp 2
error 2 'tp = 2: muon works on whole matrices' mlx train -c gpt2.toml --ranks 2 --tp 2
error 2 'accumulate = 4 micro-batches cannot be shared among 6 ranks, 2 for each model' mlx train -c llama.toml --set train.accumulate=4 --ranks 6 --tp 2
for tp in -1 0; do error 2 "--tp $tp: expected the number of ranks" mlx train -c llama.toml --ranks 2 --tp $tp; done
error 2 'gpt2.toml: [train] zero = 1: muon works on whole matrices' mlx train -c gpt2.toml --ranks 2 --zero 1
error 2 "zero = 1: the optimizer's state is divided among ranks that hold whole models" mlx train -c llama.toml --ranks 2 --tp 2 --zero 1
error 2 'balance: each of 2 ranks has one micro-batch, and none to give' mlx train -c gpt2.toml --ranks 2 --balance
has "$err" '--set train.accumulate=8'
error 2 'balance: ranks that hold parts of a model have the same batch' mlx train -c llama.toml --ranks 4 --tp 2 --set train.accumulate=4 --balance
error 2 'balance: each worker of local SGD' mlx train -c mlp.toml --ranks 2 --sync-every 4 --balance
error 2 'balance' mlx train -c mlp.toml --ranks 2 --set train.balance=2
error 2 'zero = 1: each worker of local SGD has an optimizer of its own' mlx train -c mlp.toml --ranks 2 --sync-every 4 --zero 1
error 2 'zero' mlx train -c mlp.toml --ranks 2 --set train.zero=2
error 2 '--zero' mlx train -c mlp.toml --ranks 2 --zero 3
error 2 'accumulate = 4 micro-batches cannot be shared among 3 ranks' mlx train -c mlp.toml --set train.accumulate=4 --ranks 3
error 2 '7 micro-batches of equal size do not make a batch of 20' mlx train -c mlp.toml --ranks 7
error 2 '--verify-every -1: expected a number of steps' mlx train -c mlp.toml --ranks 2 --verify-every -1
error 2 '--min-ranks -1: expected' mlx train -c mlp.toml --ranks 2 --min-ranks -1
error 2 '--ranks -1: expected 1 to 4096' mlx train -c mlp.toml --ranks -1
error 8 'mpirun cannot be started' env PATH=/nowhere "$mlx_binary" train -c mlp.toml --set train.seed=3 --ranks 2
has "$err" 'openmpi-bin'
for launcher in PMI_SIZE SLURM_STEP_NUM_TASKS; do error 2 "$launcher=2: these processes do not know of each other" env $launcher=2 "$mlx_binary" train -c mlp.toml; done
# A number that is not finite ends all ranks, once and in the same step.
error 9 'at step' mlx train -c mlp.toml --set train.learning_rate=1000 --set train.optimizer=sgd --set train.loss=mse --ranks 2
error 9 'at step' mlx train -c mlp.toml --set train.learning_rate=1000 --set train.optimizer=sgd --set train.loss=mse --ranks 2 --zero 1
all_gone

# What the plan says of a step's traffic is what ranks send.
for ranks in 2 4; do
  expect 0 mlx train -c mlp.toml --set train.accumulate=4 --ranks $ranks --force -n --json
  planned=$(json "d['step_traffic']['bytes']")
  expect 0 mlx train -c mlp.toml --set train.accumulate=4 --ranks $ranks --force --json
  same "$(json "$planned > 0 and abs(d['summary']['communication']['bytes_sent'] / d['summary']['steps'] / $planned - 1) < 0.01")" True
done
expect 0 mlx train -c mlp.toml --set train.accumulate=4 --ranks 4 --force -n
has "$out" 'each rank sends '
