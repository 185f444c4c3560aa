// AVX-512 BF16 linear layer: products of bf16 with f32 sums, forward and both backwards. A factor is a pair of bf16,
// two terms that one VDPBF16PS multiplies and adds: neighbours in a row of x or dy, or for the gradient to the weights
// the same column of two successive rows. Weights are f32 and are rounded while they are packed, each time they have
// changed. This avoids oneDNN's reorders, which take longer than the products of few rows.
#include <immintrin.h>

#include "kernels/avx512/avx512.h"
#include "kernels/half.h"
#include "kernels/simd/linear.h"

namespace mlx::kernels::avx512 {
namespace {

struct [[gnu::may_alias]] Pair {
  std::uint32_t bits;  // the first term in the lower half
};
struct Pairs {
  __m512i v;
};

inline Pairs broadcast(Pair x) {
  return {_mm512_set1_epi32(static_cast<int>(x.bits))};
}
inline Pairs load(const Pair* from) {
  return {_mm512_loadu_si512(from)};
}
inline Pairs load(const Pair* from, Mask m) {
  return {_mm512_maskz_loadu_epi32(m.bits, from)};
}
inline Pairs load(const Pair* from, All) {
  return load(from);
}
inline Floats fma(Pairs a, Pairs b, Floats c) {
  return {_mm512_dpbf16_ps(c.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
}

// Reinterprets pairs as the floats that panels hold.
inline Floats as_floats(__m512i pairs) {
  return {_mm512_castsi512_ps(pairs)};
}
// Makes pairs from sixteen bf16 each.
inline __m512i pairs_of(__m256i first, __m256i second) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(first), _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
}
inline __m256i rounded(Floats x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.v));
}

// The panels of product.h, made of pairs.
void pack_forward(const void* opaque, const void* weights, const void*, void* packed) {
  const Geometry& g = state_of(opaque)->g;
  const auto* w = static_cast<const float*>(weights);
  pack_columns(g.in_width / 2, g.out_width, static_cast<float*>(packed), [&](std::int64_t j, std::int64_t p) {
    const float* from = w + j * g.in_width + 2 * p;
    const std::int64_t left = g.in_width - 2 * p;
    const Floats low = load(from, lanes(left)), high = load(from + 16, lanes(left - 16));
    return as_floats(reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.v, low.v)));
  });
}
void pack_backward(const void* opaque, const void* weights, const void*, void* packed) {
  const Geometry& g = state_of(opaque)->g;
  const std::int64_t pairs = g.out_width / 2, columns = g.in_width;
  for (std::int64_t p = 0; p < pairs; ++p) {
    const float* first = static_cast<const float*>(weights) + 2 * p * columns;
    pack_term(p, pairs, columns, static_cast<float*>(packed), [&](std::int64_t j, Mask mask) {
      return as_floats(pairs_of(rounded(load(first + j, mask)), rounded(load(first + columns + j, mask))));
    });
  }
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  multiply_slice<Pair>(s, args, f32_in(s, args, 2), s->g.in_width / 2, s->g.out_width, phase, slice);
}
void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  multiply_slice<Pair>(s, args, nullptr, s->g.out_width / 2, s->g.in_width, phase, slice);
}

// Rows 2r and 2r + 1 of `from` become row r of pairs.
void pair_rows(const BF16* from, std::int64_t rows, std::int64_t width, Range pairs, Pair* to) {
  for (std::int64_t r = pairs.begin; r < pairs.end; ++r) {
    const BF16* first = from + 2 * r * width;
    for (std::int64_t c = 0; c < width; c += 16) {
      const Mask mask = lanes(width - c), both = 2 * r + 1 < rows ? mask : none();
      const __m512i paired = pairs_of(_mm256_maskz_loadu_epi16(mask.bits, first + c),
                                      _mm256_maskz_loadu_epi16(both.bits, first + width + c));
      _mm512_mask_storeu_epi32(to + r * width + c, mask.bits, paired);
    }
  }
}

// Workspace: the pairs of x, then those of dy. Phase 0 makes the pairs, phase 1 sums dw, phase 2 sums db.
void backward_weights(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t pairs = (g.rows + 1) / 2;
  auto *x = static_cast<Pair*>(args.workspace), *dy = x + pairs * g.in_width;
  const auto* plain_dy = static_cast<const BF16*>(args.inputs[1]);
  const Range items = range_of(s, phase, slice);
  if (phase == 0) {
    pair_rows(static_cast<const BF16*>(args.inputs[0]), g.rows, g.in_width, items, x);
    return pair_rows(plain_dy, g.rows, g.out_width, items, dy);
  }
  if (phase == 1) return sum_weights<Pair>(s, x, dy, pairs, f32_out(s, args, 0), items);
  sum_bias(s, plain_dy, f32_out(s, args, 1), items);
}

}  // namespace

bool prepare_linear_bf16(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward, Takes::kBF16);
  if (!s || s->g.x_type != DType::kBF16 || s->g.has_pre) return false;
  const std::int64_t k = s->g.in_width, n = s->g.out_width;
  if (problem.op == Op::kLinearBackwardWeights) {
    const std::int64_t pairs = (s->g.rows + 1) / 2;
    plan.run = backward_weights;
    plan.workspace_bytes = bytes_of(pairs * (k + n), sizeof(Pair));
    cut(s, plan, 0, pairs, s->g.rows * (k + n) * 4);
    cut(s, plan, 1, weight_blocks(n, k), n * k * (pairs / 4 + 4));
    if (s->g.has_output[1]) cut(s, plan, 2, (n + 15) / 16, s->g.rows * n * 2);
    return true;
  }
  const bool forwards = problem.op == Op::kLinear;
  const std::int64_t terms = forwards ? k : n;
  if (terms % 2 != 0 || problem.inputs[1].dtype != DType::kF32) return false;
  plan.run = forwards ? forward : backward_data;
  plan.pack = forwards ? pack_forward : pack_backward;
  plan.layout_count = 0;
  if (!forwards) s->attrs.activation = Activation::kNone;
  cut_product(s, plan, terms / 2, forwards ? n : k);
  return true;
}

}  // namespace mlx::kernels::avx512
