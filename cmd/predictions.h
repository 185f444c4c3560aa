// Prints the answers of models of images and of rows: a line for each example, one JSON document, or a table in a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "cmd/predict.h"
#include "cmd/prediction_file.h"
#include "registry/versions/artifacts.h"

namespace mlx::cmd {

struct Ranked {
  std::int64_t index = 0;
  double probability = 0;
};

// What an INPUT names: the path of a file, or a dataset's version if there is no such file.
struct PredictSource {
  std::string path;
  registry::Version dataset;
  bool is_file() const { return !path.empty(); }
};
PredictSource find_source(const std::string& word, Context& context);

// The `top` likeliest classes, the likeliest first.
std::vector<Ranked> rank_classes(std::span<const double> probabilities, std::int64_t top);

class Predictions {
 public:
  // `unit` is the name of an example in JSON: "image", "row".
  Predictions(const char* unit, const PredictOptions& options, const PredictInputs& inputs, Context& context)
      : unit_(unit), out_(options.out), inputs_(inputs), context_(context), file_(options.out, context) {}

  void add(const std::string& name, const std::vector<Ranked>& classes);
  // `text`, `members` and `cells` say the same of an example.
  void add(const std::string& name, const std::string& text, const Json& members, const PredictionFile::Cells& cells);
  // An example without an answer, listed in JSON.
  void add_failed(const std::string& name, const std::string& message);
  // Counts the answer of one example if it holds NaN; finish() warns of them.
  void look_at(std::span<const double> answer);
  void finish();

  const std::string& label(std::int64_t index) const;

 private:
  const char* unit_;
  std::string out_;
  const PredictInputs& inputs_;
  Context& context_;
  PredictionFile file_;
  std::int64_t answers_ = 0, nan_ = 0;
  Json predictions_ = Json::array(), failed_ = Json::array();
};

}  // namespace mlx::cmd
