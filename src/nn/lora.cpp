// lora = { rank = 8, alpha = 8, targets = ["*.attention.*"], dropout = 0.0 }: which weights of a transformer get
// adapters, and how adapters are merged into the weights.

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "nn/families.h"
#include "nn/finetune.h"
#include "nn/groups.h"
#include "nn/imported.h"

namespace mlx::nn {
namespace {

void check_place(const TomlReader& model, const Built& built) {
  const bool outside = parse_json(built.config, "the model's config").contains("architecture");
  if (built.family == kImported && !outside)
    model.fail_at("family", "with lora it is that of the model that init names: leave it out");
  if (built.family != "gpt2" && built.family != "llama" && !outside)
    model.fail_at("lora", fmt::format("it is for language models, the model is \"{}\"", built.family));
  if (!model.has("init")) model.fail_at("lora", "it adapts an existing model: name one with init");
  if (model.has("freeze")) model.fail_at("freeze", "with lora only the adapters are trained");
}

graph::LoraSpec read_spec(TomlReader& table, const graph::Graph& graph, Json& config) {
  graph::LoraSpec spec;
  config["rank"] = spec.rank = table.integer("rank", 1, 1 << 16, 8);
  const double alpha = table.number("alpha", 1e-6, 1e6, static_cast<double>(spec.rank));
  config["alpha"] = alpha;
  spec.alpha = static_cast<float>(alpha);
  spec.dropout = read_rate(table, "dropout", 0, config);
  const std::vector<std::string> patterns = table.strings("targets", std::vector<std::string>{"*.attention.*"});
  table.finish();
  if (patterns.empty()) table.fail_at("targets", "expected at least one pattern");
  config["targets"] = patterns;
  const std::vector<graph::LoraTarget> targets = graph::lora_targets(graph);
  if (targets.empty())
    table.fail_at("targets",
                  "the model has no layer beside whose weights adapters are trained: f32, half precision, or "
                  "int8 and int4 in groups");
  std::vector<std::string> names;
  names.reserve(targets.size());
  for (const graph::LoraTarget& target : targets) names.push_back(target.name);
  at_key(table, "targets", [&] { spec.targets = named_by(patterns, names, "weights of a layer"); });
  for (const graph::LoraTarget& target : targets) {
    if (std::ranges::find(spec.targets, target.name) == spec.targets.end()) continue;
    if (spec.rank > std::min(target.outputs, target.inputs)) {
      table.fail_at("rank", fmt::format("{} is more than '{}' has, which is {}x{}", spec.rank, target.name,
                                        target.outputs, target.inputs));
    }
  }
  return spec;
}

}  // namespace

void read_lora(TomlReader model, Built& built) {
  if (!model.has("lora")) return;
  check_place(model, built);
  TomlReader table = model.table("lora");
  Json lora = Json::object();
  const graph::LoraSpec spec = read_spec(table, built.graph, lora);
  for (const graph::Value& value : built.graph.values) {
    if (value.role == graph::Role::kParameter) built.frozen.push_back(value.name);
  }
  built.graph = graph::add_lora(built.graph, spec);
  for (const std::string& target : spec.targets) built.zeros.push_back(target + graph::kLoraB);
  built.lora = true;
  Json config = parse_json(built.config, "the model's config");
  config["lora"] = std::move(lora);
  built.config = canonical(config);
}

bool has_adapters(const Model& model) {
  return parse_json(model.config, "the model's config").contains("lora");
}

Model without_adapters(Model model) {
  constexpr std::string_view kLoraSum = ".lora";  // as graph::add_lora() names it
  if (!has_adapters(model)) return model;
  graph::Graph graph = model.graph;
  for (const graph::Node& node : model.graph.nodes)
    if (node.op == graph::Op::kAdd && model.graph.value(node.outputs[0]).name.ends_with(kLoraSum))
      graph::replace_uses(graph, node.outputs[0], node.inputs[0]);
  model.graph = graph::remove_dead(graph);
  return model;
}

void check_merges(const graph::Graph& graph) {
  if (!has_groups(graph)) return;
  throw Error(ErrorKind::kUsage, "its weights are integers in groups, and adapters cannot be merged into them",
              "the model works with its adapters as they are");
}

Model merged(Model model) {
  if (!has_adapters(model)) return model;
  check_merges(model.graph);
  graph::Tensors tensors = model.weights->tensors();
  model.graph = graph::merge_lora(model.graph, tensors);
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  Json config = parse_json(model.config, "the model's config");
  config.erase("lora");
  model.config = canonical(config);
  return model;
}

}  // namespace mlx::nn
