// What is looked at of a model's data and answers: columns of rows as the model reads them, brightness and contrast of
// images, lines of text; the predicted class with its confidence, the probability of each label, or numbers. Used by
// cmd/monitor.cpp.
#pragma once

#include <vector>

#include "data/dataset.h"
#include "data/rows.h"
#include "data/splits.h"
#include "infer/model.h"
#include "infer/session.h"
#include "monitor/reference.h"

namespace mlx::monitor {

// The columns of a model, those of its answers last. Names differ. kUsage if it takes neither images, rows nor text.
std::vector<Column> columns_of(const infer::Model& model);

struct Parts {
  bool inputs = true, answers = true;
};

// Adds each item to `to`, by the places in columns_of().
void observe_rows(const infer::Model& model, const data::Rows& rows, Parts parts, Items& to, Progress& progress);
void observe_images(const infer::Model& model, const data::Dataset& images, Parts parts, Items& to, Progress& progress);
// Lines of text that are not empty. No answers: a model of text has none that could be compared.
void observe_text(const data::StoredSplit& split, Items& to, Progress& progress);

// The same of examples that a model of images or rows was fed, as the network got them, and of its outputs. Their cells
// are those of as_fed(): numbers are in the network's units, and a missing value is what stood in its place, unless the
// model marks it.
std::vector<ColumnReference> as_fed(const infer::Model& model, std::vector<ColumnReference> columns);
void observe_fed(const infer::Model& model, const float* examples, const infer::Logits& logits, Items& to);

// The schema by which rows are read to be looked at: what is missing is counted, and no error.
data::RowSchema lenient(data::RowSchema schema);

}  // namespace mlx::monitor
