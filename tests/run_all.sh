#!/usr/bin/env bash
# Every check, in order of what tells most soonest; each stage is one line of the summary. The last line counts the tests.
#   release: all tests · asan+ubsan: all but the slow ones, of every step one in five · tsan: the concurrent layers · fuzz
#   targets · clang-format · clang-tidy on what changed
set -uo pipefail
cd "$(dirname "$0")/.."
export CTEST_OUTPUT_ON_FAILURE=1 NO_COLOR=1
jobs=$(($(nproc) + 1))  # tests also wait
passed=0 failed=0
summary=()
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# stage NAME COMMAND…: runs it, counts ctest's tests where it prints them, else the stage itself as one.
stage() {
  local name=$1 started=$SECONDS log="$logs/log" ok=1
  shift
  echo "== $name"
  "$@" 2>&1 | tee "$log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || ok=0
  local line total bad
  line=$(grep -E 'tests failed out of|tests passed, ' "$log" | tail -1)
  if [ -n "$line" ]; then
    total=$(sed -E 's/.* out of ([0-9]+).*/\1/' <<<"$line")
    bad=$(sed -E 's/.*, ([0-9]+) tests? failed.*/\1/' <<<"$line")
    passed=$((passed + total - bad)) failed=$((failed + bad))
    [ "$ok" -eq 1 ] || [ "$bad" -gt 0 ] || failed=$((failed + 1))
  elif [ "$ok" -eq 1 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  summary+=("$(printf '%-8s %-34s %4d s' "$([ "$ok" -eq 1 ] && echo ok || echo FAILED)" "$name" $((SECONDS - started)))")
  [ "$ok" -eq 1 ]
}

# For one kind of GPU: each takes minutes, and the sources are the same.
build() {
  local preset=$1
  shift
  cmake --preset "$preset" -DMLX_CUDA_ARCHITECTURES=90a-real >/dev/null && ninja -C "build/$preset" --quiet "$@"
}

tests_of() { printf 'test_%s ' "$@"; }

check_format() {
  git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format --dry-run -Werror
}

# clang-tidy over the sources that changed since MLX_TIDY_BASE (default: the last commit older than four hours, else all),
# newest first, for at most MLX_TIDY_SECONDS (180); says how many it reached.
check_tidy() {
  local base budget=${MLX_TIDY_SECONDS:-180} started=$SECONDS
  base=${MLX_TIDY_BASE:-$(git rev-list -1 --before='4 hours ago' HEAD)}
  local files
  mapfile -t files < <(git log --format= --name-only ${base:+"$base"..}HEAD -- 'src/*.cpp' 'store/*.cpp' 'cmd/*.cpp' 'kernels/*.cpp' | awk '!seen[$0]++')
  local existing=() file
  for file in "${files[@]}"; do [ -f "$file" ] && existing+=("$file"); done
  cmake --preset dev >/dev/null || return 1  # says how each source is compiled by itself
  ninja -C build/dev --quiet mlx_train_header mlx_compress_header mlx_kernels_header || return 1  # sources that are made
  local checked=0 bad=0
  while [ "$checked" -lt "${#existing[@]}" ] && [ $((SECONDS - started)) -lt "$budget" ]; do
    printf '%s\0' "${existing[@]:$checked:4}" | xargs -0 -n 1 -P 2 clang-tidy --quiet -p build/dev 2>/dev/null || bad=1
    checked=$((checked + 4))
  done
  [ "$checked" -gt "${#existing[@]}" ] && checked=${#existing[@]}
  echo "clang-tidy: $checked of ${#existing[@]} changed files"
  return "$bad"
}

stage "build release" build release
stage "tests, release" ctest --test-dir build/release -j "$jobs"
stage "clang-format" check_format
stage "build asan" build asan
MLX_TEST_STRIDE=5 stage "tests, asan and ubsan" ctest --test-dir build/asan -LE '^(slow|levels|release)$' -j "$jobs"
stage "build tsan" build tsan $(tests_of base store registry dist serve)
MLX_TEST_STRIDE=5 stage "base store registry dist serve, tsan" ctest --test-dir build/tsan -j "$(nproc)" -R '^(base|store|registry|dist|serve)$'
stage "fuzz targets, briefly" tests/fuzz/run.sh 16
stage "clang-tidy" check_tidy

echo
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
