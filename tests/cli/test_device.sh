# `--device cuda` through the real binary: every family learns as on the CPU, twice the same bits, killed and
# resumed; errors of a GPU are reported. The GPU is emulated, with the kernels of a real one; with
# MLX_TEST_GPU=real it is the machine's own, and tests that need an emulated failure are skipped.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=families.sh
source "$here/families.sh"

# Installations beside each other: with the emulated module, and with none.
modules=$(dirname "$mlx_binary")/lib/mlx
for place in gpu bare; do
  mkdir -p "$work/$place/lib/mlx"
  cp "$mlx_binary" "$work/$place/mlx"
  cp "$modules/mlx_onednn.so" "$work/$place/lib/mlx/"
done
real=${MLX_TEST_GPU:-}
if [ "$real" = real ]; then
  cp "$modules/mlx_cuda.so" "$work/gpu/lib/mlx/"
else
  cp "$modules/mlx_cuda_emulated.so" "$work/gpu/lib/mlx/mlx_cuda.so"
fi
gpu() { "$work/gpu/mlx" "$@"; }
bare() { "$work/bare/mlx" "$@"; }

# No GPU, for one reason or another: said by who asks for one, and by `version -v`.
error 8 "built without CUDA" bare train -c mlp.toml --device cuda
has "$err" "--device auto"
if [ "$real" != real ]; then
  MLX_EMULATED_GPU_DRIVER=0 error 8 "no CUDA driver is installed" gpu train -c mlp.toml --device cuda
  MLX_EMULATED_GPU_DRIVER=12040 error 8 "the driver is for CUDA 12.4, this mlx needs 13.0" gpu eval clf --data data/bars --device cuda
  # bug: the error did not say what to do about the driver.
  has "$err" "install NVIDIA's driver 580 or later"
  # bug: `auto` fell back to the CPU without a word from a GPU that is there. A machine without one is nothing to warn of.
  MLX_EMULATED_GPU_DRIVER=12040 expect 0 gpu train -c mlp.toml --device auto
  has "$err" "warning: computing on the CPU, for the GPU cannot be used: the driver is for CUDA 12.4"
  MLX_EMULATED_GPU_DRIVER=0 expect 0 gpu train -c mlp.toml --device auto
  lacks "$err" warning
fi
expect 0 bare train -c mlp.toml --device auto
lacks "$err" warning
# bug: the hint was to take the CPU.
error 2 "expected one of auto, cpu, cuda" gpu train -c mlp.toml --device gpu
lacks "$err" "did you mean"
error 2 "did you mean 'fp16'" gpu train -c mlp.toml --precision f16
error 2 "portable numerics are those of CPUs" gpu train -c mlp.toml --device cuda --numerics portable
# bug: on a machine with a GPU, portable numerics with `auto` were an error.
expect 0 gpu train -c mlp.toml --device auto --numerics portable --json
expect 0 bare train -c mlp.toml --device auto --numerics portable --json
same "$(json "d['unchanged']")" True
expect 0 bare version -v
has "$out" "built without CUDA"
expect 0 gpu version -v --json
has "$(json "d['gpu']")" "GiB, driver "

# NVIDIA's libraries: which are used is said.
MLX_CUDA_LIBRARIES=0 expect 0 gpu version -v
has "$out" ", without cuBLASLt, without cuDNN"
if [ "$real" != real ]; then
  expect 0 gpu version -v
  has "$out" ", cuBLASLt 13.1.0, cuDNN 9.19.0"
  MLX_EMULATED_GPU_LIBRARIES= expect 0 gpu version -v
  has "$out" ", without cuBLASLt, without cuDNN"
  MLX_EMULATED_GPU_LIBRARIES="/usr/local/cuda/lib64/libcublasLt.so.12" expect 0 gpu version -v
  has "$out" ", cuBLASLt 13.1.0, without cuDNN"
fi

# At a low rate: MobileNetV2 of eight narrow blocks doubles a rounding error with every step at the default one, on the
# CPU too.
sed -i 's/^epochs = 2/epochs = 1/' resnet.toml mobile.toml
sed -i 's/^batch = 20/batch = 20\nlearning_rate = 0.0005/' mobile.toml

# The same losses as on the CPU but for rounding, the same bits each time, and a key of its own. Instrumented, emulated
# convolutions take minutes: the kernel suite has them.
families="cnn resnet mobile gpt2 llama mlp"
! grep -q __asan_init "$mlx_binary" || families="cnn gpt2 mlp"
for name in $families; do
  expect 0 bare train -c "$name.toml" --device auto --json
  cpu=$(json "d['summary']['loss']")
  expect 0 gpu train -c "$name.toml" --device cuda --precision f32 --json
  same "$name: $(json "d['unchanged'], abs(d['summary']['loss'] - $cpu) < 2e-3 * $cpu")" "$name: (False, True)"
  same "$(json "d['summary']['memory']['device'], abs(d['summary']['peak_memory'] / d['summary']['memory']['peak'] - 1) < 0.05")" "('cuda', True)"
  digest=$(json "d['digest']")
  MLX_THREADS=1 expect 0 gpu train -c "$name.toml" --device auto --precision f32 --force --json
  same "$name $(json "d['digest']")" "$name $digest"
done

# Images go to the GPU as bytes and are augmented there, by the same draws as on the CPU, however the batch is cut.
data=('augment = { shift = 2, flip = true, erase = 3, mixup = 0.4 }') train=('accumulate = 2' 'learning_rate = 0.005')
config bent bars 'family = "cnn"' 'layers = [{ conv = 8, norm = "batch", activation = "relu" }, { pool = "max", size = 2 }, { flatten = true }, { dense = 17 }]'
expect 0 bare train -c bent.toml --json
cpu=$(json "d['summary']['loss']")
expect 0 gpu train -c bent.toml --device cuda --precision f32 --profile --json
same "bent: $(json "d['unchanged'], abs(d['summary']['loss'] - $cpu) < 2e-3 * $cpu")" "bent: (False, True)"
has "$out" '"augment"'

# Each precision reaches about the same loss and has its own key. The default is bf16, but f32 for numeric targets.
for name in cnn gpt2; do
  expect 0 gpu train -c "$name.toml" --device cuda --precision f32 --json
  f32=$(json "d['summary']['loss']")
  for precision in tf32 bf16 fp16; do
    expect 0 gpu train -c "$name.toml" --device cuda --precision "$precision" --json
    same "$name: $(json "d['unchanged'], d['summary']['precision'], abs(d['summary']['loss'] - $f32) < 0.03 * $f32")" "$name: (False, '$precision', True)"
  done
  expect 0 gpu train -c "$name.toml" --device cuda --json
  same "$(json "d['unchanged'], d['summary']['precision']")" "(True, 'bf16')"
done
expect 0 gpu train -c mlp.toml --device cuda --json
same "$(json "d['unchanged'], d['summary']['precision']")" "(True, 'f32')"
for precision in tf32 fp16; do
  error 2 "for GPUs" gpu train -c cnn.toml --device cpu --precision "$precision"
  has "$err" "--precision f32"
  error 2 "portable numerics are f32" gpu train -c cnn.toml --precision "$precision" --numerics portable
done

# In fp16 a step whose gradients overflow halves the scale and changes nothing else: here those of squared errors of
# single rows, times 65536. Where they do without a scale, too, the training has diverged.
sed -e 's/loss = "huber"/loss = "mse"/' -e 's/optimizer = "lion"/optimizer = "adamw"/' -e 's/^batch = 20/batch = 1/' mlp.toml >single.toml
expect 0 gpu train -c single.toml --device cuda --precision f32 --json
f32=$(json "d['summary']['loss']")
expect 0 gpu train -c single.toml --device cuda --precision fp16 --json
same "$(json "abs(d['summary']['loss'] - $f32) < 0.05 * $f32")" True
expect 0 gpu log --runs --where 'train/loss_scale<65536'
has "$out" "train/loss_scale "
sed -e 's/"adamw"/"sgd"\nlearning_rate = 10/' single.toml >wild.toml
error 9 "the loss scale fell below 1" gpu train -c wild.toml --device cuda --precision fp16

# Without NVIDIA's libraries other kernels compute, so the key differs.
for name in cnn gpt2; do
  expect 0 gpu train -c "$name.toml" --device cuda --json
  loss=$(json "d['summary']['loss']")
  MLX_CUDA_LIBRARIES=0 expect 0 gpu train -c "$name.toml" --device cuda --json
  same "$name: $(json "d['unchanged'], abs(d['summary']['loss'] - $loss) < 1e-3 * $loss")" "$name: (False, True)"
  MLX_CUDA_LIBRARIES=0 expect 0 gpu train -c "$name.toml" --device cuda --json
  same "$(json "d['unchanged']")" True
done

# What was trained is used on either.
expect 0 bare eval cnn --data data/bars --split train --json
cpu=$(json "d['accuracy']")
expect 0 gpu eval cnn --data data/bars --split train --device cuda --json
same "$(json "d['unchanged'], abs(d['accuracy'] - $cpu) < 0.02")" "(False, True)"
expect 0 bare predict gpt2 -p mill --max-tokens 12 --temperature 0
cpu=$out
expect 0 gpu predict gpt2 -p mill --max-tokens 12 --temperature 0 --device cuda
same "$out" "$cpu"
expect 0 gpu train -c cnn.toml --device cuda --force --profile
has "$out" conv2d_backward_weights

# Killed and resumed: the bits of a run that was never stopped; in fp16 of one whose scale has changed by then.
sed -i 's/^epochs = 2/epochs = 2\ncheckpoint_every = "20 steps"/' single.toml
for resumed in "gpt2.toml bf16" "single.toml fp16"; do
  how=(-c "${resumed% *}" --device cuda --precision "${resumed#* }")
  expect 0 gpu train "${how[@]}" --force --json  # its checkpoints are stored then: the next is killed behind one
  digest=$(json "d['digest']")
  mlx_before=$mlx_binary mlx_binary=$work/gpu/mlx
  killed_training 16 "${how[@]}" --force
  mlx_binary=$mlx_before
  expect 0 gpu train "${how[@]}" --resume "$run" --force --json
  same "$(json "d['digest'], 'run:' + d['run'].removeprefix('run:'), d['summary']['resumed_from'] > 0")" "('$digest', 'run:${run#run:}', True)"
done

# Gone on with on the CPU: a run of its own, which has the checkpoint as an input and the same answer when asked again,
# in the CPU's own precision; not in one that it does not have.
mlx_binary=$work/gpu/mlx
killed_training 16 -c gpt2.toml --device cuda --force
mlx_binary=$mlx_before
error 2 "--precision f32" gpu train -c gpt2.toml --precision fp16 --resume "$run"
sed 's/^epochs = 2/epochs = 2\nseed = 9/' gpt2.toml >other.toml
error 4 "another config or dataset: train.seed" gpu train -c other.toml --resume "$run"
# bug: if only the driver or libraries had changed, the run was refused as if the config had.
if [ "$real" != real ]; then
  MLX_CUDA_LIBRARIES=0 expect 0 gpu train -c gpt2.toml --device cuda --resume "$run" --json
  same "$(json "d['run'] == '${run#run:}', d['summary']['resumed_from'] > 0")" "(False, True)"
fi
expect 0 gpu train -c gpt2.toml --device cuda --json
loss=$(json "d['summary']['loss']")
expect 0 gpu train -c gpt2.toml --resume "$run" --json
same "$(json "d['run'] == '${run#run:}', d['summary']['precision'], abs(d['summary']['loss'] - $loss) < 2e-3 * $loss")" "(False, 'f32', True)"
moved=$(json "d['run']")

# bug: a run that had been moved could not be moved again.
if [ "$real" != real ]; then
  stopped=$run
  mlx_binary=$work/gpu/mlx
  killed_training 24 -c llama.toml --device cuda --force
  first=$run
  killed_training 24 -c llama.toml --device cpu --resume "$first"
  mlx_binary=$mlx_before
  expect 0 gpu train -c llama.toml --device cuda --resume "$run" --json
  same "$(json "d['run'] in ('${run#run:}', '${first#run:}'), d['summary']['resumed_from'] > 0")" "(False, True)"
  run=$stopped
fi
expect 0 gpu train -c gpt2.toml --resume "$run" --json
same "$(json "d['unchanged'], d['run']")" "(True, '$moved')"
expect 0 gpu show "run:$moved"
has "$out" checkpoint
# bug: the checkpoint was a dataset there, and nothing led from it to its run.
expect 0 gpu lineage gpt2
has "$out" "of $run  checkpoint"
expect 0 gpu lineage gpt2 --json
same "$(json "[(n['run'], n['step'] > 0) for n in d['nodes'] if n['kind'] == 'checkpoint']")" "[('$run', True)]"
same "$(json "sorted((d['nodes'][e['from']]['label'], d['nodes'][e['to']]['label']) for e in d['edges'] if 'checkpoint' in (d['nodes'][e['from']]['kind'], d['nodes'][e['to']]['kind'])) == sorted([('$run', 'step 2 of $run'), ('step 2 of $run', 'run:$moved')])")" True
expect 0 gpu lineage data/words
has "$out" "of $run  checkpoint"
expect 0 gpu gc
expect 0 gpu fsck

# Where no memory of the host can be pinned, copies from other memory do as well.
if [ "$real" != real ]; then
  MLX_EMULATED_GPU_PINNED=0 expect 0 gpu train "${how[@]}" --force --json
  same "$(json "d['unchanged'], d['digest']")" "(False, '$digest')"
fi

# A cap of the GPU's memory holds, and recomputation gives the same bits.
sed 's/^layers = 1/layers = 4/; s/^epochs = 2/epochs = 1/' gpt2.toml >deep.toml
expect 0 gpu train -c deep.toml --device cuda --json
deep=$(json "d['digest'], d['summary']['memory']['peak']")
cap=$(json "d['summary']['memory']['peak'] - d['summary']['memory']['arena'] // 4")
expect 0 gpu train -c deep.toml --device cuda --force --memory "$cap" --json
same "$(json "d['summary']['memory']['recomputed'] > 0, d['summary']['peak_memory'] <= 1.05 * $cap")" "(True, True)"
same "$(json "d['digest']")" "$(python3 -c "print($deep[0])")"

# Launches that cannot be captured are made one by one. bug: where a library refused to be captured that was taken for a
# failure, and where a capture could not begin its step ran twice.
if [ "$real" != real ]; then
  expect 0 gpu train -c gpt2.toml --device cuda --force --json
  digest=$(json "d['digest']")
  for where in begin launch end; do
    MLX_EMULATED_GPU_CAPTURE=$where expect 0 gpu train -c gpt2.toml --device cuda --force --json
    same "$where $(json "d['digest']")" "$where $digest"
  done
fi

# Too little memory: before the first step where it is known, else with what was asked and what is free.
error 2 "of the GPU's memory" gpu train -c cnn.toml --device cuda --force --memory 50KiB
has "$err" "50.0 KiB are allowed"
[ "$real" != real ] || exit 0
MLX_EMULATED_GPU_BYTES=60000 error 2 "of the GPU's memory" gpu train -c cnn.toml --device cuda --force
has "$err" "58.6 KiB are free"
lacks "$err" "--memory"
MLX_EMULATED_GPU_BYTES=8000 error 8 "of memory for" gpu eval cnn --data data/bars --split train --device cuda --force
has "$err" "are free"
lacks "$err" "accumulate"

# bug: a finished training printed nothing if the GPU had no memory left to measure its peak.
for how in --json --quiet; do
  MLX_EMULATED_GPU_BYTES=3000000 expect 0 gpu train -c cnn.toml --device cuda --force --profile --trace steps.json "$how"
  has "$err" "warning: the machine's peak was not measured: GPU: "
  has "$out" conv2d_backward_weights
  grep -q conv2d_backward_weights steps.json || fail "no trace"
  rm steps.json
  [ "$how" = --quiet ] || same "$(json "d['profile']['peak'], d['profile']['steps'] > 0")" "(None, True)"
done
lacks "$out" "; the peak"

# The GPU fails in the middle: the run fails and says where, and resumes from the checkpoint before.
MLX_EMULATED_GPU_FAILS_AT=200 error 8 "GPU: " gpu train -c cnn.toml --device cuda --force
has "$err" "unspecified launch failure"
has "$err" "or before it in the same step"
has "$err" "CUDA_LAUNCH_BLOCKING=1"
last=$(sed -n "s/.*at '\(.*\)' or before it.*/\1/p" <<<"$err")
# bug: with CUDA_LAUNCH_BLOCKING=1 the error still named the last operation of the step.
CUDA_LAUNCH_BLOCKING=1 MLX_EMULATED_GPU_FAILS_AT=200 error 8 "unspecified launch failure, at '" gpu train -c cnn.toml --device cuda --force
lacks "$err" "or before it"
lacks "$err" "at '$last'"
run=$(gpu log --runs --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["runs"][0]["id"])')
expect 0 gpu show "run:${run#run:}"
has "$out" failed

# bug: the error did not say how to resume from an existing checkpoint.
sed 's/^epochs = 2/epochs = 2\ncheckpoint_every = "1 steps"/' cnn.toml >often.toml
MLX_EMULATED_GPU_FAILS_AT=400 error 8 "unspecified launch failure" gpu train -c often.toml --device cuda --precision fp16 --force
run=$(gpu log --runs --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["runs"][0]["id"])')
has "$err" "hint: to continue: mlx train -c "
has "$err" "often.toml --precision fp16 --device cuda --resume run:${run#run:}; "
has "$err" "CUDA_LAUNCH_BLOCKING=1"
expect 0 gpu train -c often.toml --device cuda --precision fp16 --resume "$run" --json
same "$(json "d['summary']['resumed_from'] > 0")" True
MLX_EMULATED_GPU_FAILS_AT=20 error 8 "unspecified launch failure" gpu train -c often.toml --device cuda --precision fp16 --force
lacks "$err" "to continue"

# So does a library: its function is named with the operation. In f32, where cuDNN does all three of a convolution.
while read -r config call operation why; do
  MLX_EMULATED_GPU_LIBRARY_FAILS=$call error 8 "GPU: $operation: $call: $why" gpu train -c "$config.toml" --device cuda --force --precision f32
done <<'END'
gpt2 cublasLtMatmul linear the GPU program failed to execute
gpt2 cublasLtCreate cuBLASLt the library was not initialized
cnn cudnnConvolutionForward conv2d CUDNN_STATUS_EXECUTION_FAILED
cnn cudnnConvolutionBackwardData conv2d_backward_data CUDNN_STATUS_EXECUTION_FAILED
cnn cudnnConvolutionBackwardFilter conv2d_backward_weights CUDNN_STATUS_EXECUTION_FAILED
cnn cudnnCreate cuDNN CUDNN_STATUS_NOT_INITIALIZED
END
