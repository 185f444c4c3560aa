// How the examples of batches are mixed (draw_mix), for a loader and the threads that read ahead for it: drawn once for
// each batch, as long as few others are asked for in between.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "data/images/augment.h"

namespace mlx::data {

class MixedBatches {
 public:
  MixedBatches(double alpha, std::uint64_t seed) : alpha_(alpha), seed_(seed) {}

  // Of the batch of `step`, which has `size` examples. Thread-safe.
  std::shared_ptr<const Mix> at(std::uint64_t step, std::int64_t size) const {
    const std::scoped_lock lock(mutex_);
    for (const auto& [of, mix] : drawn_)
      if (of == step) return mix;
    if (drawn_.size() == kMost) drawn_.pop_back();
    return drawn_.emplace_front(step, std::make_shared<const Mix>(draw_mix(alpha_, size, seed_, step))).second;
  }

 private:
  static constexpr std::size_t kMost = 64;
  double alpha_;
  std::uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<std::uint64_t, std::shared_ptr<const Mix>>> drawn_;  // the last one first
};

}  // namespace mlx::data
