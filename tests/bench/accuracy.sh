#!/usr/bin/env bash
# Accuracy on Fashion-MNIST (Debian's dataset-fashion-mnist): trains each config of tests/bench/accuracy with each seed and
# prints a table of test accuracies.
#   tests/bench/accuracy.sh build/release/mlx [--only NAME]... [--seeds "1 2 3"]
# Minutes are those of `mlx train` as a whole; behind them its CPU time divided by the cores, which is what it takes where
# nothing else runs. `best` takes some 20 minutes a seed, and is trained where it is asked for.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
mlx=$(readlink -f "${1:?usage: accuracy.sh MLX [--only NAME]... [--seeds \"1 2 3\"]}")
shift
names=() seeds="1"
while [ $# -gt 0 ]; do
  case $1 in
    --only) names+=("$2") ;;
    --seeds) seeds=$2 ;;
    *) echo "accuracy.sh: unknown option '$1'" >&2; exit 2 ;;
  esac
  shift 2
done
[ ${#names[@]} -gt 0 ] || names=(mlp cnn)
source=$(dirname "$(dpkg -L dataset-fashion-mnist | grep -m1 "train-images.*gz")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export NO_COLOR=1
mkdir -p data/fashion
cp "$source"/*-ubyte.gz data/fashion/
"$mlx" init -q >/dev/null
"$mlx" add -q data/fashion >/dev/null
"$mlx" commit -q -m "Fashion-MNIST" >/dev/null

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
echo "accuracy on Fashion-MNIST's 10,000 test images  $(date -u '+%Y-%m-%d %H:%M UTC')"
echo "machine: $cpu, $(nproc) threads, $("$mlx" --version)"
printf '%-8s %5s %10s %12s %12s %10s %10s\n' config seed epochs "held out" "test" "minutes" "CPU/cores"
for name in "${names[@]}"; do
  sum=0 count=0
  for seed in $seeds; do
    sed "s/^batch = .*/&\nseed = $seed/" "$here/accuracy/$name.toml" >train.toml
    started=$(date +%s.%N)
    "$mlx" train -c train.toml --json >trained.json
    minutes=$(awk -v a="$started" -v b="$(date +%s.%N)" 'BEGIN { print (b - a) / 60 }')
    "$mlx" eval "$name" --data data/fashion --split test --json >test.json 2>/dev/null
    held=$(jq -r '.summary.valid_accuracy | if . then "\(10000 * . | round / 100) %" else "-" end' trained.json) test=$(jq -r '.accuracy' test.json)
    cpu_minutes=$(jq -r --argjson cores "$(nproc)" '.summary.cpu_seconds / 60 / $cores' trained.json)
    epochs=$(sed -n 's/^epochs = //p' train.toml)
    awk -v n="$name" -v s="$seed" -v e="$epochs" -v h="$held" -v t="$test" -v m="$minutes" \
      -v c="$cpu_minutes" \
      'BEGIN { printf "%-8s %5s %10s %12s %10.2f %% %10.1f %10.1f\n", n, s, e, h, 100 * t, m, c }'
    sum=$(awk -v a="$sum" -v b="$test" 'BEGIN { print a + b }') count=$((count + 1))
  done
  awk -v n="$name" -v s="$sum" -v c="$count" 'BEGIN { printf "%-8s  mean %33.2f %%\n", n, 100 * s / c }'
done
