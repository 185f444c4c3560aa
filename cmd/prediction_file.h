// Predictions as a table in a file: `mlx predict --out`. Written whole at the end or not at all.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "cmd/cli/cli.h"

namespace mlx::cmd {

class PredictionFile {
 public:
  // `path` as typed: .csv, .tsv or .jsonl; "-" is CSV on stdout; "" is no file. kUsage for another name, kNotFound
  // where its folder is not there, before anything is computed.
  PredictionFile(const std::string& path, Context& context);

  bool wanted() const { return !path_.empty(); }
  // Columns by name, the same for each row; `members` is what a line of JSON says.
  using Cells = std::vector<std::pair<std::string, std::string>>;
  void add(const Cells& cells, const Json& members);
  void finish();

 private:
  enum class Kind { kCsv, kTsv, kJsonLines };

  std::string path_, place_, text_;
  Kind kind_ = Kind::kCsv;
  std::size_t rows_ = 0;
  Context& context_;
};

}  // namespace mlx::cmd
