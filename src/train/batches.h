// Batches of a split as a model takes them: its preprocessing applied. Used by the training loop and by evaluation.
#pragma once

#include <memory>

#include "data/batches.h"
#include "data/split.h"
#include "nn/model.h"

namespace mlx::train {

// `options` without its normalization, which the preprocessing gives; `context` is the length of windows of text.
// `split` and `pool` outlive what is returned.
std::unique_ptr<data::BatchSource> batches_of(const data::Split& split, const nn::Preprocessing& preprocessing,
                                              std::int64_t context, data::Loader::Options options, Pool& pool);

// The longest sequence that a model of text takes; 0 of others.
std::int64_t context_of(const nn::Model& model);
// How a split is read for a model: by the schema of its rows, by its tokenizer.
data::Reading reading_of(const nn::Model& model);
// kUsage where the model takes another kind of data.
void check_kind(const nn::Model& model, data::Kind kind);
// kUsage where the model does not take what the data holds, or knows less classes.
void check_fits(const nn::Model& model, const data::Description& data);

}  // namespace mlx::train
