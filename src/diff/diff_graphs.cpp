// Graphs as sequences of layers, compared by operation and shapes, not by name.
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "diff/diff_models.h"
#include "diff/sequence_diff.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

namespace mlx::diff {
namespace {

struct Layer {
  std::string name, op;
  std::string looks;  // parameters' shapes, output's shape, attributes
};

// model.json's text of values and nodes was validated by graph_from_json; attributes are read as they are written.
std::vector<Layer> layers_of(const Json& json, const std::string& what) {
  const graph::Graph graph = graph::graph_from_json(json, what);
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    Layer layer{node.name, kernels::name_of(node.op), {}};
    const auto say = [&](const std::string& text) { layer.looks += (layer.looks.empty() ? "" : " ") + text; };
    for (const graph::ValueId id : node.inputs) {
      if (id == graph::kNone || graph.value(id).role == graph::Role::kActivation) continue;
      const graph::Value& value = graph.value(id);
      if (value.dims.size() > 1 && value.role == graph::Role::kParameter) say(graph::to_text(graph, value.dims));
      if (value.dtype != graph::DType::kF32) say(kernels::name_of(value.dtype));
    }
    if (!node.outputs.empty() && node.outputs[0] != graph::kNone)
      say("-> " + graph::to_text(graph, graph.value(node.outputs[0]).dims));
    const Json& attrs = json["nodes"][i].value("attrs", Json::object());
    for (const auto& [key, value] : attrs.items())
      say(key + "=" + (value.is_string() ? value.get<std::string>() : canonical(value)));
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::vector<std::string> signatures(const std::vector<Layer>& layers) {
  std::vector<std::string> out;
  out.reserve(layers.size());
  for (const Layer& layer : layers) out.push_back(layer.op + " " + layer.looks);
  return out;
}

// Pairs a stretch of removed with a stretch of added layers: layers of the same operation, in order, have changed.
void pair_up(const std::vector<Layer>& old, const std::vector<Layer>& now, std::vector<LayerChange>& changes) {
  using Kind = LayerChange::Kind;
  std::vector<std::string> old_ops, new_ops;
  for (const Layer& layer : old) old_ops.push_back(layer.op);
  for (const Layer& layer : now) new_ops.push_back(layer.op);
  for (const Step& step : sequence_diff(old_ops, new_ops)) {
    if (step.kind == Step::Kind::kRemoved) {
      const Layer& layer = old[step.before];
      changes.push_back({Kind::kRemoved, layer.name, layer.op, layer.looks, {}});
    } else if (step.kind == Step::Kind::kAdded) {
      const Layer& layer = now[step.after];
      changes.push_back({Kind::kAdded, layer.name, layer.op, {}, layer.looks});
    } else {
      const Layer& layer = now[step.after];
      changes.push_back({Kind::kChanged, layer.name, layer.op, old[step.before].looks, layer.looks});
    }
  }
}

}  // namespace

std::vector<LayerChange> diff_graphs(const Json& before, const Json& after) {
  const std::vector<Layer> old = layers_of(before, "model.json: graph"), now = layers_of(after, "model.json: graph");
  std::vector<LayerChange> changes;
  std::vector<Layer> gone, come;
  const auto flush = [&] {
    pair_up(gone, come, changes);
    gone.clear(), come.clear();
  };
  for (const Step& step : sequence_diff(signatures(old), signatures(now))) {
    if (step.kind == Step::Kind::kRemoved) gone.push_back(old[step.before]);
    if (step.kind == Step::Kind::kAdded) come.push_back(now[step.after]);
    if (step.kind == Step::Kind::kKept) flush();
  }
  flush();
  return changes;
}

}  // namespace mlx::diff
