// Layers and keys of language models (transformer.h).

#include "nn/transformer.h"

#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace mlx::nn {

using graph::Dim;
using graph::Op;
using graph::ValueId;

Transformer::Transformer(std::int64_t model_width, float dropout) : width(model_width), dropout_rate(dropout) {
  batch = Dim::sym(graph.symbol("batch"));
  sequence = Dim::sym(graph.symbol("sequence"));
}

ValueId Transformer::ids() {
  return graph.input("ids", graph::DType::kS32, {batch, sequence});
}

ValueId Transformer::linear(const std::string& name, ValueId x, std::int64_t in, std::int64_t out, bool bias) {
  std::vector<ValueId> inputs{x, graph.parameter(name + ".weight", {Dim::of(out), Dim::of(in)})};
  if (bias) inputs.push_back(graph.parameter(name + ".bias", {Dim::of(out)}));
  return graph.add(Op::kLinear, {}, std::move(inputs), name)[0];
}

ValueId Transformer::dropout(const std::string& name, ValueId x) {
  if (dropout_rate <= 0) return x;
  graph::Attrs attrs;
  attrs.rate = dropout_rate;
  return graph.add(Op::kDropout, attrs, {x}, name)[0];
}

ValueId Transformer::residual(const std::string& name, const std::string& dropout_name, ValueId x, ValueId y) {
  return graph.add(Op::kAdd, {}, {x, dropout(dropout_name, y)}, name)[0];
}

TransformerKeys read_transformer(TomlReader& model, Json& config) {
  constexpr std::int64_t kMost = 1 << 20;
  TransformerKeys keys;
  config["layers"] = keys.layers = model.integer("layers", 1, 1024, keys.layers);
  config["width"] = keys.width = model.integer("width", 1, kMost, keys.width);
  config["heads"] = keys.heads = model.integer("heads", 1, kMost, keys.heads);
  config["context"] = keys.context = model.integer("context", 1, kMost, keys.context);
  config["dropout"] = keys.dropout = model.number("dropout", 0, 0.99, 0);
  if (keys.width % keys.heads != 0)
    model.fail_at("heads", fmt::format("{} heads do not divide the width {}", keys.heads, keys.width));
  check_matrix(model, "width", keys.width, 4 * keys.width);
  return keys;
}

void check_matrix(const TomlReader& model, std::string_view key, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kMostWeights = std::int64_t{1} << 31;
  if (rows > kMostWeights / columns)
    model.fail_at(key, fmt::format("a matrix of {}x{} would have more than {} weights", rows, columns, kMostWeights));
}

}  // namespace mlx::nn
