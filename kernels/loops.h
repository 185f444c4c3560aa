// Nested loops over the elements of one tensor, and their strides in two other tensors: for transposes, slices,
// broadcast and reduced operands. Checks of problems build them; kernels of any instruction set walk them (plain data
// and internal functions only).
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace mlx::kernels {

// The last loop is the innermost. Iterations are numbered in row-major order of the tensor that the loops walk.
struct Loops {
  int rank = 0;
  std::int64_t size[kMaxRank] = {};
  std::int64_t a[kMaxRank] = {}, b[kMaxRank] = {};  // stride of each loop in two operands, in elements
};

// The stride of each dim of a row-major tensor, in elements.
void steps_of(const Shape& shape, std::int64_t* steps);
// Drops loops of size 1 and joins neighbours that are contiguous in both operands. At least one loop is left; if there
// are no iterations its size is 0.
void merge(Loops& loops);

static inline std::int64_t count_of(const Loops& loops) {
  std::int64_t count = 1;
  for (int i = 0; i < loops.rank; ++i) count *= loops.size[i];
  return count;
}

// Clamps a slice index to a dim of this size; negative indices count from the end.
static inline std::int64_t slice_index(std::int64_t index, std::int64_t size) {
  if (index < 0) index += size;
  return index < 0 ? 0 : index > size ? size : index;
}

struct Place {  // offsets in the two operands
  std::int64_t a = 0, b = 0;
};
// The place of iteration i of the first `rank` loops.
static inline Place place_of(const Loops& loops, std::int64_t i, int rank) {
  Place place;
  for (int at = rank - 1; at >= 0; --at) {
    const std::int64_t index = i % loops.size[at];
    i /= loops.size[at];
    place.a += index * loops.a[at], place.b += index * loops.b[at];
  }
  return place;
}
// Calls body(i, place, count) for the runs of the last loop that cover iterations [begin, end); i is the run's first
// iteration.
template <typename Body>
static inline void each_run(const Loops& loops, std::int64_t begin, std::int64_t end, Body body) {
  const int last = loops.rank - 1;
  const std::int64_t inner = loops.size[last];
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t column = i % inner, left = inner - column, count = left < end - i ? left : end - i;
    Place place = place_of(loops, i / inner, last);
    place.a += column * loops.a[last], place.b += column * loops.b[last];
    body(i, place, count);
    i += count;
  }
}

}  // namespace mlx::kernels
