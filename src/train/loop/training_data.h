// What a training reads before its first step: the training examples, the held-out ones, and the preprocessing that the
// training examples determine.
#pragma once

#include "data/dataset.h"
#include "train/config/config.h"

namespace mlx::train {

struct TrainingData {
  data::DatasetPtr train, valid;  // valid: null if there is none
  data::Preprocessing preprocessing;
  double near_leaks = 0;  // the share of `valid` that is almost in `train` (leaks.h), where both are splits
};
// Without `valid` (null), the config may hold out a part of `train`.
TrainingData make_training_data(const TrainConfig& config, data::DatasetPtr train, data::DatasetPtr valid);
// The same for the splits that the config names.
TrainingData load_training_data(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                                Progress& progress);

// The same for a rank that neither validates nor checks the splits: without `valid`.
TrainingData load_training_split(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                                 Progress& progress);

// How `train` is read, by a rank alone. `raw`: where the graph augments images.
data::BatchOptions batch_options(const TrainConfig& config, std::int64_t context, bool raw);

}  // namespace mlx::train
