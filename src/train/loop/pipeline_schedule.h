// What a stage of a pipeline does in a step, in which order: one forward pass, one backward pass (1F1B, Narayanan et
// al. 2019). Used by pipeline.cpp and by the memory forecast.
#pragma once

#include <algorithm>
#include <vector>

namespace mlx::train {

struct PipelineAction {
  enum Kind : unsigned char { kForward, kBackward, kLate } kind = kForward;
  int micro_batch = 0;
  bool operator==(const PipelineAction&) const = default;
};

// The most micro-batches whose forward pass is done and whose backward pass is not: those that later stages work on.
inline int in_flight(int stages, int stage, int micro_batches) {
  return std::min(micro_batches, stages - stage);
}

// Each stage begins with as many forward passes as later stages need to have work, then does a backward pass after each
// forward pass. `late`: the backward passes have an end that waits for the first stage's backward pass of the same
// micro-batch (graph/passes/stages.h); it comes `stages - 1` micro-batches later, when that is done.
inline std::vector<PipelineAction> pipeline_schedule(int stages, int stage, int micro_batches, bool late) {
  using Kind = PipelineAction::Kind;
  const int ahead = in_flight(stages, stage, micro_batches) - 1, lag = stages - 1;
  std::vector<PipelineAction> out;
  out.reserve(3 * static_cast<std::size_t>(micro_batches));
  for (int i = 0; i < ahead; ++i) out.push_back({Kind::kForward, i});
  for (int i = 0; i < micro_batches; ++i) {
    if (i + ahead < micro_batches) out.push_back({Kind::kForward, i + ahead});
    out.push_back({Kind::kBackward, i});
    if (late && i >= lag) out.push_back({Kind::kLate, i - lag});
  }
  for (int i = std::max(0, micro_batches - lag); late && i < micro_batches; ++i) out.push_back({Kind::kLate, i});
  return out;
}

// The micro-batches of which a stage keeps values at a time.
inline int kept_micro_batches(int stages, int stage, int micro_batches, bool late) {
  return late ? std::min(micro_batches, stages) : in_flight(stages, stage, micro_batches);
}

}  // namespace mlx::train
