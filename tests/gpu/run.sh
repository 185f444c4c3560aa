#!/usr/bin/env bash
# Everything that only a GPU can show, in ten minutes: what chip it is, the kernel suite over the kernels for CUDA, the
# checks of gradients and sessions, every family trained through the real binary, the speed of kernels and beside
# PyTorch's where PyTorch is, and the kernels under compute-sanitizer. Prints a report, which belongs under
# tests/bench/results/gpu-CHIP.txt as it is.
#
# usage: tests/gpu/run.sh BUILD [PYTHON]
#
# BUILD is a build folder with lib/mlx/mlx_cuda.so (`cmake --preset release` where nvcc is found, then `ninja -C
# build/release mlx test_kernels test_graph test_nn bench_kernels bench_train`), made on this machine or carried here
# with the libraries of an installation (component `bundle`); PYTHON one with torch. What ten minutes do not suffice for
# is said. Exits with 77 where there is no GPU, 1 where something is wrong.
set -uo pipefail
build=$(readlink -f "${1:?usage: tests/gpu/run.sh BUILD [PYTHON]}")
python=${2:-}
here=$(dirname "$(readlink -f "$0")")
wrong=0
whole=590 # seconds
step() { # NAME SECONDS COMMAND...: for at most so long, and within the whole
  local name=$1 limit=$2 started=$SECONDS code=0 left=$((whole - SECONDS))
  shift 2
  printf '\n== %s\n$ %s\n' "$name" "${*//$build\//}"
  [ "$left" -ge "$limit" ] || limit=$left
  if [ "$limit" -lt 15 ]; then
    printf -- '-- %s: not run, the ten minutes are over\n' "$name"
    wrong=1
    return
  fi
  timeout "$limit" "$@" 2>&1 || code=$?
  printf -- '-- %s: exit %s after %s s\n' "$name" "$code" "$((SECONDS - started))"
  [ "$code" = 0 ] || wrong=1
}

gpu=$("$build/mlx" version -v | sed -n 's/^gpu *//p')
printf 'mlx on a GPU  %s\ngpu: %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$gpu"
"$build/mlx" version
case $gpu in "no GPU:"*) exit 77 ;; esac
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

step "kernels against ref" 90 "$build/test_kernels" -tc="kernels: cuda serves*,residual norms: on cuda a*"
step "gradients and sessions" 30 "$build/test_graph" -tc="gradients*,*every backend*,muon*,memory*"
step "gradients of every family" 30 "$build/test_nn" -tc="gradients*"
MLX_TEST_GPU=real step "families through the binary" 150 bash "$here/../cli/test_device.sh" "$build/mlx"
MLX_TEST_GPU=real step "a GPU for each rank" 60 bash "$here/../cli/test_gpu_ranks.sh" "$build/mlx"
step "speed of kernels" 40 "$build/bench_kernels"
if [ -n "$python" ]; then
  step "speed beside PyTorch" 150 "$python" "$here/../bench/train.py" "$build/bench_train" --device cuda --only "gpt2 124M"
fi
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck; do
    step "kernels under $tool" 100 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/test_kernels" \
      -tc="kernels: cuda serves*"
  done
fi
printf '\n%s\n' "$([ $wrong = 0 ] && echo 'all well' || echo 'something is wrong: see above')"
exit $wrong
