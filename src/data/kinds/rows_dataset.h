// Datasets of a table's rows in memory.
#pragma once

#include "data/dataset.h"
#include "data/rows.h"

namespace mlx::data {

extern const Kind rows_kind;
// All of the rows, shared.
DatasetPtr make_dataset(std::shared_ptr<const Rows> rows);
inline DatasetPtr make_dataset(Rows rows) {
  return make_dataset(std::make_shared<const Rows>(std::move(rows)));
}

// The rows of the named split of a version, with their targets. Throws kUsage if the split holds something else.
Rows load_rows(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
               Progress& progress);

}  // namespace mlx::data
