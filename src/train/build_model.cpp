// Builds a graph from config and data: checks that they fit, then asks the model's family.
#include "train/build_model.h"

#include "base/error.h"
#include "nn/finetune.h"

namespace mlx::train {
namespace {

nn::InputSpec input_spec(const data::Description& data) {
  switch (data.kind) {
    case data::Kind::kImages:
      break;
    case data::Kind::kFeatures:
      return nn::InputSpec::rows(data.features, data.outputs);
    case data::Kind::kTokens:
      return nn::InputSpec::tokens(data.outputs);
  }
  return nn::InputSpec::images(data.height, data.width, data.channels, data.outputs);
}

// Refuses keys of [data] for another kind of data.
void check_config(const TrainConfig& config, const data::Description& data) {
  const auto refuse = [&](const char* key, const char* what) {
    fail(ErrorKind::kUsage, "{}: [data] {} is for {}, the split holds {}", config.file, key, what,
         data::unit_name(data.kind));
  };
  (void)loss_spec(config, data.targets);
  if (data.kind != data::Kind::kFeatures && !config.reading.rows.targets.empty()) refuse("target", "rows");
  if (data.kind != data::Kind::kFeatures && !config.reading.rows.features.empty()) refuse("features", "rows");
  if (data.kind != data::Kind::kTokens && config.reading.tokenizer != "bytes") refuse("tokenizer", "text");
  if (data.kind != data::Kind::kImages && !(config.augment == data::Augment{})) refuse("augment", "images");
}

}  // namespace

TomlReader model_table(const TrainConfig& config, const nn::Model* base) {
  return {base ? nn::with_base_config(*config.model, *base) : *config.model, config.file, "[model]"};
}

nn::Built build_model(const TrainConfig& config, const data::Description& data, const nn::Model* base) {
  check_config(config, data);
  const TomlReader table = model_table(config, base);
  nn::Built built = nn::build(table, input_spec(data), base ? &base->graph : nullptr);
  nn::read_freeze(table, built);
  nn::read_lora(table, built);
  return built;
}

}  // namespace mlx::train
