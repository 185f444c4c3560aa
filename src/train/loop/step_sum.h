// What the micro-batches of a step add up to, on one rank or many: gradients, running statistics, losses. A micro-batch
// counts by its labels, gradients and losses are means over all labels of the step, and running statistics are means
// over its micro-batches. All are added in one fixed tree (dist/sum_tree.h), so that a model's bits do not depend on
// how many ranks trained it.
//
// Sums of several steps may wait for their update ([train] async): each is that of its own step, whatever has been made
// since. Running statistics then take in what a step has added to those that it began with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "dist/gradient_sum.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "train/config/config.h"

namespace mlx::train {

// In which type gradients go to other ranks.
inline dist::Wire wire_of(const TrainConfig& config) {
  return config.wire == "bf16" ? dist::Wire::kBF16 : dist::Wire::kF32;
}

// A value that is summed. The first, without a name, are counters.
struct SummedValue {
  std::string name;
  dist::SummedArray array;
};

struct SummedNodes {
  std::size_t begin = 0, end = SIZE_MAX;
};

class StepSum {
 public:
  // What is summed, in the order in which a run completes it.
  struct Array {
    graph::ValueId value = graph::kNone;
    std::size_t node = 0;  // that completes it
    bool mean = false;     // of micro-batches, and not of labels
    float kept = 0;        // of a mean: the share of what it was before a step that is left after it
  };
  static std::vector<Array> arrays_of(const graph::TrainingGraph& training, SummedNodes nodes);
  // Where the pieces of a gradient of so many elements may end, if ranks own pieces (OptimizerShard).
  using CutsOf = std::function<std::vector<std::int64_t>(std::int64_t elements)>;
  // Of a training graph that accumulates. `ranks` must outlive it. `in_background` as of GradientSum.
  // `wire`: that of gradients; all else is f32. `nodes`: of what they complete. `cuts_of`: ranks own pieces of
  // gradients; empty: all get all. `waiting`: steps that may wait for finish() while the next one is made.
  StepSum(const graph::TrainingGraph& training, std::int64_t micro_batches, dist::Communicator& ranks, dist::Wire wire,
          bool in_background = true, SummedNodes nodes = {}, const CutsOf& cuts_of = {}, int waiting = 0);
  static std::vector<SummedValue> summed(const graph::TrainingGraph& training, std::int64_t micro_batches,
                                         dist::Wire wire, SummedNodes nodes, const CutsOf& cuts_of);

  dist::Terms terms() const { return sum_.terms(); }  // this rank's micro-batches
  void share(const dist::Shares& shares) {            // between steps: other ones for each rank
    sum_.share(shares);
    part_ = terms().begin;
  }
  // What the next micro-batch counts in the step: its labels.
  void begin_part(graph::Session& session, std::int64_t labels);
  // For RunOptions::after of its run: takes what node `node` has completed.
  void take(graph::Session& session, std::size_t node);
  void end_part(graph::Session& session);  // takes what a run that its loss ended has left out

  struct Totals {
    double loss = 0;
    std::int64_t correct = 0, counted = 0;
    bool asked_to_stop = false;  // some rank was, before its last micro-batch
  };
  void ask_to_stop() { asked_to_stop_ = true; }
  // Of the first step that was not finished: waits for the other ranks. If the loss is finite, the session has its
  // gradients and running statistics afterwards; else all is as the last micro-batch left it. Gradients that ranks own
  // are in sums() instead. `share` may replace the totals, of a stage that has no loss by those of one that has.
  Totals finish(graph::Session& session, Pool& pool, const std::function<void(Totals&)>& share = {});
  dist::GradientSum& sums() { return sum_; }
  void end_step() { sum_.end_step(); }
  // What waits, the first step first, for a checkpoint: by name of a value its sum, kBefore: what it was before the
  // step, and kCounters. Waits until the sums are there. take_back() before the first step of another process.
  std::vector<graph::Tensors> waiting();
  void take_back(graph::Session& session, const std::vector<graph::Tensors>& waiting);
  dist::GradientSum::Cost cost() const { return sum_.cost(); }
  void keep_spans(bool on) { sum_.keep_spans(on); }
  std::vector<dist::GradientSum::Span> spans() const { return sum_.spans(); }

 private:
  // One micro-batch's slots among the counters, which are array 0 of the sum. Each micro-batch fills its own, so that
  // their sums are exact.
  enum Slot : std::size_t { kLoss, kCorrect, kCounted, kLabels, kSlots };
  using Means = std::vector<std::vector<float>>;  // by array; empty for gradients
  Means means_in(graph::Session& session) const;
  void take_counters(graph::Session& session);
  void take_arrays(graph::Session& session, std::size_t end);
  Totals totals(std::int64_t& labels);
  void take_mean(std::size_t i, std::span<float> mean);

  const graph::TrainingGraph& training_;
  std::int64_t micro_batches_;
  std::vector<Array> arrays_;
  dist::GradientSum sum_;
  std::int64_t elements_ = 0;  // of all arrays
  std::int64_t part_ = 0;      // the current one, among those of all ranks
  std::int64_t labels_ = 0;    // its own
  std::size_t taken_ = 0;      // arrays of the current micro-batch
  bool counters_taken_ = false, asked_to_stop_ = false;
  std::vector<float> counters_;
  bool waits_;                // steps may
  Means current_;             // running statistics after the last step that was finished
  std::deque<Means> before_;  // before each step that was begun, and not finished
};

}  // namespace mlx::train
