// The optimizer's part of [train] in train.toml: the keys of each optimizer, with bounds and defaults.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "base/toml.h"
#include "graph/passes/passes.h"

namespace mlx::train {

// `fallback`: the optimizer if none is named.
graph::OptimizerSpec read_optimizer(TomlReader& train, const std::string& fallback);
Json optimizer_to_json(const graph::OptimizerSpec& optimizer);  // the keys that its optimizer has
double shortest(float value);  // the double with the shortest decimals that mean it: 0.01, not 0.009999999776
double default_learning_rate(const graph::OptimizerSpec& optimizer);

}  // namespace mlx::train
