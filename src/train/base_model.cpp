// Reads the base of a fine-tuning from the repository.

#include "train/base_model.h"

#include <utility>

#include "base/error.h"
#include "base/toml.h"
#include "graph/passes/passes.h"
#include "work/inputs.h"

namespace mlx::train {

std::optional<Base> read_teacher(registry::Repository& repository, const TrainConfig& config) {
  if (!config.distill.wanted()) return std::nullopt;
  Base teacher;
  teacher.version = work::resolve_model(repository, config.distill.teacher);
  teacher.model = nn::load_description(repository.store(), teacher.version.digest);
  return teacher;
}

void add_teacher(registry::Repository& repository, const Base& teacher, graph::Tensors& tensors) {
  const nn::Model whole = nn::load_model(repository.store(), teacher.version.digest);
  const graph::Graph used = graph::to_inference(teacher.model.graph);
  for (const auto& [name, weight] : whole.weights->all())
    if (used.find(name) != graph::kNone) tensors[graph::kTeacher + name] = whole.weights->tensor(name);
}

std::optional<Base> read_base(registry::Repository& repository, const TrainConfig& config) {
  if (config.init.empty()) return std::nullopt;
  Base base;
  base.version = work::resolve_model(repository, config.init);
  base.model = nn::load_description(repository.store(), base.version.digest);
  return base;
}

nn::FinetuneStart read_start(registry::Repository& repository, const TrainConfig& config, const nn::Built& built,
                             const std::vector<std::string>& labels, const Base& base) {
  nn::Model whole = nn::load_model(repository.store(), base.version.digest);
  try {
    return nn::start_from(built, labels, std::move(whole), config.seed);
  } catch (const Error& error) {
    const std::string place = TomlReader(*config.model, config.file, "[model]").place("init");
    throw Error(error.kind, fmt::format("{}: [model] init = \"{}\": {}", place, config.init, error.message),
                error.hint);
  }
}

}  // namespace mlx::train
