// Fine-tuning: training that starts from the weights of another model ([model] init) and leaves some of them as they
// are ([model] freeze), or all of them, with adapters beside them ([model] lora).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/toml.h"
#include "nn/family.h"
#include "nn/model.h"

namespace mlx::nn {

// The table [model] of a config that starts from `base`. Where it names no family, it is the base's table, with the
// keys that it has itself in place of the base's.
TomlNode with_base_config(const TomlNode& model, const Model& base);

struct FinetuneStart {
  graph::Tensors tensors;          // of every parameter and state
  std::vector<std::string> fresh;  // which of them the base did not give, by name
};
// Weights and running statistics by name: the base's where it has them, initialize()'s otherwise. Where `labels` are
// not the base's labels, the layer that gives the logits is fresh. Throws kUsage that names all tensors that do not fit
// with both shapes, and where nothing at all is the base's. Adapters are fresh, and are not named; with them all else
// must be the base's. A base with adapters has them merged first (merged()).
FinetuneStart start_from(const Built& built, const std::vector<std::string>& labels, Model base, std::uint64_t seed);

// Reads `freeze` from the table that `built` was built from: its frozen parameters, and the patterns in its config.
void read_freeze(TomlReader model, Built& built);
// The parameters that one of the patterns names (`*` and `?`), in the graph's order. kUsage for a pattern that names
// none, with what may have been meant, and where nothing is left to train.
std::vector<std::string> frozen_parameters(const graph::Graph& graph, const std::vector<std::string>& patterns);
// The parameters among `names` that one of the patterns names, in order; kUsage as above, `what` they are
// ("parameter").
std::vector<std::string> named_by(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                                  const char* what);
// What a model's config says of them: by freeze, or all but the adapters by lora.
std::vector<std::string> frozen_parameters(const graph::Graph& graph, const Json& config);

// Reads `lora` from the same table: low-rank adapters (graph/passes.h) in `built`, and the rest of it frozen.
void read_lora(TomlReader model, Built& built);
// The model without adapters, with the weights that make up for them: its outputs differ by rounding only. As it is
// where it has none.
Model merged(Model model);
bool has_adapters(const Model& model);

}  // namespace mlx::nn
