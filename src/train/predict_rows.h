// What a model of rows says of a table. Used by `mlx predict`.
#pragma once

#include <cstdint>
#include <vector>

#include "data/rows.h"
#include "kernels/table.h"
#include "nn/model.h"

namespace mlx::train {

struct RowPredictions {
  std::int64_t count = 0;
  // [count][outputs]: the probability of each class, of each label, or the numbers themselves in the data's units.
  std::vector<double> values;
};

// `rows` are read by the model's schema; their targets, where they have some, are not looked at. kUsage for a model
// that takes no rows.
RowPredictions predict_rows(const nn::Model& model, const data::Rows& rows, kernels::Level level, Pool& pool,
                            Progress& progress);

}  // namespace mlx::train
