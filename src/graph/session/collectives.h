// What a session asks of the ranks that hold the other parts of its model. The training implements it over messages; a
// graph without collective operations needs none.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace mlx::graph {

// All ranks run the same collective operations in the same order. A call returns when this rank has its result, and
// throws if another rank is lost. One thread calls it at a time.
class Collectives {
 public:
  virtual ~Collectives() = default;
  // Replaces `data` by its sum over all ranks, added in their order: the same bits on every rank.
  virtual void all_reduce(std::span<float> data) = 0;
  // Fills `all` with the `own` of every rank, in their order; all have as many bytes.
  virtual void all_gather(ByteView own, std::span<std::uint8_t> all) = 0;
};

}  // namespace mlx::graph
