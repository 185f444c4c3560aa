// Layers, totals and memory of a model.
#include "cmd/show_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "cmd/backend.h"
#include "graph/passes/passes.h"
#include "nn/finetune.h"
#include "registry/versions/runs.h"

namespace mlx::cmd {
namespace {

std::vector<std::int64_t> sizes_of(const graph::Graph& graph, std::int64_t batch, std::int64_t length) {
  std::vector<std::int64_t> sizes;
  for (const std::string& symbol : graph.symbols) sizes.push_back(symbol == "batch" ? batch : length);
  return sizes;
}

// The length of sequence that the model was made for; 1 if its config does not say.
std::int64_t context_of(const nn::Model& model) {
  const Json config = parse_json(model.config, "the model's config");
  const auto found = config.find("context");
  return found != config.end() && found->is_number_integer() ? std::max<std::int64_t>(1, found->get<std::int64_t>())
                                                             : 1;
}

// The batch that the version was trained with; 0 if unknown.
std::int64_t batch_of(registry::Repository& repository, const registry::Version& version) {
  if (version.run.empty()) return 0;
  const registry::Run run = registry::read_run(repository, version.run);
  if (run.command != "train" || run.params.empty()) return 0;
  const std::string what = "run:" + run.id;
  return json_int(json_object(parse_json(run.params, what), "train", what), "batch", what);
}

// Folding wants tensors to fold; what they hold decides nothing about sizes.
graph::Tensors blank_tensors(const graph::Graph& graph) {
  const bool folds =
      std::ranges::any_of(graph.nodes, [](const graph::Node& node) { return node.op == graph::Op::kBatchNorm; });
  graph::Tensors tensors;
  if (!folds) return tensors;
  for (const graph::Value& value : graph.values) {
    if (value.role != graph::Role::kParameter && value.role != graph::Role::kState) continue;
    const kernels::Shape shape = graph::concrete(value, std::vector<std::int64_t>(graph.symbols.size(), 1));
    tensors[value.name] = {shape, Bytes(shape.bytes(), 0)};
  }
  return tensors;
}

void plan_memory(ModelLayers& layers, const std::vector<std::string>& frozen, kernels::Backend backend) {
  const graph::Graph& forward = layers.model.graph;
  try {
    graph::Tensors tensors = blank_tensors(forward);
    const graph::Graph used = graph::fuse(graph::to_inference(forward), tensors);
    layers.inference_bytes = graph::planned_arena(used, sizes_of(used, 1, layers.length), backend);
    if (layers.training_batch == 0) return;
    const graph::Graph trained = graph::to_training(graph::freeze(forward, frozen), {}, 0).graph;
    layers.training_bytes =
        graph::planned_arena(trained, sizes_of(trained, layers.training_batch, layers.length), backend);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kUsage) throw;
    layers.memory_problem = error.message;
  }
}

std::string short_count(double count) {
  if (count >= 1e9) return fmt::format("{:.2f} G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.1f} k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

// "28x28x16" of one example; with "u8" before it if it is not f32.
std::string output_text(const graph::Graph& graph, const graph::LayerRow& row) {
  std::string text;
  for (const graph::Dim& dim : row.output) {
    const std::string size = graph::to_text(graph, dim);
    if (size == "batch") continue;
    if (!text.empty()) text += 'x';
    text += size;
  }
  return row.dtype == kernels::DType::kF32 ? text : fmt::format("{} {}", kernels::name_of(row.dtype), text);
}

struct Line {
  std::string name, operation, output, parameters, flops;
};

}  // namespace

ModelLayers model_layers(registry::Repository& repository, const registry::Version& version) {
  ModelLayers layers;
  layers.model = nn::load_description(repository.store(), version.digest);
  layers.length = context_of(layers.model);
  layers.summary = graph::summarize(layers.model.graph, sizes_of(layers.model.graph, 1, layers.length));
  const std::vector<std::string> frozen =
      nn::frozen_parameters(layers.model.graph, parse_json(layers.model.config, "the model's config"));
  for (const std::string& name : frozen)
    layers.frozen += graph::concrete(layers.model.graph.value(layers.model.graph.find(name)), {}).count();
  layers.training_batch = batch_of(repository, version);
  // model.json may come from anywhere; planning for weights that are not in the version could ask for any memory. Those
  // in half precision are as many bytes in the graph again.
  if (layers.summary.weight_bytes <= 2 * version.bytes) {
    plan_memory(layers, frozen, chosen_backend(repository.environment()));
  } else {
    layers.memory_problem = fmt::format("the graph has weights of {}, the version holds {}",
                                        format_bytes(layers.summary.weight_bytes), format_bytes(version.bytes));
  }
  layers.summary.weight_bytes = nn::stored_weight_bytes(repository.store(), version.digest);
  return layers;
}

void print_layers(Context& context, const ModelLayers& layers) {
  std::vector<Line> lines{{"name", "operation", "output", "parameters", "FLOP"}};
  lines.reserve(layers.summary.layers.size() + 2);
  for (const graph::LayerRow& row : layers.summary.layers) {
    lines.push_back({row.name, row.operation, output_text(layers.model.graph, row),
                     row.parameter_count > 0 ? fmt::format("{}", row.parameter_count) : "",
                     row.flops > 0 ? short_count(row.flops) : ""});
  }
  lines.push_back({"total", "", "", fmt::format("{}", layers.summary.parameters), short_count(layers.summary.flops)});
  if (layers.frozen > 0) {
    lines.push_back({"trained", "", "", fmt::format("{}", layers.summary.parameters - layers.frozen), ""});
    lines.push_back({"frozen", "", "", fmt::format("{}", layers.frozen), ""});
  }
  std::size_t name = 0, operation = 0, output = 0;
  for (const Line& line : lines) {
    name = std::max(name, line.name.size());
    operation = std::max(operation, line.operation.size());
    output = std::max(output, line.output.size());
  }
  context.line("\n" + context.bold(layers.length > 1 ? fmt::format("layers, for a sequence of {}", layers.length)
                                                     : "layers, for one example"));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    const std::string text = fmt::format("  {:<{}}  {:<{}}  {:<{}}  {:>11}  {:>9}", line.name, name, line.operation,
                                         operation, line.output, output, line.parameters, line.flops);
    context.line(i == 0 ? context.dim(text) : text);
  }
  context.line("\n" + context.bold("memory"));
  const auto row = [&](const char* what, std::size_t bytes, const std::string& rest) {
    context.line(fmt::format("  {:<12}{:>10}{}", what, format_bytes(bytes), rest));
  };
  row("weights", layers.summary.weight_bytes, "");
  if (layers.inference_bytes) row("activations", *layers.inference_bytes, "  batch 1");
  if (layers.training_bytes)
    row("", *layers.training_bytes, fmt::format("  batch {}, training", layers.training_batch));
  if (!layers.memory_problem.empty()) context.line("  activations not known: " + layers.memory_problem);
}

void add_layers(Json& json, const ModelLayers& layers) {
  Json list = Json::array();
  for (const graph::LayerRow& row : layers.summary.layers) {
    Json output = Json::array();
    for (const graph::Dim& dim : row.output) output.push_back(dim.symbolic() ? -1 : dim.size);
    list.push_back({{"name", row.name},
                    {"operation", row.operation},
                    {"output", output},
                    {"dtype", kernels::name_of(row.dtype)},
                    {"parameters", row.parameter_count},
                    {"tensors", row.parameters},
                    {"flops", row.flops}});
  }
  json["layers"] = list;
  Json totals = {{"parameters", layers.summary.parameters},
                 {"frozen", layers.frozen},
                 {"flops", layers.summary.flops},
                 {"weight_bytes", layers.summary.weight_bytes},
                 {"sequence", layers.length}};
  totals["activation_bytes"] = layers.inference_bytes ? Json(*layers.inference_bytes) : Json();
  totals["training_batch"] = layers.training_batch > 0 ? Json(layers.training_batch) : Json();
  totals["training_activation_bytes"] = layers.training_bytes ? Json(*layers.training_bytes) : Json();
  json["totals"] = totals;
}

}  // namespace mlx::cmd
