// Collects what an evaluation's metrics need, batch by batch; one implementation for each kind of target. Used by
// evaluate.cpp.
#pragma once

#include <memory>
#include <span>

#include "base/parallel.h"
#include "data/batches.h"
#include "data/dataset.h"
#include "train/evaluate/evaluate.h"

namespace mlx::train {

class Tally {
 public:
  virtual ~Tally() = default;
  // `outputs` are the model's logits: `width` numbers for each example of the batch, or for each token of text.
  virtual void add(const data::BatchView& batch, const float* outputs, std::int64_t width) = 0;
  // Writes loss, counts, confusion matrix and metrics into `evaluation`.
  virtual void finish(Evaluation& evaluation) = 0;
};

// The bytes that a tally keeps until finish(), plus those that finish() needs for sorting.
std::int64_t tally_bytes(const data::Description& about);

// `pool` must outlive it. `preprocessing` is the model's.
std::unique_ptr<Tally> tally_of(const data::Description& about, const data::Preprocessing& preprocessing, Pool& pool);

}  // namespace mlx::train
