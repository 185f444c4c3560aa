// Batches of a split as a model takes them: its preprocessing applied. Used by the training loop and by evaluation.
#pragma once

#include <memory>

#include "data/batches.h"
#include "data/split.h"
#include "nn/model.h"

namespace mlx::train {

// `options` without its normalization, which the preprocessing gives. `split` and `pool` outlive what is returned.
std::unique_ptr<data::BatchSource> batches_of(const data::Split& split, const nn::Preprocessing& preprocessing,
                                              data::Loader::Options options, Pool& pool);

// kUsage where the model does not take what the data holds, or knows less classes.
void check_fits(const nn::Model& model, const data::Description& data);

}  // namespace mlx::train
