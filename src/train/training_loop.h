// The steps of one training: batches in, metrics and checkpoints out, through a sink (run_sink.h). It knows no
// repository: whoever calls it owns the run around it (trainer.cpp).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "graph/session.h"
#include "nn/model.h"
#include "train/config.h"
#include "train/memory.h"
#include "train/profile.h"
#include "train/run_sink.h"
#include "train/selection.h"
#include "train/training_data.h"

namespace mlx::train {

struct TrainingResult {
  graph::Tensors tensors;  // of the forward graph: the last, or the best where the config keeps that
  std::int64_t steps = 0;  // that were done
  std::int64_t kept = 0;   // the step whose model it is
  std::int64_t from = 0;   // the step that this process went on from
  bool stopped_early = false;
  double loss = 0;                     // mean over the last epoch's training batches, each before its step
  std::optional<double> accuracy;      // over the same; none where targets are numbers
  Metrics valid;                       // of the model that is kept, where there is a validation split
  double seconds = 0, per_second = 0;  // of this process; images, rows or tokens
  MemoryForecast memory;
};

struct LoopOptions {
  bool resume = false;  // the sink has checkpoints, or an earlier process began the run
  // Reads the checkpoint of another run that this one starts from; none where it starts with a model. May be called
  // again, where the origin of a number that is not finite is looked for.
  std::function<CheckpointState()> from;
  bool keep_state = false;  // a checkpoint of the end, too
  kernels::Backend backend = kernels::best_backend();
  Profiler* profiler = nullptr;
  const graph::Tensors* initial = nullptr;       // where the training starts; null: drawn by the seed
  std::int64_t memory = 0;                       // bytes that it may take at its peak; 0: as many as it wants
  std::function<void(const std::string&)> tell;  // gets a line about it before the first step
  std::string how_to_resume;                     // a hint for whoever interrupted it
};

// Throws kDiverged in the step that makes the loss, a weight or the optimizer's state not finite: the error names the
// step and the first such operation, and the last checkpoint is from before. Throws kInterrupted after a checkpoint.
TrainingResult run_training(const TrainConfig& config, const nn::Built& built, const TrainingData& data,
                            const LoopOptions& options, RunSink& sink, Pool& pool, Progress& progress);

}  // namespace mlx::train
