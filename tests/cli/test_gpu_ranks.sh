# Ranks with a GPU each, through the real binary and the real MPI: the bits of one rank on any number, whatever ends one;
# and what stands in their way is said. GPUs and NCCL are emulated: messages between GPUs go over sockets. With
# MLX_TEST_GPU=real they are the machine's own, as far as it has two, and tests that need the emulation are skipped.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=own_ranks.sh
source "$here/own_ranks.sh"
# shellcheck source=families.sh
source "$here/families.sh"

# An installation with the emulated module. Ranks of it are started by its own path.
modules=$(dirname "$mlx_binary")/lib/mlx
mkdir -p "$work/gpu/lib/mlx"
cp "$mlx_binary" "$work/gpu/mlx"
for module in onednn mpi; do cp "$modules/mlx_$module.so" "$work/gpu/lib/mlx/"; done
real=${MLX_TEST_GPU:-} gpus=4
if [ "$real" = real ]; then
  gpus=$(nvidia-smi -L | wc -l)
  [ "$gpus" -ge 2 ] || { echo "skipped: one GPU"; exit 0; }
  cp "$modules/mlx_cuda.so" "$work/gpu/lib/mlx/"
else
  cp "$modules/mlx_cuda_emulated.so" "$work/gpu/lib/mlx/mlx_cuda.so"
fi
mlx_binary=$work/gpu/mlx
export MLX_EMULATED_GPU_COUNT=$gpus
gpu() { mlx train --device cuda "$@"; }
mpi() { mpirun -q --np 2 --oversubscribe --bind-to none "$@"; }

# Every kind of sum: batch norm's statistics, clipped gradients, labels that are masked, and gradients of fp16, whose
# scale is the same on all. The default precision is bf16.
python3 - <<'PY'
import json, os, random
random.seed(4)
os.makedirs("data/chat")
with open("data/chat/train.jsonl", "w") as out:
    for _ in range(20):
        turns = [{"role": role, "content": " ".join(random.choices(["mill", "stone", "river"], k=random.randint(1, 9)))} for role in ("user", "assistant")]
        out.write(json.dumps({"messages": turns}) + "\n")
PY
mlx add data/chat >/dev/null 2>&1
data=() train=('ema = 0.9')
config chat chat 'family = "gpt2"' 'layers = 1' 'width = 24' 'heads = 2' 'context = 40'
for case in "cnn auto" "gpt2 fp16" "chat f32"; do
  read -r name precision <<<"$case"
  how=(-c "$name.toml" --set train.accumulate=4 --precision "$precision")
  expect 0 gpu "${how[@]}" --json
  one=$(digest) loss=$(json "d['summary']['loss']")
  for ranks in 2 4; do
    [ "$ranks" -le "$gpus" ] || continue
    expect 0 gpu "${how[@]}" --ranks $ranks --verify-every 3 --force --json
    same "$case on $ranks: $(digest)" "$case on $ranks: $one"
    same "$(json "d['summary']['ranks'], d['summary']['memory']['device'], d['summary']['communication']['bytes_sent'] > 0")" "($ranks, 'cuda', True)"
    same "$(json "abs(d['summary']['peak_memory'] / d['summary']['memory']['peak'] - 1) < 0.05")" True
  done
  # It follows the CPU, and the key does not hold the number of ranks.
  expect 0 gpu "${how[@]}" --ranks 2 --json
  same "$(json "d['unchanged']")" True
  [ "$precision" != f32 ] || { expect 0 mlx train -c "$name.toml" --set train.accumulate=4 --json && same "$(json "abs(d['summary']['loss'] / $loss - 1) < 1e-3")" True; }
done
[ "$real" != real ] || exit 0
# Micro-batches that are no power of two, and ranks that have no whole part of the tree.
for ranks in 1 3 6; do
  MLX_EMULATED_GPU_COUNT=6 expect 0 gpu -c mlp.toml --set train.batch=12 --set train.accumulate=6 --ranks $ranks --force --json
  same "$ranks: $(digest)" "$ranks: ${six:=$(digest)}"
done
# Launches that cannot be captured are made one by one: the same bits.
expect 0 gpu -c gpt2.toml --set train.accumulate=4 --json
one=$(digest)
MLX_EMULATED_GPU_CAPTURE=end expect 0 gpu -c gpt2.toml --set train.accumulate=4 --ranks 2 --force --json
same "$(digest)" "$one"
# What is free to choose trains on CPUs, and the plan names what ranks send.
expect 0 mlx train -c gpt2.toml --device auto --ranks 2 --json
same "$(json "d['summary']['precision'], 'device' in d['summary']['memory']")" "('f32', False)"
expect 0 gpu -c gpt2.toml --set train.epochs=3 --ranks 2 -n --json
same "$(json "d['ranks'], d['step_traffic']['bytes'] > 0, d['hosts'][0]['rank_memory'] > 0")" "(2, True, True)"

# Started by MPI itself; each rank sees a GPU of its own, or all see the same ones.
expect 0 mpi sh -c 'CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_RANK exec "$0" train -c mlp.toml --device cuda --set train.accumulate=4 --force --json' "$mlx_binary"
seen=$(digest)
expect 0 gpu -c mlp.toml --set train.accumulate=4 --json
same "$(json "d['unchanged']"), $seen" "True, $(digest)"
CUDA_VISIBLE_DEVICES=2,1 expect 0 gpu -c mlp.toml --set train.accumulate=4 --ranks 2 --force --json
same "$(digest)" "$seen"

# Too few GPUs: before anything is started, and by ranks that something else has started.
MLX_EMULATED_GPU_COUNT=1 error 2 'localhost has 1 GPU for 2 ranks' gpu -c mlp.toml --ranks 2 --force
has "$err" 'CUDA_VISIBLE_DEVICES'
CUDA_VISIBLE_DEVICES=1 error 2 'localhost has 1 GPU for 4 ranks' gpu -c mlp.toml --ranks 4 --force
CUDA_VISIBLE_DEVICES=0 expect 2 mpi "$mlx_binary" train -c mlp.toml --device cuda --force
has "$err" "mlx: error: $(hostname) has 1 GPU for 2 ranks, and each needs one of its own"
same "$(grep -c 'GPU for 2 ranks' <<<"$err")" 1
# GPUs of two models would make other bits.
expect 4 mpi sh -c 'MLX_EMULATED_GPU_NAME=model$OMPI_COMM_WORLD_RANK exec "$0" train -c mlp.toml --device cuda --force' "$mlx_binary"
has "$err" 'this rank would not train the same model as rank 0'
has "$err" 'the same kind of GPU'

# What ranks with GPUs do not do.
refused() { # TEXT OPTIONS...
  local text=$1
  shift
  error 2 "--device cuda: $text" gpu "$@"
}
refused 'ranks with GPUs hold whole models' -c gpt2.toml --ranks 2 --tp 2
refused 'ranks with GPUs hold whole models' -c gpt2.toml --ranks 2 --pp 2
refused "ranks with GPUs have all of the optimizer's state" -c llama.toml --ranks 2 --zero 1
refused 'ranks with GPUs have as many micro-batches each' -c cnn.toml --ranks 2 --set train.accumulate=4 --balance
refused 'batch_norm = "synchronised" is for CPUs' -c cnn.toml --ranks 2 --set 'train.batch_norm="synchronised"'
refused '[train] wire is for CPUs' -c cnn.toml --ranks 2 --wire bf16
refused 'local SGD ([train] sync_every) is for CPUs' -c cnn.toml --ranks 2 --sync-every 4
refused '--encrypt: GPUs send gradients as they are, by NCCL' -c cnn.toml --hosts localhost:1,b --encrypt
error 2 'a GPU has nobody to wait for' gpu -c cnn.toml --ranks 2 --async 1

# NCCL is missing, or fails: the call, the rank and its host are named, once, and nothing is left running.
MLX_EMULATED_GPU_LIBRARIES="libcublasLt.so.13 libcudnn.so.9" expect 8 gpu -c mlp.toml --ranks 2 --force
has "$err" "mlx: error: rank 0 on $(hostname): NCCL is missing: there is no libnccl.so.2 on the loader's path or in /usr/local/cuda/lib64"
has "$err" 'LD_LIBRARY_PATH'
same "$(grep -c 'NCCL is missing' <<<"$err")" 1
MLX_EMULATED_GPU_LIBRARIES="libcublasLt.so.13 libcudnn.so.9" expect 0 gpu -c mlp.toml --force  # which one GPU does not need
for call in ncclGetUniqueId ncclCommInitRank; do
  MLX_EMULATED_GPU_LIBRARY_FAILS=$call expect 7 gpu -c mlp.toml --ranks 2 --force
  has "$err" "mlx: error: rank 0 on $(hostname): $call: unhandled system error: emulated"
  same "$(grep -c 'mlx: error' <<<"$err")" 1
done
for call in ncclSend ncclRecv ncclGroupEnd; do
  MLX_EMULATED_GPU_LIBRARY_FAILS=$call expect 7 gpu -c mlp.toml --ranks 2 --force
  has "$err" ": NCCL: $call: unhandled system error: emulated"
  has "$err" "on $(hostname)"
  lacks "$err" "on $(hostname): rank"
  all_gone
done
# On one rank only: the other does not wait for it.
MLX_FAILS=ncclSend expect 7 mpi sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export MLX_EMULATED_GPU_LIBRARY_FAILS=$MLX_FAILS; exec "$0" train -c mlp.toml --device cuda --force' "$mlx_binary"
has "$err" "mlx: error: rank 1 on $(hostname): NCCL: ncclSend"
# A GPU fails; and a training diverges, of which all ranks know.
MLX_EMULATED_GPU_FAILS_AT=60 expect 8 gpu -c mlp.toml --ranks 2 --force
has "$err" 'GPU: a kernel: unspecified launch failure'
sed -e 's/loss = "huber"/loss = "mse"/' -e 's/"lion"/"sgd"\nlearning_rate = 1000/' mlp.toml >wild.toml
error 9 'the loss is ' gpu -c wild.toml --ranks 2
all_gone

# A rank is killed: it is named, none is left, and the training goes on from its checkpoint on any number of ranks, to
# the bits of one that nobody stopped. So it does after the launcher was asked to stop.
sed 's/^epochs = 2/epochs = 700\naccumulate = 4\ncheckpoint_every = "50 steps"/' mlp.toml >long.toml
stopped() { # SIGNAL CODE [RANK]: of the launcher, or of a rank
  local code=0 process=
  "$mlx_binary" train -c long.toml --device cuda --ranks 2 >/dev/null 2>"$work/.err" &
  local launcher=$!
  until [ "$(mlx log --runs --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["runs"][0]["status"])')" = running ]; do sleep 0.05; done
  sleep 0.6  # a checkpoint is there then
  process=$launcher
  [ -z "${3:-}" ] || process=$(for p in $(here_run); do if grep -qxz "OMPI_COMM_WORLD_RANK=$3" "/proc/$p/environ" 2>/dev/null; then echo "$p"; fi; done)
  kill "-$1" "$process"
  wait $launcher || code=$?
  same "$* ended with $code" "$* ended with $2"
  all_gone
}
stopped KILL 7 1
has "$(cat .err)" 'rank 1 on '
has "$(cat .err)" ' was ended by signal 9'
has "$(cat .err)" 'the same command continues from the last checkpoint'
stopped KILL 7 0
stopped TERM 143
has "$(cat .err)" 'a checkpoint is kept'
expect 0 gpu -c long.toml --ranks 4 --json
resumed=$(digest)
same "$(json "'resumed_from' in d['summary']")" True
expect 0 gpu -c long.toml --force --json
same "$resumed" "$(digest)"
