# Modules beside the binary (lib/mlx) that are damaged, cut off, of another build or absent: told apart, never used.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

mlx init >/dev/null 2>&1
modules=$(dirname "$mlx_binary")/lib/mlx
place=$work/place
mkdir -p "$place/lib/mlx"
cp "$mlx_binary" "$place/mlx"
cuda=$place/lib/mlx/mlx_cuda.so onednn=$place/lib/mlx/mlx_onednn.so
whole() {
  cp "$modules/mlx_cuda_emulated.so" "$cuda"
  cp "$modules/mlx_onednn.so" "$onednn"
}
here_mlx() { "$place/mlx" "$@"; }
says() { # FIELD WORDS: what `version -v` has there
  expect 0 here_mlx version -v --json
  has "$(json "str(d['$1'])")" "$2"
}

whole
says gpu "GiB, driver "
says kernels onednn

# bug: a module of another build was taken, whose kernels read other structs and give other bits under the same key.
other_build() { # MODULE
  python3 - "$1" "$work/header" <<'PY'
import re, sys
data = open(sys.argv[1], 'rb').read()
mine = [m for m in re.findall(rb'(?<![0-9a-f])[0-9a-f]{64}(?=\0)', data)]
assert len(set(mine)) == 1, mine
open(sys.argv[1], 'wb').write(data.replace(mine[0], mine[0][::-1]))
PY
}
other_build "$cuda"
other_build "$onednn"
says gpu "mlx_cuda.so comes from another build of mlx"
says onednn None
error 8 "mlx_cuda.so comes from another build of mlx" here_mlx eval none --data none --device cuda
MLX_KERNELS=onednn error 8 "mlx_onednn.so comes from another build of mlx" here_mlx eval none --data none --device cpu

# bug: one that had been cut off was a bus error.
whole
for module in "$cuda" "$onednn"; do truncate -s -100000 "$module"; done
says gpu "mlx_cuda.so is damaged: it has been cut off"
says onednn None
for module in "$cuda" "$onednn"; do truncate -s 20 "$module"; done
says gpu "mlx_cuda.so is damaged: it has been cut off"

# bug: a module that could not be opened was reported as a build without CUDA.
whole
head -c 5000 /dev/urandom >"$cuda"
says gpu "invalid ELF header"
rm "$cuda"
says gpu "built without CUDA"

# bug: a binary that was copied without lib/mlx computed with other kernels and did not say so.
rm "$onednn"
says gpu "there is neither $place/lib/mlx/mlx_cuda.so nor $work/lib/mlx/mlx_cuda.so"
says onednn None
says onednn_problem "there is neither $place/lib/mlx/mlx_onednn.so nor $work/lib/mlx/mlx_onednn.so"
expect 0 here_mlx version -v
has "$out" "onednn    none: there is neither"
expect 3 here_mlx eval none --data none
has "$err" "there is neither $place/lib/mlx/mlx_onednn.so nor"
same "$(grep -c 'mlx_onednn.so' <<<"$err")" 1
MLX_KERNELS=avx2 expect 3 here_mlx eval none --data none
lacks "$err" mlx_onednn.so

# bug: what was built looked for libraries in the current folder as well, and so took what a dataset brought along.
mkdir "$work/planted" && cd "$work/planted"
for library in libz.so.1 libzstd.so.1 libgit2.so.1.5 libgomp.so.1; do echo planted >"$library"; done
expect 0 mlx version -v
has "$out" "kernels   onednn"
