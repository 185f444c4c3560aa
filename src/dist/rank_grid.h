// The ranks of a training that divides both the model and the data, as a grid: those of a row hold the parts of one
// model, those of a column hold the same part and share the data. Rows are adjacent ranks, which mostly are on one
// host.
#pragma once

#include <memory>

#include "dist/communicator.h"

namespace mlx::dist {

// Two ranks are together in a row or in a column, and never in both: rows and columns may be used at a time, but not
// with all ranks (group.h).
class RankGrid {
 public:
  // Rows of `row` ranks, which divides their number (CHECK). `all` must outlive it.
  RankGrid(Communicator& all, int row);

  Communicator& all() const { return all_; }
  Communicator& row() const { return *row_; }                         // those with the parts of this model
  Communicator& column() const { return column_ ? *column_ : all_; }  // those with this part of the model

 private:
  Communicator& all_;
  std::unique_ptr<Communicator> row_, column_;  // column_: null if it is all ranks
};

}  // namespace mlx::dist
