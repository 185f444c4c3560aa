// Fine-tuning: training that starts from the weights of another model ([model] init). It can freeze some of them
// ([model] freeze), or all of them and train adapters beside them ([model] lora).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/toml.h"
#include "nn/family.h"
#include "nn/model.h"

namespace mlx::nn {

// The table [model] of a config that starts from `base`. If it names no family, it is the base's table with its own
// keys overriding the base's.
TomlNode with_base_config(const TomlNode& model, const Model& base);

struct FinetuneStart {
  graph::Tensors tensors;          // of every parameter and state
  std::vector<std::string> fresh;  // names of tensors that the base did not provide
};
// Weights and running statistics by name: from the base if it has them, else from initialize(). If `labels` differ from
// the base's labels, the layer that computes the logits is fresh. Throws kUsage, naming each tensor that does not fit
// and both shapes, and also if nothing comes from the base. Adapters are fresh and not listed; everything else must
// then come from the base. If the base has adapters they are merged first (merged()).
FinetuneStart start_from(const Built& built, const std::vector<std::string>& labels, Model base, std::uint64_t seed);

// Reads `freeze` from the table that `built` was built from. Sets its frozen parameters, and the patterns in its
// config.
void read_freeze(TomlReader model, Built& built);
// The parameters that match one of the patterns (`*` and `?`), in the graph's order. Throws kUsage for a pattern that
// matches nothing, with a suggestion, and if no parameter is left to train.
std::vector<std::string> frozen_parameters(const graph::Graph& graph, const std::vector<std::string>& patterns);
// The parameters among `names` that match one of the patterns, in order; throws kUsage as above. `what` names them in
// errors ("parameter").
std::vector<std::string> named_by(const std::vector<std::string>& patterns, const std::vector<std::string>& names,
                                  const char* what);
// The frozen parameters according to a model's config: by freeze, or all but the adapters by lora.
std::vector<std::string> frozen_parameters(const graph::Graph& graph, const Json& config);

// Reads `lora` from the same table: adds low-rank adapters (graph/passes/passes.h) to `built` and freezes the rest.
void read_lora(TomlReader model, Built& built);
// The model with its adapters merged into its weights; the outputs differ only by rounding. A model without adapters is
// returned unchanged. Throws as check_merges().
Model merged(Model model);
// Throws kUsage if the weights are integers in groups, which adapters cannot be merged into.
void check_merges(const graph::Graph& graph);
// Throws kUsage if a training cannot start from this model: one with integers for weights, unless they are in groups
// and `lora` trains adapters beside them.
void check_base(const Model& base, bool lora);
bool has_adapters(const Model& model);
// The model that the adapters were added to; `model.weights` still has them. A model without adapters is returned as it
// is.
Model without_adapters(Model model);

}  // namespace mlx::nn
