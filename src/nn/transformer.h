// Building blocks for graphs of language models. Used by gpt2.cpp and llama.cpp only.
#pragma once

#include <string>

#include "base/toml.h"
#include "nn/families.h"

namespace mlx::nn {

struct Transformer {
  graph::Graph graph;
  graph::Dim batch, sequence;
  std::int64_t width = 0;
  float dropout_rate = 0;

  Transformer(std::int64_t model_width, float dropout);
  graph::ValueId ids();  // the input s32[batch,sequence]
  // NAME.weight [out, in] and, with `bias`, NAME.bias.
  graph::ValueId linear(const std::string& name, graph::ValueId x, std::int64_t in, std::int64_t out, bool bias);
  graph::ValueId dropout(const std::string& name, graph::ValueId x);
  // x + dropout(y).
  graph::ValueId residual(const std::string& name, const std::string& dropout_name, graph::ValueId x, graph::ValueId y);
};

// The keys that language models share, written to config under their names.
struct TransformerKeys {
  std::int64_t layers = 12, width = 768, heads = 12, context = 1024;
  double dropout = 0;
};
// Throws kUsage at the key if `heads` does not divide `width`.
TransformerKeys read_transformer(TomlReader& model, Json& config);
// Throws kUsage at `key` if a matrix of this size exceeds the limits for a model.
void check_matrix(const TomlReader& model, std::string_view key, std::int64_t rows, std::int64_t columns);

}  // namespace mlx::nn
