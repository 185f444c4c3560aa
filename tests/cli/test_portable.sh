# `mlx train --numerics portable` through the real binary: every family gives the same version by AVX2 and by AVX-512.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

# shellcheck source=families.sh
source "$here/families.sh"

for level in avx2 avx512; do
  said=$(MLX_KERNELS=$level mlx version -v 2>&1) || { echo "skipped: $said"; exit 77; }
done
for name in cnn resnet mobile gpt2 llama mlp; do
  MLX_KERNELS=avx2 expect 0 mlx train -c "$name.toml" --numerics portable --json
  digest=$(json "d['digest']")
  MLX_KERNELS=avx512 expect 0 mlx train -c "$name.toml" --numerics portable --force --json
  same "$name $(json "d['digest']")" "$name $digest"
  MLX_KERNELS=avx512 expect 0 mlx train -c "$name.toml" --numerics portable --json # one key for all kernels
  same "$(json "d['unchanged']")" True
done

# The model stores it; the config may set it; native numerics are another run. Any kernels can evaluate it.
expect 0 mlx cat cnn:model.json
has "$out" '"numerics":"portable"'
sed 's/batch = 20/batch = 20\nnumerics = "portable"/' cnn.toml >said.toml
expect 0 mlx train -c said.toml
has "$out" unchanged
MLX_KERNELS=avx512 expect 0 mlx train -c said.toml --numerics native --json
same "$(json "d['unchanged']")" False
expect 0 mlx cat cnn:model.json
lacks "$out" numerics
MLX_KERNELS=ref expect 0 mlx eval cnn@v1 --data data/bars --split train
MLX_KERNELS=ref error 2 "not 'ref'" mlx train -c cnn.toml --numerics portable
error 2 "portable numerics are f32" mlx train -c cnn.toml --numerics portable --precision bf16
error 2 "expected one of native, portable" mlx train -c cnn.toml --numerics exact
sed 's/batch = 20/batch = 20\nnumerics = "exact"/' cnn.toml >said.toml
error 2 "said.toml:10: [train] numerics" mlx train -c said.toml
