// Data as a model takes it: its preprocessing applied, by the same code for training, evaluation, prediction and
// serving, so that a network gets the same bits everywhere.
#pragma once

#include <memory>
#include <string>

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

// Rows given as named values: a line for each row with an object such as {"age": 41, "city": "Rome"}. They are read as
// a file of JSON lines is, so that names, missing values and categories mean the same; keys that are no columns are
// ignored. kUsage or kCorrupt beginning with `what`, and the number of the row ("row 2") where a value does not fit.
data::Rows rows_of(std::string lines, const data::RowSchema& schema, const std::string& what);

}  // namespace mlx::infer
