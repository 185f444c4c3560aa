// Linear layer, f32: forward and the gradient to x as rows against packed weights, the gradient to the weights as sums
// of outer products (product.h). Each element sums its terms in order, so a row's bits do not depend on the other rows.
#include "kernels/simd/product.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// The result is cut in blocks of rows by panels of columns, column after column of blocks: high enough to use a panel
// again while it is in the second-level cache, as long as there are blocks for all threads.
std::int64_t block_rows(std::int64_t rows, std::int64_t columns) {
  const std::int64_t panels = (columns + 63) / 64;
  for (const std::int64_t height : {192, 96})
    if ((rows + height - 1) / height * panels >= 48) return height;
  return 48;
}

// y[rows, columns] = act(a[rows, terms] · packed + bias), one slice of it.
void multiply_slice(const State* s, const Args& args, const float* bias, std::int64_t terms, std::int64_t columns,
                    int phase, int slice) {
  const std::int64_t rows = s->g.rows, height = block_rows(rows, columns), high = (rows + height - 1) / height;
  const std::int64_t passes = terms > kDepth ? (terms + kDepth - 1) / kDepth : 1;
  const Range items = range_of(s, phase, slice);
  for (std::int64_t item = items.begin; item < items.end; ++item) {
    const std::int64_t i = item % high * height, j = item / high * kPanel;
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      const std::int64_t begin = terms * pass / passes, end = terms * (pass + 1) / passes;
      const Product m{f32_in(s, args, 0) + i * terms + begin,
                      terms,
                      0,
                      1,
                      end - begin,
                      static_cast<const float*>(args.packed) + j * terms + begin * panel_width(columns, j),
                      f32_out(s, args, 0) + i * columns + j,
                      columns,
                      bias ? bias + j : nullptr,
                      s->attrs.activation,
                      begin == 0,
                      end == terms};
      multiply(m, smaller(height, rows - i), smaller(kPanel, columns - j));
    }
  }
}
void cut_product(State* s, Plan& plan, std::int64_t terms, std::int64_t columns) {
  const std::int64_t rows = s->g.rows, height = block_rows(rows, columns);
  cut(s, plan, 0, (rows + height - 1) / height * ((columns + kPanel - 1) / kPanel), rows * columns * (terms / 4 + 4));
  plan.packed_input = 1;
  plan.packed_bytes = panels_bytes(terms, columns);
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  multiply_slice(s, args, f32_in(s, args, 2), s->g.in_width, s->g.out_width, phase, slice);
}
void pack_forward(const void* opaque, const void* weights, void* packed) {
  const Geometry& g = state_of(opaque)->g;
  pack_columns(static_cast<const float*>(weights), g.in_width, g.in_width, g.out_width, static_cast<float*>(packed));
}

void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  multiply_slice(s, args, nullptr, s->g.out_width, s->g.in_width, phase, slice);
}
void pack_backward(const void* opaque, const void* weights, void* packed) {
  const Geometry& g = state_of(opaque)->g;
  const auto* w = static_cast<const float*>(weights);
  for (std::int64_t n = 0; n < g.out_width; ++n)
    pack_term(w + n * g.in_width, n, g.out_width, g.in_width, static_cast<float*>(packed));
}

// dw is cut in blocks of 48 rows and 64 columns; 128 rows of x and dy, as far as a block needs them, stay in the first
// cache.
constexpr std::int64_t kBlockRows = 48, kBlockColumns = 64, kGroup = 128;

// dw = dyᵀ x.
void weight_block(const State* s, const Args& args, std::int64_t i, std::int64_t j) {
  const std::int64_t k = s->g.in_width, n = s->g.out_width;
  const std::int64_t high = smaller(kBlockRows, n - i), wide = smaller(kBlockColumns, k - j);
  float* dw = f32_out(s, args, 0) + i * k + j;
  for (std::int64_t row = 0; row < high; ++row)
    by_vectors(0, wide, [&](std::int64_t c, auto mask) { store(dw + row * k + c, zeros(), mask); });
  for (std::int64_t r = 0; r < s->g.rows; r += kGroup) {
    const OuterSums m{
        f32_in(s, args, 1) + r * n + i, n, f32_in(s, args, 0) + r * k + j, k, smaller(kGroup, s->g.rows - r), dw, k};
    add_outer(m, high, wide);
  }
}

// Phase 1 sums db over the rows in order.
void backward_weights(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t n = s->g.out_width, high = (n + kBlockRows - 1) / kBlockRows;
  const Range items = range_of(s, phase, slice);
  if (phase == 0) {
    for (std::int64_t item = items.begin; item < items.end; ++item)
      weight_block(s, args, item % high * kBlockRows, item / high * kBlockColumns);
    return;
  }
  const float* dy = f32_in(s, args, 1);
  by_vectors(items.begin * 16, smaller(items.end * 16, n), [&](std::int64_t j, auto mask) {
    Floats sum = zeros();
    for (std::int64_t r = 0; r < s->g.rows; ++r) sum = sum + load(dy + r * n + j, mask);
    store(f32_out(s, args, 1) + j, sum, mask);
  });
}

}  // namespace

bool prepare_linear(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward);
  if (!s || s->g.quantized) return false;
  const std::int64_t k = s->g.in_width, n = s->g.out_width;
  if (problem.op == Op::kLinear) {
    plan.pack = pack_forward;
    cut_product(s, plan, k, n);
  } else if (problem.op == Op::kLinearBackwardData) {
    plan.run = backward_data;
    plan.pack = pack_backward;
    s->attrs.activation = Activation::kNone;
    cut_product(s, plan, n, k);
  } else {
    plan.run = backward_weights;
    cut(s, plan, 0, (n + kBlockRows - 1) / kBlockRows * ((k + kBlockColumns - 1) / kBlockColumns),
        n * k * (s->g.rows / 4 + 4));
    if (s->g.has_output[1]) cut(s, plan, 1, (n + 15) / 16, s->g.rows * n * 4);
  }
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
