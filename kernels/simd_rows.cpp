// The rows of the hand-written AVX2 and AVX-512 backends: those of kernels/simd, and what only AVX-512 can do; and the
// problems for which these are faster than oneDNN. Compiled for any CPU: backend.cpp checks the CPU before it uses
// them.
#include "kernels/avx512/avx512.h"
#include "kernels/backend_row.h"
#include "kernels/simd/rows.h"

namespace mlx::kernels {
namespace {

// Problems for which kernels/simd with AVX-512 measured faster than oneDNN 2.6, which pads images with few channels to
// blocks of channels. GFLOP/s on a core of a Zen 4, ours/oneDNN's: 28×28×1 to 32, 3×3: forward 85/60, gradient to the
// weights 103/48, u8 129/55, s8 143/73; stride 2: 78/44, 94/48, 105/42. 32×32×3 to 32: 103/93, 96/74, but u8 175/171;
// 112×112×3 to 64, 7×7, stride 2: 103/110, 96/89, u8 245/314: oneDNN keeps the problems that it does better.
bool convolves_few_channels(const Problem& problem, const Geometry& g) {
  if (g.groups != 1 || g.c > kFewChannels) return false;
  if (problem.op == Op::kConv2dBackwardWeights) return true;
  if (problem.op != Op::kConv2d) return false;
  return g.c <= 2 || (g.sh == 1 && g.sw == 1);
}

// The same for quantized layers, which are used in inference only. Ours/oneDNN's, microseconds for eight images on a
// core of a Zen 4 with VNNI, u8, 3x3: 32×32×3 to 16: 28/36, ×16 to 16: 65/66, to 32 at stride 2: 26/31; 16×16×32 to 32:
// 42/46. 8×8×64 to 64: 41/39, 1×1 of 16 to 960 channels: 42/43 to 125/70: oneDNN keeps those. ResNet-20 as a whole is
// 1.2 times as fast.
bool convolves_bytes(const Problem& problem, const Geometry& g) {
  return problem.op == Op::kConv2d && g.quantized && g.groups == 1 && g.kh == 3 && g.kw == 3 && g.c > kFewChannels &&
         g.c <= 32 && g.o <= 32 && problem.attrs.activation != Activation::kGelu;
}

bool is_known(const Problem& problem, int input) {
  return problem.constants && problem.constants[input];
}

// The same for linear layers in training, where weights are packed again in each step. Microseconds on a core of a Zen
// 4, ours/oneDNN's, 128 rows of 784 to 512: bf16 forward 447/451, packed in 41/120; to the data 444/448, in 29/117 (f32
// 888/905, in 38/52); to the weights 499/740 (f32 925/1114). 8192 rows of 384 to 1536, bf16: 55.4/46.0 ms, 48.2/44.2,
// 86.6/66.1; 128 rows of 6272 to 128 to the weights: 1147/1067. Forward in f32, on a Zen 5: 404/411, packed in 44/100,
// and less slowed by rows that another core has just written: a training of an mlp on images is 1.09 times as fast. Not
// in inference, whose weights are known and packed once: its bits must not depend on how many rows are computed at
// once.
bool multiplies_few_rows(const Problem& problem, const Geometry& g) {
  constexpr std::int64_t kFewRows = 1024, kCached = std::int64_t{1} << 20;  // bytes of x and dy
  const bool bf16 = problem.inputs[0].dtype == DType::kBF16;
  switch (problem.op) {
    case Op::kLinear:
      return stored_in_half(problem, 1) || ((bf16 || !is_known(problem, 1)) && g.rows <= kFewRows);
    case Op::kLinearBackwardData:
      return g.rows <= kFewRows;
    case Op::kLinearBackwardWeights:
      return g.rows * (g.in_width + g.out_width) * (bf16 ? 2 : 4) <= kCached;
    default:
      return false;
  }
}

}  // namespace

std::vector<Kernel> avx2_kernels() {
  return {avx2::kRows, avx2::kRows + avx2::kRowCount};
}

std::vector<Kernel> avx512_kernels() {
  std::vector<Kernel> rows{{Op::kConv2d, avx512::prepare_conv_first_int8}};
  rows.insert(rows.end(), avx512::kRows, avx512::kRows + avx512::kRowCount);
  for (const Op op : {Op::kLinear, Op::kLinearBackwardData, Op::kLinearBackwardWeights})
    rows.push_back({op, avx512::prepare_linear_bf16});
  return rows;
}

bool avx512_is_faster(const Problem& problem, const Geometry& g) {
  const bool convolves =
      problem.op == Op::kConv2d || problem.op == Op::kConv2dBackwardData || problem.op == Op::kConv2dBackwardWeights;
  if (!convolves) return multiplies_few_rows(problem, g);
  return convolves_few_channels(problem, g) || convolves_bytes(problem, g);
}

}  // namespace mlx::kernels
