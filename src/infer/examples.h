// What data a model takes, and whether a dataset fits. Used by evaluation, calibration, prediction and serving.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "data/dataset.h"
#include "nn/model.h"

namespace mlx::infer {

// The kind of data that the model's graph has an input for; null if there is none.
const data::Kind* kind_of(const nn::Model& model);
// The longest sequence that a model of text takes; 0 for other models.
std::int64_t context_of(const nn::Model& model);
// How the training divided the splits, from what a model.json says of its data; nullopt if the dataset's own rule held.
std::optional<data::Division> division_of(const Json& trained_on);
// How to read a split for a model: by its rows' schema, by its tokenizer, divided as for its training.
data::Reading reading_of(const nn::Model& model);
// Throws kUsage if the model takes another kind of data.
void check_kind(const nn::Model& model, const data::Kind& kind);
// Throws kUsage if the model does not take what the data holds, or knows fewer classes.
void check_fits(const nn::Model& model, const data::Description& data);

// Rows given as named values: one line per row, with an object such as {"age": 41, "city": "Rome"}. They are read like
// a file of JSON lines, so that names, missing values and categories mean the same; keys that are not columns are
// ignored. Throws kUsage or kCorrupt beginning with `what`, and with the number of the row ("row 2") if a value does
// not fit.
data::Rows rows_of(std::string lines, const data::RowSchema& schema, const std::string& what);

}  // namespace mlx::infer
