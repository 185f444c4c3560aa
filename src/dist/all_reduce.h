// Sums of arrays over few ranks in the middle of a computation: what one layer of a divided model waits for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dist/communicator.h"

namespace mlx::dist {

// Keeps its memory from one sum to the next: about kPiece elements a rank.
class AllReduce {
 public:
  explicit AllReduce(Communicator& ranks) : ranks_(ranks) {}

  // Replaces `data`, of as many elements on every rank, by its sum over all of them. The terms are added in the order
  // of ranks, so that all get the same bits. Returns the bytes that this rank has sent.
  std::int64_t sum(std::span<float> data);

  static constexpr std::int64_t kPiece = std::int64_t{1} << 18;  // elements that are summed at once

 private:
  std::int64_t sum_directly(std::span<float> data);
  std::int64_t sum_by_chunks(std::span<float> data);
  void add_in_order(std::span<float> own);

  Communicator& ranks_;
  std::vector<float> received_;  // of each other rank, in their order
};

}  // namespace mlx::dist
