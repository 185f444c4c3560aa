// Makes a training's checkpoints while it goes on: a copy of the state is taken between two steps, a thread stores it,
// and it is recorded with the run between two later steps. Owned by the training loop; one thread calls it.
//
// At most one is being stored; the next waits for it. A checkpoint that cannot be written costs safety, not the
// training: it is a warning, and the one before stays.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/parallel.h"
#include "base/progress.h"
#include "train/checkpoint.h"
#include "train/checkpoint_interval.h"

namespace mlx::train {

class Checkpointer {
 public:
  // All of them outlive it.
  Checkpointer(registry::Repository& repository, const std::string& run, const Digest& key,
               const CheckpointInterval& interval, Progress& progress);
  ~Checkpointer();  // waits for the thread, records nothing more

  bool due(std::int64_t step, std::int64_t steps_per_epoch) const;
  void save(CheckpointState state, bool best);  // returns once the one before is stored
  void collect();                               // records what has been stored meanwhile, without waiting
  bool finish();                                // waits for the last one; whether it is kept

 private:
  struct Pending {
    CheckpointState state;
    bool best = false;
    Digest manifest;
    std::atomic<bool> stored{false};
  };
  void record();

  registry::Repository& repository_;
  const std::string& run_;
  const Digest& key_;
  const CheckpointInterval& interval_;
  Progress& progress_;
  double last_;             // of seconds_now()
  bool kept_ = false;       // the last one
  bool best_owed_ = false;  // one that was the best could not be kept
  std::unique_ptr<Pending> pending_;
  Background thread_;  // last: joined before what it writes to goes
};

}  // namespace mlx::train
