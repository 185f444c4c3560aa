// What data a model takes, and whether a dataset is such data. Used by evaluation, calibration, prediction and serving.
#pragma once

#include <memory>
#include <string>

#include "data/dataset.h"
#include "nn/model.h"

namespace mlx::infer {

// The kind of data whose input the model's graph has; null if it has none of them.
const data::Kind* kind_of(const nn::Model& model);
// The longest sequence that a model of text takes; 0 for other models.
std::int64_t context_of(const nn::Model& model);
// How a split is read for a model: by the schema of its rows, by its tokenizer.
data::Reading reading_of(const nn::Model& model);
// kUsage if the model takes another kind of data.
void check_kind(const nn::Model& model, const data::Kind& kind);
// kUsage if the model does not take what the data holds, or knows fewer classes.
void check_fits(const nn::Model& model, const data::Description& data);

// Rows given as named values: a line for each row with an object such as {"age": 41, "city": "Rome"}. They are read as
// a file of JSON lines is, so that names, missing values and categories mean the same; keys that are no columns are
// ignored. kUsage or kCorrupt beginning with `what`, and the number of the row ("row 2") where a value does not fit.
data::Rows rows_of(std::string lines, const data::RowSchema& schema, const std::string& what);

}  // namespace mlx::infer
