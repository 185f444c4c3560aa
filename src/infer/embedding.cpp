#include "infer/embedding.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "graph/passes/passes.h"

namespace mlx::infer {
namespace {

using graph::Op;

const graph::Node* node_that_makes(const graph::Graph& graph, graph::ValueId value) {
  for (const graph::Node& node : graph.nodes)
    if (std::ranges::find(node.outputs, value) != node.outputs.end()) return &node;
  return nullptr;
}

}  // namespace

nn::Model without_head(nn::Model model) {
  graph::Graph graph = graph::to_inference(model.graph);
  const bool language = graph::is_language_model(graph);
  const graph::Node* head = language ? node_that_makes(graph, graph.outputs[0]) : nullptr;
  if (head && head->op == Op::kSoftCap) head = node_that_makes(graph, head->inputs[0]);
  if (!head || (head->op != Op::kLinear && head->op != Op::kLinearGroups))
    fail(ErrorKind::kUsage, "the graph is not a language model that ends with a linear layer");
  graph.outputs = {head->inputs[0]};
  model.graph = graph::remove_dead(graph);
  graph::Weights::Map weights = model.weights->all();
  std::erase_if(weights, [&](const auto& each) { return model.graph.find(each.first) == graph::kNone; });
  model.weights = std::make_shared<const graph::Weights>(std::move(weights));
  return model;
}

Embedder::Embedder(const Model& model, Pooling pooling, bool unit, std::function<void()> check)
    : generator_(model, std::move(check)),
      width_(model.graph().value(model.graph().outputs.at(0)).dims.back().size),
      pooling_(pooling),
      unit_(unit) {}

std::vector<float> Embedder::embed(const std::vector<std::int32_t>& tokens) {
  const auto width = static_cast<std::size_t>(width_);
  std::vector<double> sum(width);
  generator_.logits(tokens, [&](std::span<const float> rows) {
    if (pooling_ == Pooling::kLast) {
      std::ranges::copy(rows.last(width), sum.begin());
    } else {
      for (std::size_t i = 0; i < rows.size(); ++i) sum[i % width] += double{rows[i]};
    }
  });
  double by = pooling_ == Pooling::kLast ? 1 : static_cast<double>(tokens.size());
  if (unit_) {
    double squares = 0;
    for (const double x : sum) squares += x * x;
    by = squares > 0 ? std::sqrt(squares) : 1;
  }
  std::vector<float> out(width);
  std::ranges::transform(sum, out.begin(), [by](double x) { return static_cast<float>(x / by); });
  if (!std::ranges::all_of(out, [](float x) { return std::isfinite(x); }))
    fail(ErrorKind::kCorrupt, "the model's states hold NaN or infinity");
  return out;
}

}  // namespace mlx::infer
