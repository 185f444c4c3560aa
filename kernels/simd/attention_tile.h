// Building blocks of attention forward and backward: tiles of up to 32 queries, one per lane, against blocks of 128
// keys. Used by kernels/simd/attention*.cpp and attention_forward.h only.
//
// Each number is one chain of fused multiply-adds over its index in order, whatever is in the other lanes and rows. So
// a query computed alone has the same bits as in a tile.
#pragma once

#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kTile = 32;  // queries
constexpr std::int64_t kKeys =
    128;  // a multiple of kTile: each query of a tile sees a key in every block that the tile needs

// The place in qkv of one query head of one sequence, and of its group's keys and values; `y` is an offset from the
// start of y.
struct Head {
  std::int64_t batch, group, size, stride, y;
  const float *q, *k, *v;
};
inline Head head_of(const State* s, const float* qkv, std::int64_t i) {
  const std::int64_t batch = i / s->g.heads, head = i % s->g.heads, size = s->g.head, stride = s->g.width;
  const std::int64_t group = head / (s->g.heads / s->g.kv_heads);
  const float* row = qkv + batch * s->g.time * stride;
  const float* k = row + s->g.dim + group * size;
  return {batch, group,          size, stride, batch * s->g.time * s->g.dim + head * size, row + head * size,
          k,     k + s->g.kv_dim};
}

// Loads elements i … i+15 of 16 rows at from, from + stride, …. Only `rows` rows from `first` on exist; the others are
// zero.
inline void load_columns(const float* from, std::int64_t stride, std::int64_t first, std::int64_t rows, std::int64_t i,
                         std::int64_t size, Floats* columns) {
  const Mask mask = lanes(size - i);
  for (std::int64_t r = 0; r < 16; ++r) {
    const bool there = r >= first && r < first + rows;
    columns[r] = there ? load(from + (r - first) * stride + i, mask) : zeros();
  }
  transpose(columns);
}

// to[i · kTile + lane] = factor · from[row · stride + i], with row 0 in lane `first`. Lanes without a row are zero; all
// 32 are written.
inline void to_lanes(const float* from, std::int64_t stride, std::int64_t first, std::int64_t rows, std::int64_t size,
                     float factor, float* to) {
  for (std::int64_t lane = 0; lane < kTile; lane += 16) {
    const std::int64_t skipped = lane > first ? lane - first : 0, from_lane = first > lane ? first - lane : 0;
    for (std::int64_t i = 0; i < size; i += 16) {
      Floats columns[16];
      load_columns(from + skipped * stride, stride, from_lane, rows - skipped, i, size, columns);
      for (std::int64_t c = 0; c < 16 && i + c < size; ++c)
        store(to + (i + c) * kTile + lane, columns[c] * broadcast(factor));
    }
  }
}

template <int kVectors, int kRows>
inline void score_rows(const float* x, const float* rows, std::int64_t stride, std::int64_t size, float* scores) {
  Floats sum[kRows][kVectors];
  for (auto& row : sum)
    for (Floats& each : row) each = zeros();
  for (std::int64_t i = 0; i < size; ++i) {
    Floats lane[kVectors];
    for (int v = 0; v < kVectors; ++v) lane[v] = load(x + i * kTile + 16 * v);
    for (int r = 0; r < kRows; ++r) {
      const Floats other = broadcast(rows[r * stride + i]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(lane[v], other, sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) store(scores + r * kTile + 16 * v, sum[r][v]);
}

// scores[j · kTile + lane] = sum over i of x[i · kTile + lane] · rows[j · stride + i], for kVectors vectors of lanes,
// as many at once as the registers hold.
template <int kVectors>
inline void score(const float* x, const float* rows, std::int64_t stride, std::int64_t count, std::int64_t size,
                  float* scores) {
  constexpr int kAtOnce = kHeld >= 32 ? kVectors : 1;  // NOLINT(bugprone-branch-clone): the same for one vector
  constexpr int kMany = kHeld >= 32 ? 8 : 6;
  std::int64_t j = 0;
  for (; j + kMany <= count; j += kMany)
    for (int v = 0; v < kVectors; v += kAtOnce)
      score_rows<kAtOnce, kMany>(x + 16 * v, rows + j * stride, stride, size, scores + j * kTile + 16 * v);
  for (; j < count; ++j) score_rows<kVectors, 1>(x, rows + j * stride, stride, size, scores + j * kTile);
}

// A matrix of factors: row r, column n is at data[r · row + n · column].
struct Factors {
  const float* data;
  std::int64_t row, column;
};

template <int kRows>
inline void accumulate_rows(float* out, std::int64_t out_stride, Factors factors, const float* with,
                            std::int64_t with_stride, std::int64_t count, std::int64_t size) {
  by_channels(size, [&]<int kVectors>(std::int64_t c, auto last) {
    Floats sum[kRows][kVectors];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = load(out + r * out_stride + c + 16 * v, lanes_of(v, kVectors, last));
    for (std::int64_t n = 0; n < count; ++n) {
      Floats row[kVectors];
      for (int v = 0; v < kVectors; ++v)
        row[v] = load(with + n * with_stride + c + 16 * v, lanes_of(v, kVectors, last));
      for (int r = 0; r < kRows; ++r) {
        const Floats factor = broadcast(factors.data[r * factors.row + n * factors.column]);
        for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(factor, row[v], sum[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        store(out + r * out_stride + c + 16 * v, sum[r][v], lanes_of(v, kVectors, last));
  });
}

// out[r · out_stride + c] += sum over n < count of factors(r, n) · with[n · with_stride + c], for `rows` rows.
inline void accumulate(float* out, std::int64_t out_stride, std::int64_t rows, Factors factors, const float* with,
                       std::int64_t with_stride, std::int64_t count, std::int64_t size) {
  std::int64_t r = 0;
  const auto at = [&] { return Factors{factors.data + r * factors.row, factors.row, factors.column}; };
  for (; r + 4 <= rows; r += 4)
    accumulate_rows<4>(out + r * out_stride, out_stride, at(), with, with_stride, count, size);
  for (; r < rows; ++r) accumulate_rows<1>(out + r * out_stride, out_stride, at(), with, with_stride, count, size);
}

// How a score comes from a product, and which keys have one (op_list.h, kAttention).
struct Scoring {
  float scale, cap;     // cap: 0 for none
  std::int64_t window;  // 0 for none
  // Masks which of the 16 queries from position `first` on may attend to key `key`.
  Mask sees(std::int64_t first, std::int64_t key) const {
    const Mask causal = lanes_from(key - first);
    return window > 0 ? causal & lanes(key - first + window) : causal;
  }
  std::int64_t first_key(std::int64_t position) const {
    return window > 0 && window <= position ? position - window + 1 : 0;
  }
};
inline Scoring scoring_of(const State* s) {
  const double size = static_cast<double>(s->g.head);
  return {static_cast<float>(static_cast<double>(s->attrs.scale_a) / __builtin_sqrt(size)), s->attrs.cap,
          s->attrs.window};
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
