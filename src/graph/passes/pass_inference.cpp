// From a trainable forward graph to one for inference: without dropout, batch norm with running statistics; then
// folding and fusion.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace mlx::graph {
namespace {

float* floats(const Graph& graph, Tensors& tensors, ValueId id) {
  const auto found = tensors.find(graph.value(id).name);
  const kernels::Shape shape = concrete(graph.value(id), std::vector<std::int64_t>(graph.symbols.size(), 1));
  if (found == tensors.end() || found->second.shape != shape || found->second.data.size() != shape.bytes()) {
    fail(ErrorKind::kCorrupt, "weights: '{}' is missing or has another shape", graph.value(id).name);
  }
  return reinterpret_cast<float*>(found->second.data.data());
}

// A zero bias for a layer that has none.
ValueId add_bias(Graph& graph, Tensors& tensors, const std::string& layer, Dim channels) {
  std::string name = layer + ".bias";
  while (graph.find(name) != kNone || tensors.contains(name)) name += "_folded";
  const ValueId bias = graph.parameter(name, {channels});
  const kernels::Shape shape = concrete(graph.value(bias), std::vector<std::int64_t>(graph.symbols.size(), 1));
  tensors[name] = {shape, Bytes(shape.bytes(), 0)};
  return bias;
}

// y = gamma · (w·x + b - mean) · rstd + beta is a layer again: w' = w · gamma · rstd, b' = (b - mean) · gamma · rstd +
// beta.
void fold(Graph& graph, Tensors& tensors, Node& layer, const Node& norm) {
  const ValueId weights = layer.inputs[1];
  const Dim channels = graph.value(weights).dims[0];
  if (layer.inputs.size() < 3) layer.inputs.resize(3, kNone);
  if (layer.inputs[2] == kNone) layer.inputs[2] = add_bias(graph, tensors, layer.name, channels);
  float* w = floats(graph, tensors, weights);
  float* b = floats(graph, tensors, layer.inputs[2]);
  const float* gamma = floats(graph, tensors, norm.inputs[1]);
  const float* beta = floats(graph, tensors, norm.inputs[2]);
  const float* mean = floats(graph, tensors, norm.inputs[3]);
  const float* variance = floats(graph, tensors, norm.inputs[4]);
  std::int64_t per_channel = 1;
  for (std::size_t i = 1; i < graph.value(weights).dims.size(); ++i) per_channel *= graph.value(weights).dims[i].size;
  for (std::int64_t c = 0; c < channels.size; ++c) {
    const double scale =
        static_cast<double>(gamma[c]) / std::sqrt(static_cast<double>(variance[c]) + norm.attrs.epsilon);
    for (std::int64_t i = 0; i < per_channel; ++i) {
      float& weight = w[c * per_channel + i];
      weight = static_cast<float>(weight * scale);
    }
    b[c] = static_cast<float>((static_cast<double>(b[c]) - mean[c]) * scale + beta[c]);
  }
  layer.attrs.activation = norm.attrs.activation;
  layer.outputs[0] = norm.outputs[0];
}

void fold_batch_norm(Graph& graph, Tensors& tensors) {
  const std::vector<int> uses = count_uses(graph);
  std::vector<char> folded(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node norm = graph.nodes[i];
    if (norm.op != Op::kBatchNormInference) continue;
    const std::size_t at = producer(graph, norm.inputs[0]);
    if (at >= graph.nodes.size() || uses[index(norm.inputs[0])] != 1) continue;
    Node& layer = graph.nodes[at];
    if (!op_def(layer.op).layer || layer.attrs.activation != Activation::kNone) continue;
    const auto alone = [&](ValueId id) { return uses[index(id)] == 1 && graph.value(id).role == Role::kParameter; };
    const bool bias = layer.inputs.size() > 2 && layer.inputs[2] != kNone;
    if (graph.value(layer.inputs[1]).dtype != DType::kF32 || !alone(layer.inputs[1]) ||
        (bias && !alone(layer.inputs[2]))) {
      continue;
    }
    fold(graph, tensors, layer, norm);
    folded[i] = 1;
  }
  erase_nodes(graph, folded);
}

// The tensors that folding may read or change: those of batch norms, and of the layers before them.
Tensors foldable(const Graph& graph, const Weights& weights) {
  Tensors tensors;
  const auto copy = [&](ValueId id) {
    if (id == kNone || !outlives_step(graph.value(id).role)) return;
    const std::string& name = graph.value(id).name;
    if (weights.contains(name)) tensors.emplace(name, weights.tensor(name));
  };
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kBatchNormInference) continue;
    const Node* each = &node;
    while (true) {
      std::for_each(each->inputs.begin() + 1, each->inputs.end(), copy);
      const std::size_t before = producer(graph, each->inputs[0]);
      if (each->op != Op::kBatchNormInference || before >= graph.nodes.size()) break;
      each = &graph.nodes[before];
      if (each->op != Op::kBatchNormInference && !op_def(each->op).layer) break;
    }
  }
  return tensors;
}

// An answer depends on its request alone: no node may write what outlives a run.
void check_writes(const Graph& inference) {
  for (const Node& node : inference.nodes) {
    for (const ValueId id : node.outputs) {
      if (id == kNone || !outlives_step(inference.value(id).role)) continue;
      fail(ErrorKind::kCorrupt, "graph: node '{}' ({}) changes '{}', which inference must not change", node.name,
           kernels::name_of(node.op), inference.value(id).name);
    }
  }
}

}  // namespace

Graph to_inference(const Graph& forward) {
  Graph graph = forward;
  std::vector<char> dropped(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (node.op == Op::kDropout) {
      dropped[i] = 1;
      replace_uses(graph, node.outputs[0], node.inputs[0]);
    } else if (node.op == Op::kBatchNorm) {
      node.op = Op::kBatchNormInference;
      node.outputs.resize(1);
      node.attrs.momentum = Attrs{}.momentum;  // only training reads it
    }
  }
  erase_nodes(graph, dropped);
  graph = remove_dead(graph);
  check_writes(graph);
  return graph;
}

Graph fuse(const Graph& inference, Tensors& tensors) {
  Graph graph = inference;
  fold_batch_norm(graph, tensors);
  fuse_activations(graph, true);
  Graph fused = remove_dead(graph);
  for (const Value& value : inference.values) {
    if (fused.find(value.name) == kNone) tensors.erase(value.name);
  }
  return fused;
}

WithWeights fuse(const Graph& inference, const Weights& weights) {
  Tensors changed = foldable(inference, weights);
  WithWeights fused{fuse(inference, changed), nullptr};
  Weights::Map all;
  for (const Value& value : fused.graph.values) {
    if (!outlives_step(value.role)) continue;
    const auto old = weights.find(value.name);
    const auto now = changed.find(value.name);
    if (now != changed.end() && !(old && std::ranges::equal(old->data(), now->second.data))) {
      const auto data = std::make_shared<const Bytes>(std::move(now->second.data));
      all.emplace(value.name, std::make_shared<const Weight>(now->second.shape, *data, Backing{data}));
    } else if (old) {
      all.emplace(value.name, old);
    }
  }
  fused.weights = std::make_shared<const Weights>(std::move(all));
  return fused;
}

}  // namespace mlx::graph
