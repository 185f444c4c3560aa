# Training in bf16 through the real binary: the option, the record, kill and resume, refusals.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
# shellcheck source=trained.sh
source "$here/trained.sh"
sed -i -e 's/layers = .*/layers = [{ conv = 8, norm = "batch" }, { conv = 16, activation = "none" }, { pool = "max" }, { norm = "batch" }, { flatten = true }]/' \
  -e 's/^batch = 24/batch = 24\noptimizer = "muon"/' train.toml

# Kernels without bf16 and unknown words, before anything is trained.
export MLX_KERNELS=avx512
if mlx train --precision f32 >/dev/null 2>&1; then
  error 8 "no products of bf16" mlx train --precision bf16
  has "$err" 'precision = "f32"'
fi
unset MLX_KERNELS
error 2 "f16" mlx train --precision f16
sed 's/^batch = 24/batch = 24\nprecision = "half"/' train.toml >bad.toml
error 2 "bad.toml:10" mlx train -c bad.toml
has "$err" "bf16"
if ! mlx train --precision bf16 >/dev/null 2>.err; then
  grep -q AVX512_BF16 .err || fail "bf16: $(cat .err)"
  echo "skipped: $(cat .err)"
  exit 77
fi

# The same config in two precisions makes two versions, each known again by its own key.
expect 0 mlx train --json
f32=$(json "d['digest']")
expect 0 mlx train --precision bf16 --force
has "$out" "in bf16"
expect 0 mlx train --precision bf16 --json
same "$(json "d['unchanged'], d['digest'] != '$f32', d['summary']['precision']")" "(True, True, 'bf16')"
bf16=$(json "d['digest']")
expect 0 mlx train --precision auto --json
same "$(json "d['unchanged'], d['digest']")" "(True, '$bf16')"
expect 0 mlx train --json
same "$(json "d['unchanged'], d['digest']")" "(True, '$f32')"
run=$(mlx log --runs --json | python3 -c "import json,sys; print(next(r['id'] for r in json.load(sys.stdin)['runs'] if r['summary'].get('precision') == 'bf16'))")
expect 0 mlx show "run:${run#run:}"
has "$out" "bf16"
sed 's/^batch = 24/batch = 24\nprecision = "bf16"/' train.toml >bf16.toml
expect 0 mlx train -c bf16.toml
has "$out" "unchanged"
MLX_THREADS=1 expect 0 mlx train -c bf16.toml --force --json
same "$(json "d['digest']")" "$bf16"

# Weights are stored as f32.
expect 0 mlx show clf --json
same "$(json "d['model']['precision']")" f32

# Killed at a disk call in the middle and resumed, it gives the bits of a run that was never stopped; with another
# precision it is not the same run.
mkdir killed && cp -r data train.toml killed/ && cd killed
mlx init >/dev/null && mlx add data/bars >/dev/null && mlx commit -m bars >/dev/null
killed_training 20 --precision bf16
error 4 "another config" mlx train --resume "$run"
expect 0 mlx train --precision bf16 --resume "$run" --json
same "$(json "d['digest']")" "$bf16"
