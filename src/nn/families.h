// The readers of the families' [model] tables, one file for each; a row in family.cpp names each reader. A reader reads
// every key that it knows and leaves finish() to build().
#pragma once

#include "base/error.h"
#include "base/json_fwd.h"
#include "base/toml.h"
#include "nn/layers.h"

namespace mlx::nn {

// Each appends its layers to `network` (without the classifier) and writes the resolved keys to `config`.
void build_cnn(TomlReader& model, Network& network, Json& config);
void build_mlp(TomlReader& model, Network& network, Json& config);
void build_mobilenet_v2(TomlReader& model, Network& network, Json& config);
void build_resnet(TomlReader& model, Network& network, Json& config);

// A family over tokens builds the whole graph, and reports the longest sequence that it takes.
struct LanguageGraph {
  graph::Graph graph;
  std::int64_t context = 0;
};
LanguageGraph read_gpt2(TomlReader& model, std::int64_t vocabulary, Json& config);
LanguageGraph read_llama(TomlReader& model, std::int64_t vocabulary, Json& config);

// Keys that several readers share: one of "none", "relu", "relu6", "gelu", and one of "none", "batch". They are written
// to config under their own names.
kernels::Activation read_activation(TomlReader& table, Json& config);
Norm read_norm(TomlReader& table, Json& config);
// The width multiplier of a family, under the key "width".
double read_width(TomlReader& table, Json& config);
// A dropout rate, 0 … 0.99, under `key`.
float read_rate(TomlReader& table, std::string_view key, double fallback, Json& config);
// Runs `add`, an add_… of layers.h. If it throws, the error is located at `key` of `table`: file, line, layer.
template <typename Add>
void at_key(const TomlReader& table, std::string_view key, Add add) {
  std::string why;
  try {
    return add();
  } catch (const Error& error) {
    why = error.message;
  }
  table.fail_at(key, why);
}

}  // namespace mlx::nn
