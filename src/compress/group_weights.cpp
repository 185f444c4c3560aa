// Replaces linear layers one by one.

#include "compress/group_weights.h"

#include <algorithm>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "nn/model.h"

namespace mlx::compress {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Op;
using graph::ValueId;

bool can_be_rounded(const Graph& graph, const Node& node, std::int64_t size) {
  if (node.attrs.activation != kernels::Activation::kNone || node.outputs.size() > 1) return false;
  const graph::Value& weights = graph.value(node.inputs[1]);
  return weights.role == graph::Role::kParameter && weights.dtype == graph::DType::kF32 &&
         weights.dims[1].size % size == 0;
}

}  // namespace

GroupableLayers groupable_layers(const Graph& graph, std::int64_t size) {
  GroupableLayers out;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != Op::kLinear) continue;
    if (can_be_rounded(graph, graph.nodes[i], size))
      out.nodes.push_back(i);
    else
      ++out.left;
  }
  if (out.nodes.empty()) fail(ErrorKind::kUsage, "the model has no linear layer whose inputs are groups of {}", size);
  return out;
}

void put_rounded(Graph& graph, graph::Weights::Map& weights, std::size_t node, const SharedLayer& layer) {
  const Node was = graph.nodes[node];
  const auto add = [&](const std::string& as, const std::shared_ptr<const graph::Weight>& weight) {
    const kernels::Shape& shape = weight->shape();
    weights[as] = weight;
    return graph.parameter(as, {graph::Dim::of(shape.dims[0]), graph::Dim::of(shape.dims[1])}, shape.dtype);
  };
  const std::string name = was.name + ".groups";
  const ValueId w = add(name, layer.weights), scales = add(name + ".scales", layer.scales);
  Node& now = graph.nodes[node];
  now.op = Op::kLinearGroups;
  now.attrs = {};
  now.inputs = {was.inputs[0], w, scales};
  if (was.inputs.size() > 2 && was.inputs[2] != kNone) now.inputs.push_back(was.inputs[2]);
}

void finish_groups(nn::Model& model, graph::Weights::Map weights) {
  model.graph = graph::remove_dead(model.graph);
  std::erase_if(weights, [&](const auto& entry) { return model.graph.find(entry.first) == kNone; });
  model.weights = std::make_shared<const graph::Weights>(std::move(weights));
  model.precision = nn::precision_of(model.graph);
}

GroupedWeights group_weights(const nn::Model& model, const Groups& groups, Pool& pool) {
  const GroupableLayers layers = groupable_layers(model.graph, groups.size);
  nn::Model out = model;
  graph::Weights::Map weights = model.weights->all();
  for (const std::size_t at : layers.nodes) {
    const std::string of = out.graph.value(out.graph.nodes[at].inputs[1]).name;
    put_rounded(out.graph, weights, at, share(round_layer(*model.weights->find(of), of, groups, pool)));
  }
  finish_groups(out, std::move(weights));
  return {std::move(out), static_cast<std::int64_t>(layers.nodes.size()), layers.left};
}

}  // namespace mlx::compress
