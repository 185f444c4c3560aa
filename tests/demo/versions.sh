#!/usr/bin/env bash
# Two versions of a dataset, which differ in one cell, one row and one name: what the README shows of status, diff and the
# storage of a version. Every command is shown, then run. usage: versions.sh BUILD_FOLDER
set -euo pipefail

build=$(readlink -f "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export PATH="$build:$PATH" GIT_CONFIG_GLOBAL=/dev/null
run() {
  echo "\$ $*"
  "$@"
}

git init -q -b main
mlx -q init >/dev/null
# Forty images that nothing compresses, and a table of 20,000 rows; the same bytes each time.
python3 - <<'PYTHON'
import os, random
rng = random.Random(1)
os.makedirs("data/reviews/images")
for i in range(40):
    with open(f"data/reviews/images/{i:02}.raw", "wb") as out:
        out.write(rng.randbytes(100_000))
with open("data/reviews/labels.csv", "w") as out:
    out.write("id,label,score\n")
    for i in range(20_000):
        out.write(f"{i},{rng.choice(['good', 'bad'])},{rng.random():.6f}\n")
PYTHON
mlx -q add data/reviews >/dev/null
mlx -q commit -m "As they came" >/dev/null
mv data/reviews/images/07.raw data/reviews/images/seven.raw
sed -i -e '$d' -e 's/^\(99,.*,\).*/\10.990000/' data/reviews/labels.csv

run mlx status
run mlx diff --key id
run mlx add data/reviews
run mlx commit -m relabelled
echo "\$ mlx show --stat data/reviews | sed -n '/^storage/,/^$/p'"
mlx show --stat data/reviews | sed -n '/^storage/,/^$/p'
