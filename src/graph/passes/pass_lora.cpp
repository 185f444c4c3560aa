// Low-rank adapters (Hu et al. 2021, "LoRA"): adds them to a forward graph, and merges them into the weights.
//
// y = x·Wᵀ becomes y = x·Wᵀ + scale · (x·Aᵀ)·Bᵀ, also where W is in groups of integers (Dettmers et al. 2023, "QLoRA").
// The scale is applied between the two products, where there are the fewest values.

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace mlx::graph {
namespace {

bool is_output(const Graph& graph, const Node& node) {
  return std::ranges::find(graph.outputs, node.outputs.at(0)) != graph.outputs.end();
}

// True for a linear layer in f32, or with weights in groups, whose weights no other node reads.
bool takes_adapter(const Graph& graph, const Node& node, const std::vector<int>& uses) {
  if (node.op != Op::kLinear && node.op != Op::kLinearGroups) return false;
  if (node.attrs.activation != Activation::kNone || is_output(graph, node)) return false;
  const ValueId weights = node.inputs.at(1);
  return graph.value(weights).role == Role::kParameter && uses[index(weights)] == 1 &&
         (graph.value(weights).dtype == DType::kF32 || node.op == Op::kLinearGroups);
}

// What an adapter is named after: the weights, or those that weights in groups were made of.
std::string target_of(const Graph& graph, const Node& layer) {
  constexpr std::string_view kGroups = ".groups";
  std::string name = graph.value(layer.inputs[1]).name;
  if (layer.op == Op::kLinearGroups && name.ends_with(kGroups))
    name.replace(name.size() - kGroups.size(), kGroups.size(), ".weight");
  return name;
}

LoraTarget lora_target(const Graph& graph, const Node& layer) {
  return {target_of(graph, layer), graph.value(layer.outputs[0]).dims.back().size,
          graph.value(layer.inputs[0]).dims.back().size};
}

// Adds an adapter after `layer`, which is in `graph` already; returns the sum.
ValueId add_adapter(Graph& graph, const Node& layer, const LoraSpec& spec) {
  const LoraTarget target = lora_target(graph, layer);
  const std::string& weights = target.name;
  ValueId x = layer.inputs[0];
  if (spec.dropout > 0) {
    Attrs dropout;
    dropout.rate = spec.dropout;
    x = graph.add(Op::kDropout, dropout, {x}, layer.name + ".lora_dropout")[0];
  }
  const ValueId a = graph.parameter(weights + kLoraA, {Dim::of(spec.rank), Dim::of(target.inputs)});
  const ValueId b = graph.parameter(weights + kLoraB, {Dim::of(target.outputs), Dim::of(spec.rank)});
  x = graph.add(Op::kLinear, {}, {x, a}, layer.name + ".lora_down")[0];
  Attrs scale;
  scale.scale_a = spec.alpha / static_cast<float>(spec.rank);
  scale.scale_b = 0;
  x = graph.add(Op::kScaledAdd, scale, {x, x}, layer.name + ".lora_scale")[0];
  x = graph.add(Op::kLinear, {}, {x, b}, layer.name + ".lora_up")[0];
  return graph.add(Op::kAdd, {}, {layer.outputs[0], x}, layer.name + ".lora")[0];
}

// What add_adapter() made, recognised by its connections.
struct Adapter {
  ValueId sum = kNone, y = kNone;  // with the adapter, without it
  ValueId weights = kNone, a = kNone, b = kNone;
  float scale = 0;
};

const Node* maker(const Graph& graph, ValueId value, Op op) {
  const std::size_t at = producer(graph, value);
  return at < graph.nodes.size() && graph.nodes[at].op == op ? &graph.nodes[at] : nullptr;
}

std::optional<Adapter> adapter_at(const Graph& graph, const Node& add) {
  if (add.op != Op::kAdd || !graph.value(add.outputs[0]).name.ends_with(".lora")) return std::nullopt;
  const Node* const layer = maker(graph, add.inputs[0], Op::kLinear);
  const Node* const up = maker(graph, add.inputs[1], Op::kLinear);
  const Node* const scale = up ? maker(graph, up->inputs[0], Op::kScaledAdd) : nullptr;
  const Node* const down = scale ? maker(graph, scale->inputs[0], Op::kLinear) : nullptr;
  if (!layer || !down) return std::nullopt;
  Adapter adapter{add.outputs[0], add.inputs[0], layer->inputs[1], down->inputs[1], up->inputs[1], 0};
  const std::string& name = graph.value(adapter.weights).name;
  if (graph.value(adapter.a).name != name + kLoraA || graph.value(adapter.b).name != name + kLoraB) return std::nullopt;
  adapter.scale = scale->attrs.scale_a;
  return adapter;
}

// W += scale · B·A, each element summed in double.
void merge(const Graph& graph, Tensors& tensors, const Adapter& adapter) {
  const auto floats = [&](ValueId id) {
    const auto found = tensors.find(graph.value(id).name);
    const kernels::Shape shape = concrete(graph.value(id), std::vector<std::int64_t>(graph.symbols.size(), 1));
    if (found == tensors.end() || found->second.shape != shape || found->second.data.size() != shape.bytes())
      fail(ErrorKind::kCorrupt, "weights: '{}' is missing or has another shape", graph.value(id).name);
    return reinterpret_cast<float*>(found->second.data.data());
  };
  float* const w = floats(adapter.weights);
  const float *const a = floats(adapter.a), *const b = floats(adapter.b);
  const std::int64_t rows = graph.value(adapter.weights).dims[0].size;
  const std::int64_t columns = graph.value(adapter.weights).dims[1].size;
  const std::int64_t rank = graph.value(adapter.a).dims[0].size;
  std::vector<double> change(static_cast<std::size_t>(columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::ranges::fill(change, 0.0);
    for (std::int64_t r = 0; r < rank; ++r) {
      const double factor = double{adapter.scale} * double{b[row * rank + r]};
      for (std::int64_t k = 0; k < columns; ++k) change[static_cast<std::size_t>(k)] += factor * a[r * columns + k];
    }
    for (std::int64_t k = 0; k < columns; ++k) {
      float& weight = w[row * columns + k];
      weight = static_cast<float>(weight + change[static_cast<std::size_t>(k)]);
    }
  }
}

}  // namespace

std::vector<LoraTarget> lora_targets(const Graph& forward) {
  const std::vector<int> uses = count_uses(forward);
  std::vector<LoraTarget> targets;
  for (const Node& node : forward.nodes) {
    if (takes_adapter(forward, node, uses)) targets.push_back(lora_target(forward, node));
  }
  return targets;
}

Graph add_lora(const Graph& forward, const LoraSpec& spec) {
  const std::vector<int> uses = count_uses(forward);
  Graph graph = forward;
  graph.nodes.clear();
  std::vector<ValueId> now(forward.values.size());  // the value that replaces each value from here on
  for (std::size_t i = 0; i < now.size(); ++i) now[i] = static_cast<ValueId>(i);
  for (Node node : forward.nodes) {
    for (ValueId& id : node.inputs) {
      if (id != kNone) id = now[index(id)];
    }
    graph.nodes.push_back(node);
    const bool wanted = takes_adapter(forward, node, uses) &&
                        std::ranges::find(spec.targets, target_of(forward, node)) != spec.targets.end();
    if (wanted) now[index(node.outputs[0])] = add_adapter(graph, node, spec);
  }
  return graph;
}

Graph merge_lora(const Graph& forward, Tensors& tensors) {
  Graph graph = forward;
  for (const Node& node : forward.nodes) {
    const std::optional<Adapter> adapter = adapter_at(forward, node);
    if (!adapter) continue;
    merge(forward, tensors, *adapter);
    tensors.erase(forward.value(adapter->a).name);
    tensors.erase(forward.value(adapter->b).name);
    replace_uses(graph, adapter->sum, adapter->y);
  }
  return remove_dead(graph);
}

}  // namespace mlx::graph
