#!/usr/bin/env bash
# Everything that only a GPU can show, in some ten minutes: what chip it is, the kernel suite over the kernels for CUDA,
# the same under compute-sanitizer, every family trained through the real binary, and the speed beside PyTorch's where
# PyTorch is. Prints a report, which belongs under tests/bench/results/gpu-CHIP.txt as it is.
#
# usage: tests/gpu/run.sh BUILD [PYTHON]
#
# BUILD is a build folder with lib/mlx/mlx_cuda.so (`cmake --preset release` where nvcc is found, then
# `ninja -C build/release mlx test_kernels bench_train`), made on this machine or carried here; PYTHON one with torch.
# Exits with 77 where there is no GPU, 1 where something is wrong.
set -uo pipefail
build=$(readlink -f "${1:?usage: tests/gpu/run.sh BUILD [PYTHON]}")
python=${2:-}
here=$(dirname "$(readlink -f "$0")")
wrong=0
step() { # NAME SECONDS COMMAND...
  local name=$1 limit=$2 started=$SECONDS code=0
  shift 2
  printf '\n== %s\n$ %s\n' "$name" "${*//$build\//}"
  timeout "$limit" "$@" 2>&1 || code=$?
  printf -- '-- %s: exit %s after %s s\n' "$name" "$code" "$((SECONDS - started))"
  [ "$code" = 0 ] || wrong=1
}

gpu=$("$build/mlx" version -v | sed -n 's/^gpu *//p')
printf 'mlx on a GPU  %s\ngpu: %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$gpu"
"$build/mlx" version
case $gpu in "no GPU:"*) exit 77 ;; esac
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

step "kernels against ref" 120 "$build/test_kernels" -tc="kernels: cuda serves*"
MLX_CUDA_LIBRARIES=0 step "kernels against ref without NVIDIA's libraries" 120 "$build/test_kernels" -tc="kernels: cuda serves*"
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck; do
    MLX_CUDA_LIBRARIES=0 step "kernels under $tool" 120 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/test_kernels" \
      -tc="kernels: cuda serves*"
  done
fi
MLX_TEST_GPU=real step "families through the binary" 180 bash "$here/../cli/test_device.sh" "$build/mlx"
if [ -n "$python" ]; then
  step "speed beside PyTorch" 300 "$python" "$here/../bench/train.py" "$build/bench_train" --device cuda \
    --only resnet-50 --only "gpt2 124M"
fi
printf '\n%s\n' "$([ $wrong = 0 ] && echo 'all well' || echo 'something is wrong: see above')"
exit $wrong
