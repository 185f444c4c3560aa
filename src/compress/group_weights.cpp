// Replaces linear layers one by one.

#include "compress/group_weights.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "nn/gguf_model.h"
#include "nn/model.h"

namespace mlx::compress {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Op;
using graph::ValueId;

bool can_be_rounded(const Graph& graph, const Node& node, const WeightType& type) {
  if (node.attrs.activation != kernels::Activation::kNone || node.outputs.size() > 1) return false;
  const graph::Value& weights = graph.value(node.inputs[1]);
  return weights.role == graph::Role::kParameter && weights.dtype == graph::DType::kF32 &&
         fitting(type, weights.dims[1].size).has_value();
}

}  // namespace

std::int64_t inputs_of(const Graph& graph, std::size_t node) {
  return graph.value(graph.nodes[node].inputs[1]).dims[1].size;
}

GroupableLayers groupable_layers(const Graph& graph, const WeightType& type) {
  GroupableLayers out;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != Op::kLinear) continue;
    if (!can_be_rounded(graph, graph.nodes[i], type)) {
      ++out.left;
      continue;
    }
    out.nodes.push_back(i);
    if (type.blocks && inputs_of(graph, i) % type.blocks->weights != 0) ++out.small;
  }
  if (out.nodes.empty())
    fail(ErrorKind::kUsage, "the model has no linear layer whose inputs are groups of {}", type.unit());
  return out;
}

graph::Attrs attrs_of_blocks(const SharedLayer& layer) {
  graph::Attrs attrs;
  attrs.blocks = kernels::int_list({layer.blocks->number});
  attrs.block_rows = kernels::int_list({layer.outputs});
  return attrs;
}

namespace {

// Its name is that of the weights that it replaces, or the layer's if others read these too.
void put_blocks(Graph& graph, graph::Weights::Map& weights, std::size_t at, const SharedLayer& layer) {
  const ValueId was = graph.nodes[at].inputs[1];
  const auto reads = [&](const Node& node) { return std::ranges::count(node.inputs, was) > 0; };
  const bool alone = std::ranges::count_if(graph.nodes, reads) == 1;
  const std::string name = (alone ? graph.value(was).name : graph.nodes[at].name + ".weight") + nn::kBlocksSuffix;
  weights[name] = layer.weights;
  const ValueId blocks =
      graph.parameter(name, {graph::Dim::of(layer.weights->shape().dims[0])}, layer.weights->shape().dtype);
  Node& node = graph.nodes[at];
  node.op = Op::kLinearBlocks;
  node.inputs[1] = blocks;
  node.attrs = attrs_of_blocks(layer);
}

}  // namespace

void put_rounded(Graph& graph, graph::Weights::Map& weights, std::size_t node, const SharedLayer& layer) {
  if (layer.blocks) return put_blocks(graph, weights, node, layer);
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

nn::Model group_weights(const nn::Model& model, const WeightType& type, Pool& pool) {
  const GroupableLayers layers = groupable_layers(model.graph, type);
  nn::Model out = model;
  graph::Weights::Map weights = model.weights->all();
  for (const std::size_t at : layers.nodes) {
    const std::string of = out.graph.value(out.graph.nodes[at].inputs[1]).name;
    const WeightType fits = *fitting(type, inputs_of(out.graph, at));
    put_rounded(out.graph, weights, at, share(round_as(fits, *model.weights->find(of), of, pool)));
  }
  finish_groups(out, std::move(weights));
  return out;
}

namespace {

std::uint64_t bytes_of(const WeightType& type, std::int64_t outputs, std::int64_t inputs) {
  constexpr std::int64_t kScaleBytes = 2;  // f16
  const std::int64_t row = type.blocks ? inputs / type.blocks->weights * type.blocks->bytes
                                       : inputs * type.groups.bits / 8 + inputs / type.groups.size * kScaleBytes;
  return static_cast<std::uint64_t>(outputs * row);
}

// Whether nothing but layers that get weights of their own reads it.
bool falls_away(const Graph& graph, const GroupableLayers& layers, ValueId weights) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<ValueId>& inputs = graph.nodes[i].inputs;
    if (std::ranges::find(inputs, weights) != inputs.end() && std::ranges::find(layers.nodes, i) == layers.nodes.end())
      return false;
  }
  return true;
}

}  // namespace

LayerPlans plan_layers(const nn::Model& model, const WeightType& type) {
  const Graph& graph = model.graph;
  const GroupableLayers layers = groupable_layers(graph, type);
  LayerPlans out{{}, layers.left, layers.small, model.weights->bytes(), model.weights->bytes()};
  std::set<ValueId> gone;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != Op::kLinear) continue;
    const ValueId weights = graph.nodes[i].inputs[1];
    const graph::Value& value = graph.value(weights);
    PlannedLayer layer{graph.nodes[i].name, "stored", value.dims[0].size, value.dims[1].size, 0, 0};
    if (const auto stored = model.weights->find(value.name)) layer.bytes_before = stored->stored_data().size();
    layer.bytes = layer.bytes_before;
    if (std::ranges::find(layers.nodes, i) != layers.nodes.end()) {
      const WeightType fits = *fitting(type, layer.inputs);
      layer.type = name_of(fits), layer.bytes = bytes_of(fits, layer.outputs, layer.inputs);
      out.weights += layer.bytes;
      if (falls_away(graph, layers, weights) && gone.insert(weights).second) out.weights -= layer.bytes_before;
    }
    out.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace mlx::compress
