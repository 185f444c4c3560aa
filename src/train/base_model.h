// The version that a training starts from ([model] init), an input of its run. Used by trainer.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/finetune.h"
#include "registry/versions/artifacts.h"
#include "train/config/config.h"

namespace mlx::train {

struct Base {
  registry::Version version;
  nn::Model model;  // without its tensors
};

// The one that is learned from ([distill]); nullopt if the config names none.
std::optional<Base> read_teacher(registry::Repository& repository, const TrainConfig& config);
// Its tensors, by the names that they have beside the model (graph::with_teacher).
void add_teacher(registry::Repository& repository, const Base& teacher, graph::Tensors& tensors);
// nullopt if the config names none.
std::optional<Base> read_base(registry::Repository& repository, const TrainConfig& config);
// nn::start_from with the base's tensors. What does not fit is an error at `init`.
nn::FinetuneStart read_start(registry::Repository& repository, const TrainConfig& config, const nn::Built& built,
                             const std::vector<std::string>& labels, const Base& base);

}  // namespace mlx::train
