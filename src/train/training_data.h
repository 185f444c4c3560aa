// What a training reads before its first step: the training examples, the held-out ones, and the preprocessing that the
// training examples determine.
#pragma once

#include <optional>

#include "data/split.h"
#include "nn/model.h"
#include "train/config.h"

namespace mlx::train {

struct TrainingData {
  data::Split train, valid;  // valid.about.count 0: none
  nn::Preprocessing preprocessing;
};
// The number of training examples; for text, windows of `context` tokens. kEnoughExamples or more if there are as many.
// `about`: that of the train split.
std::int64_t training_examples(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                               const data::Description& about, std::int64_t context);
// Of splits in memory; without `valid`, the config may hold examples out of `train`: the seed chooses them, of text it
// is the end.
TrainingData make_training_data(const TrainConfig& config, data::Split train, std::optional<data::Split> valid);
// The same of the splits that the config names.
TrainingData load_training_data(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                                Progress& progress);

}  // namespace mlx::train
