// Datasets of a table's rows, in a spool (spool.h).
#pragma once

#include "data/dataset.h"
#include "data/rows.h"
#include "data/spool.h"

namespace mlx::data {

extern const Kind rows_kind;
// The rows of a split as records, with their targets.
struct SpooledRows {
  RowSchema schema;
  SpoolPtr rows;
};
SpooledRows spool_rows(const Rows& rows, const MemoryBudget& budget = {});
// All of the rows, shared.
DatasetPtr make_dataset(SpooledRows rows);
inline DatasetPtr make_dataset(const Rows& rows) {
  return make_dataset(spool_rows(rows));
}

// The table of a split that holds rows.
RowFile row_file(const StoredSplit& split);
// The rows of the named split of a version in memory, with their targets. Throws kUsage if the split holds something
// else.
Rows load_rows(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
               Progress& progress);

}  // namespace mlx::data
