// Examples that a training would be judged by and that it also learns from. Used by training_data.cpp.
#pragma once

#include "base/json.h"
#include "data/dataset.h"
#include "train/config/config.h"

namespace mlx::train {

// Above this share of near-duplicates there is a warning, if the config gives no bound: honest data has some (3.4 % of
// the test images of Fashion-MNIST), so nothing is refused by default.
constexpr double kManyNearLeaks = 0.05;

// Whether examples that are almost the same are looked for.
bool looks_for_near(const TrainConfig& config);
// Throws kRefused if more than config.leaks of the examples of the validation split are in the training split too, or
// more than config.near_leaks almost. Images are equal if their pixels are, rows if their values in the columns that
// are read are; images are almost the same if they look alike (data/images/look.h), rows as data/near.h says.
// Returns the share of those that are almost the same as one in the training split and equal to none.
double check_leaks(const TrainConfig& config, const data::Dataset& train, const data::Dataset& valid,
                   Progress& progress);
// For photos, whether their files are equal, before any is decoded; the split "test" too.
void check_listed_leaks(const store::Store& store, const Digest& dataset, const TrainConfig& config);
// For photos of which check_listed_leaks() cannot know it, because the training split or "test" is in shards: compares
// "test", which is read for it, with the training split. The validation split is left to check_leaks().
void check_test_leaks(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                      const data::Dataset& train);

// The bounds, for the summary of a run: they are no part of its key, and another config may allow less. A summary
// without them, of an earlier mlx, counts as one with the default bounds.
Json leaks_allowed(const TrainConfig& config);
bool allows_fewer_leaks(const TrainConfig& config, const Json& summary);

}  // namespace mlx::train
