#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a share of the time, from fresh seeds. What breaks one is left in build/fuzz/found.
#   tests/fuzz/run.sh [SECONDS [TARGET...]]
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
seconds=${1:-30}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(foreign formats gguf grammars manifest operation pack pictures pointer remote requests settings tables templates tokenizers wire)
if [ ! -f build/fuzz/build.ninja ]; then cmake --preset fuzz >/dev/null; fi
ninja -C build/fuzz --quiet "${targets[@]/#/fuzz_}" fuzz_seeds
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
build/fuzz/fuzz_seeds "$corpus"
cp -r tests/data/pictures "$corpus/pictures"
cp tests/data/sounds/*.wav "$corpus/pictures"
gzip -kn "$corpus"/tables/*
cp tests/data/{parquet,arrays,sqlite}/*.{parquet,npz,npy,sqlite} "$corpus/tables" 2>/dev/null || true
mkdir -p build/fuzz/found
share=$((seconds / ${#targets[@]}))
[ "$share" -gt 0 ] || share=1
bad=0
for target in "${targets[@]}"; do
  if "build/fuzz/fuzz_$target" -max_total_time="$share" -max_len=8192 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=256 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$target-" "$corpus/$target" >"$corpus/log" 2>&1; then
    echo "fuzz $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$corpus/log") inputs in $share s"
  else
    bad=1
    echo "fuzz $target: FAILED" >&2
    tail -40 "$corpus/log" >&2
  fi
done
exit "$bad"
