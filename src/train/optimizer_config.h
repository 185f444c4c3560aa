// The optimizer's part of train.toml's [train]: which keys each optimizer has, with bounds and defaults.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "base/toml.h"
#include "graph/passes.h"

namespace mlx::train {

// `fallback`: the optimizer where none is named.
graph::OptimizerSpec read_optimizer(TomlReader& train, const std::string& fallback);
Json optimizer_to_json(const graph::OptimizerSpec& optimizer);  // the keys that its optimizer has
double shortest(float value);  // the double with the shortest decimals that mean it: 0.01, and not 0.009999999776
double default_learning_rate(const graph::OptimizerSpec& optimizer);

}  // namespace mlx::train
