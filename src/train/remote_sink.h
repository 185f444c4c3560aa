// A training that one process records and others do. Rank 0 has the repository and does not train; rank 1 decides, as
// rank 0 of a training usually does, and reports to rank 0 what a training reports to its sink. Their messages are each
// a JSON text and bytes; both are the same program.
#pragma once

#include <functional>

#include "base/progress.h"
#include "dist/communicator.h"
#include "train/loop/training_loop.h"

namespace mlx::train {

inline constexpr int kRecorder = 0, kDecider = 1;  // ranks

// For the recorder: receives everything that the decider reports, until its training ends. Of `loop` it uses what is
// rank 0's own. Throws what the training threw there.
TrainingResult record_training(dist::Communicator& all, const LoopOptions& loop, RunSink& sink, Progress& progress);

// For the decider.
struct Reported {
  LoopOptions& loop;  // gets what is the recorder's own
  RunSink& sink;
  Progress& progress;
};
// Runs a training, and reports its result or its error, which does not leave this function.
void report_training(dist::Communicator& all, LoopOptions loop, const Interruption& interruption,
                     const std::function<TrainingResult(const Reported&)>& train);

}  // namespace mlx::train
