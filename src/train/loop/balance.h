// Which micro-batches each rank has, by how fast the ranks are (--balance). Their own times are measured in the first
// steps, and again over each epoch; all ranks exchange them, so that all come to the same shares. Shares change no bit
// of the model (dist/shares.h). Used by the training loop.
#pragma once

#include "data/batches.h"
#include "dist/communicator.h"
#include "dist/shares.h"
#include "train/loop/rank_meter.h"

namespace mlx::train {

class Balance {
 public:
  // `ranks`, which share a batch of `terms` micro-batches, must outlive it.
  Balance(dist::Communicator& ranks, int terms) : ranks_(ranks), shares_(dist::even_shares(ranks.ranks(), terms)) {}

  const dist::Shares& shares() const { return shares_; }
  dist::Terms own() const { return shares_[static_cast<std::size_t>(ranks_.rank())]; }
  void share(data::BatchOptions& options) const;  // makes them those of this rank's batches
  // Of a whole batch: examples, of which this rank has so many.
  std::int64_t of_all(std::int64_t own_units) const { return own_units / own().size() * shares_.back().end; }
  // All ranks call it after each step. Returns whether there are other shares from the next step on.
  bool change_after(bool ends_epoch, const RankMeter& meter);

  static constexpr int kSteps = 20;            // that are measured at least
  static constexpr double kWorthwhile = 0.95;  // of the time of a step: shares that save less stay

 private:
  void begin_to_measure(const RankMeter& meter);

  dist::Communicator& ranks_;
  dist::Shares shares_;
  bool measured_ = false;  // since this process began
  int steps_ = -1;         // measured; -1: the next one is not, since it makes its plans
  double own_before_ = 0;
};

}  // namespace mlx::train
