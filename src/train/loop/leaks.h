// Examples that a training would be judged by and that it also learns from. Used by training_data.cpp.
#pragma once

#include "data/dataset.h"
#include "train/config/config.h"

namespace mlx::train {

// Throws kRefused if more than config.leaks of the examples of the validation split are in the training split too.
// Images are equal if their pixels are, rows if their values in the columns that are read are.
void check_leaks(const TrainConfig& config, const data::Dataset& train, const data::Dataset& valid);
// The same for photos, by their files' bytes and before any is decoded; the split "test" too.
void check_listed_leaks(const store::Store& store, const Digest& dataset, const TrainConfig& config);

}  // namespace mlx::train
