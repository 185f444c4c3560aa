// What evaluation counts while batches go by, one kind of target each, and the figures that come of it. Used by
// evaluate.cpp.
#pragma once

#include <memory>
#include <span>

#include "base/parallel.h"
#include "data/batches.h"
#include "data/split.h"
#include "train/evaluate.h"

namespace mlx::train {

class Tally {
 public:
  virtual ~Tally() = default;
  // What the model said of a batch, `width` numbers for each example (for each token, of text).
  virtual void add(const data::BatchView& batch, const float* outputs, std::int64_t width) = 0;
  // Fills in all that was measured: loss, counts, confusion, metrics.
  virtual void finish(Evaluation& evaluation) = 0;
};

// Bytes that are kept of each example's outputs until finish(), and what finish() sorts of them.
std::int64_t tally_bytes(const data::Description& about);

// `split` and `pool` outlive it; `schema` is the model's, null where it takes no rows.
std::unique_ptr<Tally> tally_of(const data::Split& split, const data::RowSchema* schema, Pool& pool);

}  // namespace mlx::train
