// Where a sequence's keys and values lie in a cache (op_list.h, kAttentionCached), and where a sequence ends. Used by
// the kernels of all backends.
#pragma once

#include <cstdint>

#include "kernels/geometry.h"

#ifdef __CUDACC__
#define MLX_EVERYWHERE __host__ __device__
#else
#define MLX_EVERYWHERE
#endif

namespace mlx::kernels {

// The rows of one sequence in a cache of [N * P] rows.
struct CacheRows {
  const std::int32_t* blocks = nullptr;  // the sequence's; null if its rows follow one another
  std::int64_t first = 0, size = 1;      // the first row, without blocks; rows of a block
};
MLX_EVERYWHERE static inline std::int64_t row_of(const CacheRows& rows, std::int64_t position) {
  return rows.blocks ? rows.blocks[position / rows.size] * rows.size + position % rows.size : rows.first + position;
}

// How many positions of a sequence count (kBidirectionalAttention). `lengths`: input 1, null if absent.
MLX_EVERYWHERE static inline std::int64_t length_of(const Geometry& g, const std::int32_t* lengths,
                                                    std::int64_t batch) {
  const std::int64_t length = lengths ? lengths[batch] : g.time;
  return length < 0 ? 0 : length > g.time ? g.time : length;
}

// `blocks`: input 4, null if absent.
MLX_EVERYWHERE static inline CacheRows cache_rows(const Geometry& g, const std::int32_t* blocks, std::int64_t batch) {
  if (!blocks) return {nullptr, batch * g.table, 1};
  return {blocks + batch * (g.table / g.block), 0, g.block};
}

// Whether a sequence that holds `held` positions has room for g.time more: every block that they are written to, or
// that their queries see, exists.
MLX_EVERYWHERE static inline bool has_room(const Geometry& g, std::int64_t window, const CacheRows& rows,
                                           std::int64_t held) {
  const std::int64_t time = g.time, seen = window > 0 && window <= held ? held - window + 1 : 0;
  if (held < 0 || held + time > g.table) return false;
  for (std::int64_t i = seen / rows.size; rows.blocks && i <= (held + time - 1) / rows.size; ++i)
    if (rows.blocks[i] < 0 || rows.blocks[i] >= g.blocks) return false;
  return true;
}

}  // namespace mlx::kernels
