// From a forward graph to one that trains it: loss, backward, optimizer; and to one that measures the loss.

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/optimizers.h"
#include "graph/rewrite.h"

namespace mlx::graph {
namespace {

struct Loss {
  ValueId labels = kNone, loss = kNone, correct = kNone, counted = kNone;
};

Loss add_loss(Graph& graph, float label_smoothing) {
  if (graph.outputs.empty()) fail(ErrorKind::kUsage, "the graph has no output to compare with labels");
  const ValueId logits = graph.outputs[0];
  Dims dims = graph.value(logits).dims;
  if (dims.empty()) fail(ErrorKind::kUsage, "the output '{}' has no classes", graph.value(logits).name);
  dims.pop_back();
  Loss loss;
  loss.labels = graph.input("labels", DType::kS32, dims);
  Attrs attrs;
  attrs.rate = label_smoothing;
  const std::vector<ValueId> outputs = graph.add(Op::kSoftmaxCrossEntropy, attrs, {logits, loss.labels}, "loss");
  loss.loss = outputs[0];
  loss.correct = outputs[2];
  loss.counted = outputs[3];
  return loss;
}

// A stream of random numbers for each dropout that has none yet: a hash (FNV-1a) of its name, so that other layers do
// not matter.
void choose_streams(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.op != Op::kDropout || node.attrs.stream != 0) continue;
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : node.name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    node.attrs.stream = hash;
  }
}

// The nodes of one parameter's update, [first, last) of the graph's.
struct UpdateNodes {
  ValueId parameter = kNone, gradient = kNone;
  std::size_t first = 0, last = 0;
};

// Moves each update to where its gradient is there and nobody reads the parameter any more, so that gradients die
// young.
void update_early(Graph& graph, const std::vector<UpdateNodes>& updates) {
  const std::size_t first_update = updates.empty() ? graph.nodes.size() : updates.front().first;
  std::vector<int> last_touch(graph.values.size(), -1);
  for (std::size_t i = 0; i < first_update; ++i) {
    for (const std::vector<ValueId>* ids : {&graph.nodes[i].inputs, &graph.nodes[i].outputs}) {
      for (const ValueId id : *ids) {
        if (id != kNone) last_touch[static_cast<std::size_t>(id)] = static_cast<int>(i);
      }
    }
  }
  std::vector<std::pair<int, Node>> ordered;
  ordered.reserve(graph.nodes.size());
  for (std::size_t i = 0; i < first_update; ++i) ordered.emplace_back(static_cast<int>(i), std::move(graph.nodes[i]));
  for (const UpdateNodes& update : updates) {
    const int after = std::max(last_touch[static_cast<std::size_t>(update.parameter)],
                               last_touch[static_cast<std::size_t>(update.gradient)]);
    for (std::size_t i = update.first; i < update.last; ++i) ordered.emplace_back(after, std::move(graph.nodes[i]));
  }
  std::ranges::stable_sort(ordered, {}, [](const auto& each) { return each.first; });
  for (std::size_t i = 0; i < ordered.size(); ++i) graph.nodes[i] = std::move(ordered[i].second);
}

// remove_dead renumbers: what the caller wants is found again by name.
TrainingGraph cleaned(const Graph& graph, const Loss& loss, ValueId learning_rate) {
  TrainingGraph result;
  result.graph = remove_dead(graph);
  const auto again = [&](ValueId id) { return id == kNone ? kNone : result.graph.find(graph.value(id).name); };
  result.labels = again(loss.labels);
  result.learning_rate = again(learning_rate);
  result.loss = again(loss.loss);
  result.correct = again(loss.correct);
  result.counted = again(loss.counted);
  return result;
}

}  // namespace

TrainingGraph to_training(const Graph& forward, const OptimizerSpec& optimizer, float label_smoothing) {
  const std::vector<char> hidden = hidden_matrices(forward);
  Graph graph = forward;
  choose_streams(graph);
  fuse_activations(graph, false);
  const Loss loss = add_loss(graph, label_smoothing);
  graph.outputs = {loss.loss, loss.correct, loss.counted};
  std::vector<ValueId> parameters;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].role == Role::kParameter) parameters.push_back(static_cast<ValueId>(i));
  }
  const std::vector<ValueId> gradients = differentiate(graph, loss.loss, parameters);
  const ValueId learning_rate = graph.input("learning_rate", DType::kF32, {Dim::of(1)});
  std::vector<UpdateNodes> updates;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (gradients[i] == kNone) continue;
    UpdateNodes nodes{parameters[i], gradients[i], graph.nodes.size(), 0};
    Update update{graph, optimizer, parameters[i], gradients[i], learning_rate};
    update.hidden_matrix = hidden[static_cast<std::size_t>(parameters[i])] != 0;
    add_update(update);
    nodes.last = graph.nodes.size();
    updates.push_back(nodes);
  }
  update_early(graph, updates);
  return cleaned(graph, loss, learning_rate);
}

TrainingGraph with_loss(const Graph& inference) {
  Graph graph = inference;
  const Loss loss = add_loss(graph, 0.0f);
  for (const ValueId id : {loss.loss, loss.correct, loss.counted}) graph.outputs.push_back(id);
  return cleaned(graph, loss, kNone);
}

}  // namespace mlx::graph
