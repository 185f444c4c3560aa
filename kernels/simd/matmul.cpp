// Products of stacks of matrices, f32. Phase 0 packs every matrix of b into panels, phase 1 multiplies blocks of rows
// with panels (product.h). Each element sums its terms in order.
#include "kernels/simd/linear.h"

namespace mlx::kernels::MLX_ISA {
namespace {

void pack_matrix(const State* s, const float* b, float* packed) {
  const std::int64_t k = s->g.in_width, n = s->g.out_width;
  if (s->attrs.transpose_b) return pack_columns(b, k, k, n, packed);
  for (std::int64_t p = 0; p < k; ++p) pack_term(b + p * n, p, k, n, packed);
}

// Multiplies rows i … of a matrix of a with one panel. Terms are taken in passes, so that a panel stays in the cache.
void multiply_block(const State* s, const float* a, const float* packed, float* y, std::int64_t i, std::int64_t j,
                    std::int64_t height) {
  const std::int64_t m = s->g.time, k = s->g.in_width, n = s->g.out_width;
  const bool turned = s->attrs.transpose_a;
  const std::int64_t passes = k > kDepth ? (k + kDepth - 1) / kDepth : 1;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t begin = k * pass / passes, end = k * (pass + 1) / passes, terms = end - begin;
    const Product<float> block{turned ? a + begin * m + i : a + i * k + begin,
                               turned ? 1 : k,
                               turned ? m : 0,
                               turned ? terms : 1,
                               turned ? 1 : terms,
                               packed + j * k + begin * panel_width(n, j),
                               y + i * n + j,
                               n,
                               nullptr,
                               Activation::kNone,
                               begin == 0,
                               end == k};
    multiply(block, smaller(height, m - i), smaller(kPanel, n - j));
  }
}

void matmul(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t m = s->g.time, k = s->g.in_width, n = s->g.out_width;
  const std::int64_t floats = static_cast<std::int64_t>(panels_bytes(k, n) / sizeof(float));
  auto* packed = static_cast<float*>(args.workspace);
  const Range items = range_of(s, phase, slice);
  if (phase == 0) {
    for (std::int64_t i = items.begin; i < items.end; ++i)
      pack_matrix(s, f32_in(s, args, 1) + i * k * n, packed + i * floats);
    return;
  }
  const std::int64_t height = block_rows(m, n), high = (m + height - 1) / height, panels = (n + kPanel - 1) / kPanel;
  for (std::int64_t item = items.begin; item < items.end; ++item) {
    const std::int64_t at = item / (high * panels), block = item % (high * panels);
    const Place place = place_of(s->g.loops, at, s->g.loops.rank);
    multiply_block(s, f32_in(s, args, 0) + place.a * m * k, packed + place.b * floats, f32_out(s, args, 0) + at * m * n,
                   block % high * height, block / high * kPanel, height);
  }
}

}  // namespace

bool prepare_matmul(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, matmul);
  if (!s) return false;
  const Geometry& g = s->g;
  const std::int64_t m = g.time, k = g.in_width, n = g.out_width, count = count_of(g.loops);
  const std::int64_t height = block_rows(m, n), blocks = (m + height - 1) / height * ((n + kPanel - 1) / kPanel);
  plan.workspace_bytes = static_cast<std::size_t>(g.elements) * panels_bytes(k, n);
  cut(s, plan, 0, g.elements, g.elements * k * n * 8);
  cut(s, plan, 1, count * blocks, count * m * n * (k / 4 + 4));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
