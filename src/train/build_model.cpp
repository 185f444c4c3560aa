// Builds a graph from config and data: checks that they fit, then asks the model's family.
#include "train/build_model.h"

#include "base/error.h"
#include "nn/finetune.h"
#include "nn/groups.h"

namespace mlx::train {
namespace {

// Refuses keys of [data] for another kind of data.
void check_config(const TrainConfig& config, const data::Description& data) {
  (void)loss_spec(config, data.targets);
  for (const data::Kind* kind : data::kinds()) {
    const char* const key = kind == data.kind || !kind->key_set ? nullptr : kind->key_set(config.reading);
    if (!key) continue;
    fail(ErrorKind::kUsage, "{}: [data] {} is for {}, the split holds {}", config.file, key, kind->name,
         data.kind->unit);
  }
}

// Weights of the base that are integers in groups stay so.
void take_groups(const TomlReader& table, const nn::Model& base, nn::Built& built) {
  if (!nn::has_groups(base.graph)) return;
  const auto refuse = [&](const Error& error) {
    throw Error(error.kind, fmt::format("{}: [model] init: {}", table.place("init"), error.message), error.hint);
  };
  try {
    nn::check_base(base, table.has("lora"));
    built.graph = nn::with_groups_of(base.graph, built.graph);
  } catch (const Error& error) {
    refuse(error);
  }
}

}  // namespace

TomlReader model_table(const TrainConfig& config, const nn::Model* base) {
  return {base ? nn::with_base_config(*config.model, *base) : *config.model, config.file, "[model]"};
}

nn::Built build_model(const TrainConfig& config, const data::Description& data, const nn::Model* base) {
  check_config(config, data);
  const TomlReader table = model_table(config, base);
  nn::Built built = nn::build(table, nn::InputSpec::of(data), base ? &base->graph : nullptr);
  if (base) take_groups(table, *base, built);
  nn::read_freeze(table, built);
  nn::read_lora(table, built);
  return built;
}

}  // namespace mlx::train
