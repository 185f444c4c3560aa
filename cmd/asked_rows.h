// The rows that `mlx predict` and `mlx monitor` ask a model about: of a table on disk, of standard input, or of a split
// of a dataset.
#pragma once

#include <string>

#include "cmd/cli/cli.h"
#include "data/dataset.h"
#include "data/rows.h"

namespace mlx::cmd {

struct AskedRows {
  std::string name;  // "new.csv", "-", "data/houses@v1:test"
  data::Rows rows;
};
// By the schema in `reading.fitted`. Of a dataset rows have their targets.
AskedRows asked_rows(const std::string& word, const std::string& split, const data::Reading& reading, Context& context);

}  // namespace mlx::cmd
