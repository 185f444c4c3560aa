// What attention forward and backward are made of: tiles of up to 32 queries, whose lanes stand side by side in
// vectors, against blocks of 128 keys. Used by kernels/avx512/attention*.cpp only.
//
// Each number is one chain of fused multiply-adds over its index in order, whatever stands in the lanes and rows beside
// it: a query computed alone has the bits of the same query in a tile.
#pragma once

#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

constexpr std::int64_t kTile = 32;  // queries
constexpr std::int64_t kKeys =
    128;  // a multiple of kTile: no query of a tile lacks a key in a block that the tile needs

// Where one head of queries of one sequence lies in qkv, and the keys and values of its group; `y` counts from the
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

// Rows of a 16 x 16 matrix become its columns.
inline void transpose16(__m512* r) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 4; ++j) {
      t[i + j] = _mm512_shuffle_f32x4(r[i + j], r[i + j + 4], 0x88);
      t[i + j + 4] = _mm512_shuffle_f32x4(r[i + j], r[i + j + 4], 0xdd);
    }
  for (int j = 0; j < 8; ++j) {
    r[j] = _mm512_shuffle_f32x4(t[j], t[j + 8], 0x88);
    r[j + 8] = _mm512_shuffle_f32x4(t[j], t[j + 8], 0xdd);
  }
}

// 16 rows at from, from + stride …, of which `rows` from `first` on are there (the others are zero), elements i … i+15.
inline void load_columns(const float* from, std::int64_t stride, std::int64_t first, std::int64_t rows, std::int64_t i,
                         std::int64_t size, __m512* columns) {
  for (std::int64_t r = 0; r < 16; ++r) {
    const bool there = r >= first && r < first + rows;
    columns[r] = there ? _mm512_maskz_loadu_ps(lanes(size - i), from + (r - first) * stride + i) : _mm512_setzero_ps();
  }
  transpose16(columns);
}

// to[i · kTile + lane] = factor · from[row · stride + i], row 0 in lane `first`; lanes without a row are zero. All 32.
inline void to_lanes(const float* from, std::int64_t stride, std::int64_t first, std::int64_t rows, std::int64_t size,
                     float factor, float* to) {
  for (std::int64_t lane = 0; lane < kTile; lane += 16) {
    const std::int64_t skipped = lane > first ? lane - first : 0, from_lane = first > lane ? first - lane : 0;
    for (std::int64_t i = 0; i < size; i += 16) {
      __m512 columns[16];
      load_columns(from + skipped * stride, stride, from_lane, rows - skipped, i, size, columns);
      for (std::int64_t c = 0; c < 16 && i + c < size; ++c)
        _mm512_storeu_ps(to + (i + c) * kTile + lane, _mm512_mul_ps(columns[c], _mm512_set1_ps(factor)));
    }
  }
}

template <int kVectors, int kRows>
inline void score_rows(const float* x, const float* rows, std::int64_t stride, std::int64_t size, float* scores) {
  __m512 sum[kRows][kVectors];
  for (auto& row : sum)
    for (__m512& each : row) each = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < size; ++i) {
    __m512 lane[kVectors];
    for (int v = 0; v < kVectors; ++v) lane[v] = _mm512_loadu_ps(x + i * kTile + 16 * v);
    for (int r = 0; r < kRows; ++r) {
      const __m512 other = _mm512_set1_ps(rows[r * stride + i]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(lane[v], other, sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(scores + r * kTile + 16 * v, sum[r][v]);
}

// scores[j · kTile + lane] = sum over i of x[i · kTile + lane] · rows[j · stride + i].
template <int kVectors>
inline void score(const float* x, const float* rows, std::int64_t stride, std::int64_t count, std::int64_t size,
                  float* scores) {
  std::int64_t j = 0;
  for (; j + 8 <= count; j += 8) score_rows<kVectors, 8>(x, rows + j * stride, stride, size, scores + j * kTile);
  for (; j < count; ++j) score_rows<kVectors, 1>(x, rows + j * stride, stride, size, scores + j * kTile);
}

// A matrix of factors: row r, column n at data[r · row + n · column].
struct Factors {
  const float* data;
  std::int64_t row, column;
};

template <int kRows>
inline void accumulate_rows(float* out, std::int64_t out_stride, Factors factors, const float* with,
                            std::int64_t with_stride, std::int64_t count, std::int64_t size) {
  by_channels(size, [&]<int kVectors>(std::int64_t c, __mmask16 last) {
    __m512 sum[kRows][kVectors];
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm512_maskz_loadu_ps(lanes_of(v, kVectors, last), out + r * out_stride + c + 16 * v);
    for (std::int64_t n = 0; n < count; ++n) {
      __m512 row[kVectors];
      for (int v = 0; v < kVectors; ++v)
        row[v] = _mm512_maskz_loadu_ps(lanes_of(v, kVectors, last), with + n * with_stride + c + 16 * v);
      for (int r = 0; r < kRows; ++r) {
        const __m512 factor = _mm512_set1_ps(factors.data[r * factors.row + n * factors.column]);
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(factor, row[v], sum[r][v]);
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        _mm512_mask_storeu_ps(out + r * out_stride + c + 16 * v, lanes_of(v, kVectors, last), sum[r][v]);
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

// Which of the 16 queries from position `first` on may see key `key`.
inline __mmask16 may_see(std::int64_t first, std::int64_t key) {
  return key <= first       ? __mmask16{0xffff}
         : key > first + 15 ? __mmask16{0}
                            : static_cast<__mmask16>(0xffffu << (key - first));
}

inline float scale_of(std::int64_t size) {
  return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(size)));
}

}  // namespace
}  // namespace mlx::kernels::avx512
