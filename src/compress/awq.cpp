// Finds where scales can be folded, and the scales. Exponents are eighths, so that powers are products of square roots:
// the same bits with every libm.

#include "compress/awq.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace mlx::compress {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Op;
using graph::ValueId;

constexpr int kEighths = 8;

// How often nodes and outputs read a value.
std::int64_t reads_of(const Graph& graph, ValueId value) {
  std::int64_t reads = std::ranges::count(graph.outputs, value);
  for (const Node& node : graph.nodes) reads += std::ranges::count(node.inputs, value);
  return reads;
}

const Node* maker_of(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes)
    if (!node.outputs.empty() && node.outputs[0] == value) return &node;
  return nullptr;
}

// The layer that alone makes a value that is read once; nullopt if it is not one of `layers`.
std::optional<std::size_t> layer_making(const Graph& graph, ValueId value, std::span<const std::size_t> layers) {
  if (reads_of(graph, value) != 1) return std::nullopt;
  for (const std::size_t layer : layers)
    if (graph.nodes[layer].outputs[0] == value) return layer;
  return std::nullopt;
}

std::optional<Fold> fold_into_norm(const Graph& graph, const Node& norm, std::int64_t inputs) {
  Fold fold;
  fold.gamma = norm.inputs[1];
  if (norm.op == Op::kLayerNorm) fold.beta = norm.inputs[2];
  for (const ValueId id : {fold.gamma, fold.beta}) {
    if (id == kNone) continue;
    const graph::Value& value = graph.value(id);
    if (value.role != graph::Role::kParameter || reads_of(graph, id) != 1 || value.dims[0].size != inputs)
      return std::nullopt;
  }
  fold.outputs.resize(static_cast<std::size_t>(inputs));
  std::iota(fold.outputs.begin(), fold.outputs.end(), 0);
  return fold;
}

// Gate and up are the outputs of one layer; up is the second half.
std::optional<Fold> fold_into_up(const Graph& graph, const Node& unit, std::int64_t inputs,
                                 std::span<const std::size_t> layers) {
  Fold fold;
  fold.layer = layer_making(graph, unit.inputs[0], layers);
  if (!fold.layer) return std::nullopt;
  fold.outputs.resize(static_cast<std::size_t>(inputs));
  std::iota(fold.outputs.begin(), fold.outputs.end(), inputs);
  return fold;
}

// An output of attention is a mean of values: those of the head of values that its head of queries reads.
std::optional<Fold> fold_into_values(const Graph& graph, const Node& attention, std::int64_t inputs,
                                     std::span<const std::size_t> layers) {
  const std::int64_t heads = attention.attrs.heads;
  const std::int64_t values = attention.attrs.kv_heads > 0 ? attention.attrs.kv_heads : heads;
  if (heads < 1 || inputs % heads != 0 || heads % values != 0) return std::nullopt;
  const std::int64_t width = inputs / heads;
  ValueId from = attention.inputs[0];
  std::int64_t first = (heads + values) * width;  // of the values among the outputs of one layer
  const Node* maker = maker_of(graph, from);
  if (maker && maker->op == Op::kRope && reads_of(graph, from) == 1) maker = maker_of(graph, from = maker->inputs[0]);
  if (maker && maker->op == Op::kConcat && maker->inputs.size() == 3 && reads_of(graph, from) == 1) {
    from = maker->inputs[2];
    first = 0;
    const graph::Dim& last = graph.value(from).dims.back();
    if (last.symbolic() || last.size != values * width) return std::nullopt;
  }
  Fold fold;
  fold.layer = layer_making(graph, from, layers);
  if (!fold.layer) return std::nullopt;
  for (std::int64_t head = 0; head < heads; ++head)
    for (std::int64_t i = 0; i < width; ++i) fold.outputs.push_back(first + head / (heads / values) * width + i);
  return fold;
}

// x to so many eighths.
double power(double x, int eighths) {
  double out = 1, root = x;
  for (int bit = kEighths; bit > 0; bit /= 2, root = std::sqrt(root))
    if ((eighths & bit) != 0) out *= root;
  return out;
}

// Scales whose largest and smallest multiply to 1.
std::vector<float> scales_at(std::span<const double> sizes, int eighths) {
  std::vector<double> scales(sizes.size());
  std::ranges::transform(sizes, scales.begin(), [&](double size) { return power(size, eighths); });
  const double middle = std::sqrt(*std::ranges::max_element(scales) * *std::ranges::min_element(scales));
  std::vector<float> out(scales.size());
  std::ranges::transform(scales, out.begin(), [&](double scale) { return static_cast<float>(scale / middle); });
  return out;
}

// The root of each input's importance; the mean of those that share an output.
std::vector<double> sizes_of(const Fold& fold, const InputFacts& facts) {
  const std::int64_t last = *std::ranges::max_element(fold.outputs);
  std::vector<double> sums(static_cast<std::size_t>(last + 1)), counts(sums.size()), out;
  for (std::size_t i = 0; i < fold.outputs.size(); ++i) {
    const auto output = static_cast<std::size_t>(fold.outputs[i]);
    sums[output] += static_cast<double>(facts.importance[i]);
    counts[output] += 1;
  }
  for (const std::int64_t at : fold.outputs) {
    const auto output = static_cast<std::size_t>(at);
    out.push_back(std::sqrt(sums[output] / counts[output]));
  }
  return out;
}

double squared_error(std::span<const float> exact, std::span<const float> rounded) {
  double sum = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double apart = static_cast<double>(rounded[i]) - static_cast<double>(exact[i]);
    sum += apart * apart;
  }
  return sum;
}

}  // namespace

std::optional<Fold> fold_of(const Graph& graph, const LayerGroup& group, std::span<const std::size_t> layers) {
  if (reads_of(graph, group.input) != static_cast<std::int64_t>(group.nodes.size())) return std::nullopt;
  const Node* const maker = maker_of(graph, group.input);
  if (!maker) return std::nullopt;
  const std::int64_t inputs = graph.value(graph.nodes[group.nodes[0]].inputs[1]).dims[1].size;
  switch (maker->op) {
    case Op::kRmsNorm:
    case Op::kLayerNorm:
      return fold_into_norm(graph, *maker, inputs);
    case Op::kSwiGlu:
      return fold_into_up(graph, *maker, inputs, layers);
    case Op::kAttention:
      return fold_into_values(graph, *maker, inputs, layers);
    default:
      return std::nullopt;
  }
}

std::shared_ptr<const graph::Weight> scaled(const graph::Weight& w, std::span<const float> columns,
                                            std::span<const float> rows, Pool& pool) {
  graph::Tensor out;
  out.shape = w.shape();
  out.shape.dtype = graph::DType::kF32;
  out.data.resize(out.shape.bytes());
  auto* const to = reinterpret_cast<float*>(out.data.data());
  const std::int64_t inputs = out.shape.dims[1];
  pool.run(out.shape.dims[0], [&](std::int64_t n) {
    const std::vector<float> from = row_of(w, n);
    for (std::int64_t k = 0; k < inputs; ++k) {
      float x = from[static_cast<std::size_t>(k)];
      if (!columns.empty()) x *= columns[static_cast<std::size_t>(k)];
      if (!rows.empty()) x /= rows[static_cast<std::size_t>(n)];
      to[n * inputs + k] = x;
    }
  });
  return share(std::move(out));
}

InputFacts divided(const InputFacts& facts, std::span<const float> scales) {
  InputFacts out = facts;
  for (std::size_t i = 0; i < scales.size(); ++i) out.importance[i] /= scales[i] * scales[i];
  for (std::size_t i = 0; i < out.sample.size(); ++i) out.sample[i] /= scales[i % scales.size()];
  return out;
}

std::vector<float> awq_scales(const std::vector<NamedWeight>& weights, const Fold& fold, const InputFacts& facts,
                              const WeightType& type, const Engine& engine) {
  const std::vector<double> sizes = sizes_of(fold, facts);
  std::vector<std::vector<float>> exact;
  exact.reserve(weights.size());
  for (const NamedWeight& each : weights)
    exact.push_back(product(facts.sample, scaled(*each.weight, {}, {}, engine.pool), engine));
  std::vector<float> best;
  double least = INFINITY;
  for (int eighths = 0; eighths <= kEighths; ++eighths) {
    const std::vector<float> scales = scales_at(sizes, eighths);
    const InputFacts now = divided(facts, scales);
    double error = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto w = scaled(*weights[i].weight, scales, {}, engine.pool);
      const SharedLayer layer =
          share(round_as(*fitting(type, w->shape().dims[1]), *w, weights[i].name, engine.pool, now.importance));
      error += squared_error(exact[i], product(now.sample, layer, engine));
    }
    if (!(error < least)) continue;
    least = error;
    best = eighths > 0 ? scales : std::vector<float>();
  }
  return best;
}

}  // namespace mlx::compress
