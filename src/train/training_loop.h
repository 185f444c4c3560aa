// The steps of one training: batches in, metrics and checkpoints out. Used by trainer.cpp, which owns the run around
// it.
#pragma once

#include <memory>
#include <string>

#include "data/split.h"
#include "graph/session.h"
#include "nn/model.h"
#include "registry/runs.h"
#include "train/config.h"
#include "train/profile.h"

namespace mlx::train {

struct TrainingData {
  data::Split train, valid;  // valid.about.count 0: none
  nn::Preprocessing preprocessing;
};
// Loads the splits that the config names; examples that are held out are chosen by the seed.
TrainingData load_training_data(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                                Progress& progress);

struct TrainingResult {
  graph::Tensors tensors;  // of the forward graph
  std::int64_t steps = 0;
  double loss = 0, accuracy = 0;              // of the last epoch's training batches, as they were trained on
  double valid_loss = 0, valid_accuracy = 0;  // where there is a validation split
  double seconds = 0, images_per_second = 0;  // of this process
};

struct LoopOptions {
  std::string run;
  Digest key;
  bool resume = false;  // from the run's last checkpoint
  kernels::Level level = kernels::Level::kOneDnn;
  Profiler* profiler = nullptr;
};

// Throws kNo where the loss is not finite (step and last checkpoint named), kInterrupted after a checkpoint.
TrainingResult run_training(registry::Repository& repository, const TrainConfig& config, const nn::Built& built,
                            const TrainingData& data, const LoopOptions& options, Progress& progress);

}  // namespace mlx::train
