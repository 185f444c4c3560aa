// Matrix products for linear layers and convolutions: rows of a (or windows of an image) times packed weights, and sums
// of outer products for gradients to weights. Used by linear.cpp and conv*.cpp in this folder.
//
// A factor is a float or, if the instruction set multiplies them, a pair of bf16, which stands for two terms. It is a
// type with its own load, broadcast and fma (kernels/avx512/linear_bf16.cpp). Terms below are counted in factors.
//
// Every element of a result is one chain of fused multiply-adds over its terms in order, whatever else is in the
// registers. When a chain is interrupted, its partial sum is stored exactly. So its bits depend neither on the blocks
// below, which differ between instruction sets, nor on other rows.
#pragma once

#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kPanel = 16 * kWide;  // columns of packed weights that are processed at once
constexpr std::int64_t kAhead = 4096;        // bytes that are asked for before they are read
constexpr std::int64_t kDepth = 512;         // terms per pass: a panel of them stays in the second-level cache

// The number of rows whose sums fit in the registers beside `vectors` vectors of weights.
constexpr int most_rows(int vectors) {
  return kHeld < 32 ? 6 : vectors == 1 ? 14 : 24 / vectors;
}

inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
inline std::int64_t rounded_up(std::int64_t n, std::int64_t to) {
  return (n + to - 1) / to * to;
}

// Weights are packed in panels of kPanel columns; the last panel has the remaining columns, rounded up to 16. The terms
// of a panel are stored one after another. The panel of column j begins at packed + j · terms.
inline std::int64_t panel_width(std::int64_t columns, std::int64_t j) {
  return smaller(rounded_up(columns - j, 16), kPanel);
}
inline std::size_t panels_bytes(std::int64_t terms, std::int64_t columns, std::size_t factor = sizeof(float)) {
  return bytes_of(terms * rounded_up(columns, 16), factor);
}

// Packs the panels of a matrix. sixteen(j, p) returns the factors p … p + 15 of column j, zeros after the last. Factors
// of any type have a float's size and are packed as floats, or else as the half-precision numbers that they are.
template <typename Packed, typename Sixteen>
void pack_columns(std::int64_t terms, std::int64_t columns, Packed* packed, Sixteen sixteen) {
  for (std::int64_t j = 0; j < columns; j += kPanel) {
    const std::int64_t width = panel_width(columns, j);
    for (std::int64_t c = j; c < j + width; c += 16)
      for (std::int64_t p = 0; p < terms; p += 16) {
        Floats rows[16];
        for (std::int64_t i = 0; i < 16; ++i) rows[i] = c + i < columns ? sixteen(c + i, p) : zeros();
        transpose(rows);
        for (std::int64_t i = 0; i < 16 && p + i < terms; ++i)
          store(packed + j * terms + (p + i) * width + (c - j), rows[i], All{});
      }
  }
}
// For a matrix whose column j begins at from + j · stride and is contiguous.
inline void pack_columns(const float* from, std::int64_t stride, std::int64_t terms, std::int64_t columns,
                         float* packed) {
  pack_columns(terms, columns, packed,
               [&](std::int64_t j, std::int64_t p) { return load(from + j * stride + p, lanes(terms - p)); });
}
// Packs term p of all panels. sixteen(j, mask) returns that term of the columns j … j + 15 that are in the mask.
template <typename Sixteen>
void pack_term(std::int64_t p, std::int64_t terms, std::int64_t columns, float* packed, Sixteen sixteen) {
  for (std::int64_t j = 0; j < columns; j += kPanel) {
    const std::int64_t width = panel_width(columns, j);
    float* to = packed + j * terms + p * width;
    for (std::int64_t c = 0; c < width; c += 16) store(to + c, sixteen(j + c, lanes(columns - j - c)));
  }
}
// For a term that is contiguous over the columns, at `from`.
inline void pack_term(const float* from, std::int64_t p, std::int64_t terms, std::int64_t columns, float* packed) {
  pack_term(p, terms, columns, packed, [&](std::int64_t j, Mask mask) { return load(from + j, mask); });
}

inline Floats load(const F16* from) {
  return load(from, All{});
}
inline Floats load(const BF16* from) {
  return load(from, All{});
}

// Rows of a times one panel. A row's terms are `segments` runs of `depth`, `jump` apart; y[r, j] = act(sum + bias[j]).
template <typename Factor, typename Column = Factor>
struct Product {
  const Factor* a;
  std::int64_t row_step, jump, segments, depth;
  const Column* b;  // the panel, from the first term of these segments on; half-precision columns are widened
  float* y;
  std::int64_t y_step;
  const float* bias;  // of the panel's columns; null if there is none
  Activation activation;
  bool begins, ends;  // true if the first terms, or the last, are among these
};

inline Floats activated(Activation activation, Floats x) {
  if (activation == Activation::kGelu) return gelu16(x);
  return activation == Activation::kNone ? x : bounded16(bounds_of(activation), x);
}

// Computes rows first … first + R - 1. `last` is the mask of the panel's last vector.
template <int R, int N, typename Factor, typename Column>
void rows_of_product(const Product<Factor, Column>& m, std::int64_t first, Mask last) {
  using Vector = decltype(load(m.b));
  Floats sum[R][N];
  float* y = m.y + first * m.y_step;
  const bool whole = is_full(last);  // masked stores are slow
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) sum[r][v] = m.begins ? zeros() : load(y + r * m.y_step + 16 * v, lanes_of(v, N, last));
  }
  const Column* b = m.b;
  for (std::int64_t segment = 0; segment < m.segments; ++segment) {
    const Factor* a = m.a + first * m.row_step + segment * m.jump;
    for (std::int64_t p = m.depth; p > 0; --p, ++a, b += 16 * N) {
      Vector column[N];
      if constexpr (sizeof(Column) < sizeof(Factor) && N == kWide) {  // weights that come from memory
        for (std::size_t at = 0; at < N * 16 * sizeof(Column); at += 64)
          __builtin_prefetch(reinterpret_cast<const char*>(b) + kAhead + at);
      }
      MLX_UNROLL
      for (int v = 0; v < N; ++v) column[v] = load(b + 16 * v);
      MLX_UNROLL
      for (int r = 0; r < R; ++r) {
        const Vector factor = broadcast(a[r * m.row_step]);
        MLX_UNROLL
        for (int v = 0; v < N; ++v) sum[r][v] = fma(factor, column[v], sum[r][v]);
      }
    }
  }
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    const Floats bias = m.ends && m.bias ? load(m.bias + 16 * v, lanes_of(v, N, last)) : zeros();
    MLX_UNROLL
    for (int r = 0; r < R; ++r) {
      const Floats result = m.ends ? activated(m.activation, sum[r][v] + bias) : sum[r][v];
      if (whole || v + 1 < N)
        store(y + r * m.y_step + 16 * v, result);
      else
        store(y + r * m.y_step + 16 * v, result, last);
    }
  }
}

template <int R, int N, typename Factor, typename Column>
void strip(const Product<Factor, Column>& m, std::int64_t first, std::int64_t rows, Mask last) {
  if constexpr (R > 1)
    if (rows < R) return strip<R - 1, N>(m, first, rows, last);
  rows_of_product<R, N>(m, first, last);
}
// Strips have nearly equal height, because a short one has too few sums to hide the latency of a multiply-add.
template <int N, typename Factor, typename Column>
void strips(const Product<Factor, Column>& m, std::int64_t rows, Mask last) {
  constexpr int kMost = most_rows(N);
  const std::int64_t count = (rows + kMost - 1) / kMost;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = rows * i / count;
    strip<kMost, N>(m, first, rows * (i + 1) / count - first, last);
  }
}
// `rows` rows times a panel of `columns` columns, at most kPanel.
template <typename Factor, typename Column>
void multiply(const Product<Factor, Column>& m, std::int64_t rows, std::int64_t columns) {
  if constexpr (kWide > 1) {
    if (columns > 48) return strips<4>(m, rows, lanes(columns - 48));
    if (columns > 32) return strips<3>(m, rows, lanes(columns - 32));
    if (columns > 16) return strips<2>(m, rows, lanes(columns - 16));
  }
  strips<1>(m, rows, lanes(columns));
}

// sums[i, j] += sum over n < count of x[n, i] · dy[n, j].
template <typename Factor>
struct OuterSums {
  const Factor* x;
  std::int64_t x_step;
  const Factor* dy;
  std::int64_t dy_step, count;
  float* sums;
  std::int64_t sums_step;
};

template <int R, int N, typename Factor, typename M>
void rows_of_outer(const OuterSums<Factor>& m, std::int64_t first, M last) {
  using Vector = decltype(load(m.dy));
  Floats sum[R][N];
  float* sums = m.sums + first * m.sums_step;
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) sum[r][v] = load(sums + r * m.sums_step + 16 * v, lanes_of(v, N, last));
  }
  const Factor *x = m.x + first, *dy = m.dy;
  for (std::int64_t n = m.count; n > 0; --n, x += m.x_step, dy += m.dy_step) {
    Vector row[N];
    MLX_UNROLL
    for (int v = 0; v < N; ++v) row[v] = load(dy + 16 * v, lanes_of(v, N, last));
    MLX_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vector factor = broadcast(x[r]);
      MLX_UNROLL
      for (int v = 0; v < N; ++v) sum[r][v] = fma(factor, row[v], sum[r][v]);
    }
  }
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) store(sums + r * m.sums_step + 16 * v, sum[r][v], lanes_of(v, N, last));
  }
}

template <int R, int N, typename Factor, typename M>
void outer_strip(const OuterSums<Factor>& m, std::int64_t first, std::int64_t rows, M last) {
  if constexpr (R > 1)
    if (rows < R) return outer_strip<R - 1, N>(m, first, rows, last);
  rows_of_outer<R, N>(m, first, last);
}
template <int N, typename Factor, typename M>
void outer_strips(const OuterSums<Factor>& m, std::int64_t rows, M last) {
  constexpr int kMost = most_rows(N);
  const std::int64_t count = (rows + kMost - 1) / kMost;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = rows * i / count;
    outer_strip<kMost, N>(m, first, rows * (i + 1) / count - first, last);
  }
}
// For i < rows, j < columns.
template <typename Factor>
void add_outer(const OuterSums<Factor>& m, std::int64_t rows, std::int64_t columns) {
  OuterSums<Factor> block = m;
  by_channels(columns, [&]<int N>(std::int64_t j, auto last) {
    block.dy = m.dy + j, block.sums = m.sums + j;
    outer_strips<N>(block, rows, last);
  });
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
