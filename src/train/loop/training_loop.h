// The steps of one training: batches in, metrics and checkpoints out through a sink (run_sink.h). It knows no
// repository; the caller owns the run (trainer.cpp).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "dist/communicator.h"
#include "dist/gradient_sum.h"
#include "graph/session/session.h"
#include "nn/model.h"
#include "train/config/config.h"
#include "train/config/selection.h"
#include "train/loop/memory.h"
#include "train/loop/profile.h"
#include "train/loop/rank_meter.h"
#include "train/loop/run_sink.h"
#include "train/loop/training_data.h"

namespace mlx::train {

struct TrainingResult {
  graph::Tensors tensors;  // of the forward graph: the last model, or the best if the config keeps that
  std::int64_t steps = 0;  // steps done
  std::int64_t kept = 0;   // the step of the model in `tensors`
  std::int64_t from = 0;   // the step that this process started from
  bool stopped_early = false;
  double loss = 0;                     // mean over the last epoch's training batches, each before its step
  std::optional<double> accuracy;      // over the same; none if targets are numbers
  Metrics valid;                       // of the model in `tensors`, if there is a validation split
  double seconds = 0, per_second = 0;  // of this process; images, rows or tokens of all ranks
  dist::GradientSum::Cost communication;
  std::int64_t peak_memory = 0;    // bytes: what the forecast is about
  std::vector<RankFigures> ranks;  // of all ranks; empty on others than rank 0
  MemoryForecast memory;
};

struct LoopOptions {
  bool resume = false;  // the sink has checkpoints, or an earlier process began the run
  // Reads the checkpoint of another run that this one starts from; empty if it starts with a model. May be called
  // again, to find the origin of a number that is not finite.
  std::function<CheckpointState()> from;
  bool keep_state = false;  // also make a checkpoint at the end
  kernels::Backend backend = kernels::best_backend();
  Profiler* profiler = nullptr;
  const graph::Tensors* initial = nullptr;       // initial weights; null: drawn from the seed
  std::int64_t memory = 0;                       // bytes that it may take at its peak; 0: unlimited
  std::function<void(const std::string&)> tell;  // receives a line about it before the first step
  std::string how_to_resume;                     // a hint for a person who interrupts it
  // The ranks that train together; null: this one alone. Rank 0 decides where the training starts, evaluates it and
  // makes its checkpoints: `resume`, `from`, `initial` and the sink are its own. The model's bits do not depend on the
  // number of ranks (StepSum).
  dist::Communicator* ranks = nullptr;
  std::int64_t verify_every = 0;  // steps after which ranks compare hashes of their state; 0: they never do
};

// Throws kDiverged in the step that makes the loss, a weight or the optimizer state non-finite; the error names the
// step and, for one rank, the first such operation, and the last checkpoint is from before. Throws kInterrupted after a
// checkpoint. Throws kCorrupt if ranks compare their state and it differs. All ranks throw these in the same step.
TrainingResult run_training(const TrainConfig& config, const nn::Built& built, const TrainingData& data,
                            const LoopOptions& options, RunSink& sink, Pool& pool, Progress& progress);

}  // namespace mlx::train
