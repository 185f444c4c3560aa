// Linear layers with factors of any type (product.h). The result is computed in blocks of rows by panels of weights,
// the gradient to the weights in blocks of sums. Used by linear.cpp in this folder and by
// kernels/avx512/linear_bf16.cpp.
#pragma once

#include "kernels/simd/product.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// The height of the result's blocks, which are taken column by column. A block is high enough to reuse a panel while it
// is in the second-level cache, as long as there are enough blocks for all threads.
inline std::int64_t block_rows(std::int64_t rows, std::int64_t columns) {
  const std::int64_t panels = (columns + 63) / 64;
  for (const std::int64_t height : {192, 96})
    if ((rows + height - 1) / height * panels >= 48) return height;
  return 48;
}

// One slice of y[rows, columns] = act(a[rows, terms] · packed + bias). If y is bf16, the sums of a block are kept in
// the slice's part of the workspace until they are complete.
template <typename Factor, typename Column = Factor>
void multiply_slice(const State* s, const Args& args, const float* bias, std::int64_t terms, std::int64_t columns,
                    int phase, int slice) {
  const bool narrow = s->g.y_type == DType::kBF16;
  const std::int64_t rows = s->g.rows, height = block_rows(rows, columns), high = (rows + height - 1) / height;
  const std::int64_t passes = terms > kDepth ? (terms + kDepth - 1) / kDepth : 1;
  const auto* a = static_cast<const Factor*>(args.inputs[0]);
  const auto* b = static_cast<const Column*>(args.packed);
  const Range items = range_of(s, phase, slice);
  for (std::int64_t item = items.begin; item < items.end; ++item) {
    const std::int64_t i = item % high * height, j = item / high * kPanel, y = i * columns + j;
    const std::int64_t block_high = smaller(height, rows - i), block_wide = smaller(kPanel, columns - j);
    float* sums = narrow ? static_cast<float*>(args.workspace) + slice * height * kPanel : f32_out(s, args, 0) + y;
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      const std::int64_t begin = terms * pass / passes, end = terms * (pass + 1) / passes;
      const Product<Factor, Column> m{a + i * terms + begin,
                                      terms,
                                      0,
                                      1,
                                      end - begin,
                                      b + j * terms + begin * panel_width(columns, j),
                                      sums,
                                      narrow ? kPanel : columns,
                                      bias ? bias + j : nullptr,
                                      s->attrs.activation,
                                      begin == 0,
                                      end == terms};
      multiply(m, block_high, block_wide);
    }
    for (std::int64_t row = 0; narrow && row < block_high; ++row) {
      BF16* to = static_cast<BF16*>(args.outputs[0]) + y + row * columns;
      by_vectors(0, block_wide,
                 [&](std::int64_t c, auto mask) { store(to + c, load(sums + row * kPanel + c, mask), mask); });
    }
  }
}
inline void cut_product(State* s, Plan& plan, std::int64_t terms, std::int64_t columns) {
  const std::int64_t rows = s->g.rows, height = block_rows(rows, columns);
  cut(s, plan, 0, (rows + height - 1) / height * ((columns + kPanel - 1) / kPanel), rows * columns * (terms / 4 + 4));
  plan.packed_input = 1;
  plan.packed_bytes = panels_bytes(terms, columns);
  if (s->g.y_type == DType::kBF16) plan.workspace_bytes = bytes_of(s->slices[0] * height * kPanel, sizeof(float));
}

// dw is cut into blocks of 48 rows and 64 columns. The parts of 128 rows of x and dy that a block needs stay in the
// first-level cache.
constexpr std::int64_t kBlockRows = 48, kBlockColumns = 64, kGroup = 128;

inline std::int64_t weight_blocks(std::int64_t n, std::int64_t k) {
  return (n + kBlockRows - 1) / kBlockRows * ((k + kBlockColumns - 1) / kBlockColumns);
}
// Computes the blocks of one slice of dw[n, k] = dyᵀ x, over `rows` rows of factors.
template <typename Factor>
void sum_weights(const State* s, const Factor* x, const Factor* dy, std::int64_t rows, float* dw, Range blocks) {
  const std::int64_t k = s->g.in_width, n = s->g.out_width, blocks_high = (n + kBlockRows - 1) / kBlockRows;
  for (std::int64_t item = blocks.begin; item < blocks.end; ++item) {
    const std::int64_t i = item % blocks_high * kBlockRows, j = item / blocks_high * kBlockColumns;
    const std::int64_t high = smaller(kBlockRows, n - i), wide = smaller(kBlockColumns, k - j);
    float* block = dw + i * k + j;
    for (std::int64_t row = 0; row < high; ++row)
      by_vectors(0, wide, [&](std::int64_t c, auto mask) { store(block + row * k + c, zeros(), mask); });
    for (std::int64_t r = 0; r < rows; r += kGroup)
      add_outer(OuterSums<Factor>{dy + r * n + i, n, x + r * k + j, k, smaller(kGroup, rows - r), block, k}, high,
                wide);
  }
}
// Sums 16 columns of db per item, over the rows in order. T: float or BF16.
template <typename T>
void sum_bias(const State* s, const T* dy, float* db, Range items) {
  const std::int64_t n = s->g.out_width;
  by_vectors(items.begin * 16, smaller(items.end * 16, n), [&](std::int64_t j, auto mask) {
    Floats sum = zeros();
    for (std::int64_t r = 0; r < s->g.rows; ++r) sum = sum + load(dy + r * n + j, mask);
    store(db + j, sum, mask);
  });
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
