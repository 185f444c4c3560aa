// Data as a model takes it: its preprocessing applied, by the same code for training, evaluation, prediction and
// serving, so that a network gets the same bits everywhere.
#pragma once

#include <memory>
#include <string>

#include "base/json_fwd.h"
#include "data/batches.h"
#include "data/split.h"
#include "nn/model.h"

namespace mlx::infer {

// Batches of a split. `options.normalization` is ignored: the preprocessing has it. `context` is the length of windows
// of text. `split` and `pool` outlive what is returned.
std::unique_ptr<data::BatchSource> batches_of(const data::Split& split, const nn::Preprocessing& preprocessing,
                                              std::int64_t context, data::Loader::Options options, Pool& pool);

// The longest sequence that a model of text takes; 0 of others.
std::int64_t context_of(const nn::Model& model);
// How a split is read for a model: by the schema of its rows, by its tokenizer.
data::Reading reading_of(const nn::Model& model);
// kUsage where the model takes another kind of data.
void check_kind(const nn::Model& model, data::Kind kind);
// kUsage where the model does not take what the data holds, or knows fewer classes.
void check_fits(const nn::Model& model, const data::Description& data);

// Rows given as named values: an object for each row, {"age": 41, "city": "Rome"}, or one object. They are read as JSON
// lines are, so that names, missing values and categories mean the same; keys that are no columns are ignored. kUsage
// or kCorrupt beginning with `what` and the number of the row ("line 2") where a value does not fit.
data::Rows rows_of(const Json& values, const data::RowSchema& schema, const std::string& what);

}  // namespace mlx::infer
