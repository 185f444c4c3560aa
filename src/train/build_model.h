// Builds the model that a config asks for, once the data's shape is known.
#pragma once

#include "base/toml.h"
#include "nn/model.h"
#include "train/config/config.h"

namespace mlx::train {

// The config's table [model], completed from the model that it starts from (null: none).
TomlReader model_table(const TrainConfig& config, const nn::Model* base);
// `data`: that of the train split. Throws kUsage if config and data do not fit.
nn::Built build_model(const TrainConfig& config, const data::Description& data, const nn::Model* base);

}  // namespace mlx::train
