// The readers of the families' tables, one a file; family.cpp has the row that names each. They read every key that
// they know and leave finish() to build().
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

// Families of tokens make the whole graph, and the longest sequence that it takes.
struct LanguageGraph {
  graph::Graph graph;
  std::int64_t context = 0;
};
LanguageGraph read_gpt2(TomlReader& model, std::int64_t vocabulary, Json& config);
LanguageGraph read_llama(TomlReader& model, std::int64_t vocabulary, Json& config);

// Shared by the readers: one of "none", "relu", "relu6", "gelu", and one of "none", "batch", written to config under
// their keys.
kernels::Activation read_activation(TomlReader& table, Json& config);
Norm read_norm(TomlReader& table, Json& config);
// A number by which a family multiplies its widths, under the key "width".
double read_width(TomlReader& table, Json& config);
// A rate of dropout, 0 … 0.99, under `key`.
float read_rate(TomlReader& table, std::string_view key, double fallback, Json& config);
// Runs `add`, an add_… of layers.h; what it refuses becomes an error at `key` of `table`: file, line, layer.
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
