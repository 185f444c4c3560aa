# The whole demo through the real binary; how fast it was does not count here.
set -euo pipefail
folder=$(mktemp -d "${TMPDIR:-/tmp}/mlx-e2e.XXXXXX")
trap 'rm -rf "$folder"' EXIT
[ -d /usr/share/datasets/fashion-mnist ] || { echo "skipped: dataset-fashion-mnist is not installed"; exit 77; }
MLX_DEMO_UNTIMED=1 bash "$(dirname "$0")/../demo/demo.sh" "$(dirname "$1")" "$folder"
