// The ranks of a training that divides both the model and the data, as a grid: those of a row hold one model, those of
// a column hold the same part of it and share the data. A row is itself a grid: its ranks hold stages of the model, and
// adjacent ones the parts of a stage. Rows are adjacent ranks, which mostly are on one host.
#pragma once

#include <memory>

#include "dist/communicator.h"

namespace mlx::dist {

// Rows, columns, stages and pipelines may be used at a time, as long as two ranks do not exchange messages in two of
// them, nor in one of them and with all ranks (group.h).
class RankGrid {
 public:
  // Rows of `parts` times `stages` ranks, which divides their number (CHECK). `all` must outlive it.
  RankGrid(Communicator& all, int parts, int stages = 1);

  Communicator& all() const { return all_; }
  Communicator& row() const { return *row_; }                         // those that hold this model
  Communicator& column() const { return column_ ? *column_ : all_; }  // those with this part of this stage
  Communicator& stage() const { return stage_ ? *stage_ : row(); }    // of the row, those with the parts of this stage
  Communicator& pipeline() const { return *pipeline_; }               // of the row, those with this part of a stage

 private:
  Communicator& all_;
  std::unique_ptr<Communicator> row_, column_, stage_, pipeline_;  // column_: null if it is all ranks; stage_: the row
};

}  // namespace mlx::dist
