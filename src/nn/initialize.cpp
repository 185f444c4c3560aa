// Initial values of parameters and states. The operation that uses a tensor determines its kind.
//
// Normal numbers are Philox bits through Box-Muller (1958), with our own logarithm, sine and cosine in double precision
// and without fused multiply-adds: the same bits on every x86-64, whatever the C library.

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "graph/op_def.h"
#include "kernels/philox.h"
#include "nn/family.h"

namespace mlx::nn {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::StartValue;
using graph::ValueId;

// ln u for u in (0, 1]: u = m · 2^e with m around 1, ln m = 2 artanh((m - 1) / (m + 1)).
double natural_log(double u) {
  constexpr double kLn2 = 0.693147180559945309417;
  int exponent = 0;
  double m = std::frexp(u, &exponent);  // exact
  if (m < 0.70710678118654752440) m *= 2, --exponent;
  const double s = (m - 1) / (m + 1), square = s * s;
  double series = 0;
  for (int n = 21; n >= 1; n -= 2) series = series * square + 1.0 / n;
  return 2 * s * series + exponent * kLn2;
}

struct Turn {
  double cosine, sine;
};
// Sine and cosine of 2π·u, u in [0, 1): Taylor series in the first quadrant, then rotated.
Turn turn(double u) {
  constexpr double kHalfPi = 1.57079632679489661923;
  const int quadrant = static_cast<int>(u * 4);
  const double angle = (u * 4 - quadrant) * kHalfPi, square = angle * angle;
  double cosine = 1, sine = 1;
  for (int n = 22; n >= 2; n -= 2) {
    cosine = 1 - cosine * square / (n * (n - 1));
    sine = 1 - sine * square / (n * (n + 1));
  }
  sine *= angle;
  switch (quadrant) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

// Fills with N(0, deviation²), keyed by (seed, name).
void fill_normal(std::span<float> out, double deviation, std::uint64_t seed, const std::string& name) {
  const Digest digest = Digest::of(name);
  std::uint64_t stream = 0;
  for (std::size_t i = 0; i < 8; ++i) stream |= std::uint64_t{digest.bytes[i]} << (8 * i);
  for (std::size_t begin = 0; begin < out.size(); begin += 4) {
    const auto random = kernels::random_block(seed, stream, 0, begin / 4);
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      const double radius = deviation * std::sqrt(-2 * natural_log((random[pair] + 1.0) * 0x1p-32));
      const Turn direction = turn(random[pair + 1] * 0x1p-32);
      if (begin + pair < out.size()) out[begin + pair] = static_cast<float>(radius * direction.cosine);
      if (begin + pair + 1 < out.size()) out[begin + pair + 1] = static_cast<float>(radius * direction.sine);
    }
  }
}

// The first node that reads `id`, and the index of that input.
struct Use {
  const Node* node = nullptr;
  std::size_t input = 0;
};
Use first_use(const Graph& graph, ValueId id) {
  for (const Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == id) return {&node, i};
    }
  }
  return {};
}

// True if the node's output reaches a rectifier, directly or through norm, dropout and the sum of a residual block.
bool before_rectifier(const Graph& graph, const Node* node) {
  while (node != nullptr) {
    if (node->attrs.activation != kernels::Activation::kNone) return true;
    const Node* const next = first_use(graph, node->outputs[0]).node;
    if (next == nullptr) return false;
    if (graph::op_def(next->op).activation != kernels::Activation::kNone) return true;
    if (next->op != Op::kBatchNorm && next->op != Op::kLayerNorm && next->op != Op::kDropout && next->op != Op::kAdd) {
      return false;
    }
    node = next;
  }
  return false;
}

// True if the node's output is added to a residual, directly or through dropout.
bool is_residual(const Graph& graph, const Node& node) {
  const Node* next = first_use(graph, node.outputs[0]).node;
  if (next != nullptr && next->op == Op::kDropout) next = first_use(graph, next->outputs[0]).node;
  return node.op == Op::kLinear && next != nullptr && next->op == Op::kAdd;
}

// True if the node's output goes into the scale of a low-rank adapter: its weights are the adapter's first matrix.
bool begins_adapter(const Graph& graph, const Node& node) {
  const Node* const next = first_use(graph, node.outputs[0]).node;
  return next != nullptr && next->op == Op::kScaledAdd;
}

// Radford et al. 2019: a sum of n layers' outputs keeps its size if each is divided by the square root of n. The first
// matrix of an adapter has the variance of its authors' code, whatever the width.
double language_deviation(const Graph& graph, const Use& use, const kernels::Shape& shape) {
  if (begins_adapter(graph, *use.node)) return 1 / std::sqrt(3 * static_cast<double>(shape.dims[1]));
  if (!is_residual(graph, *use.node)) return 0.02;
  const auto residual = [&](const Node& node) { return is_residual(graph, node); };
  return 0.02 / std::sqrt(static_cast<double>(std::ranges::count_if(graph.nodes, residual)));
}

// He et al. 2015 before rectifiers, Glorot and Bengio 2010 elsewhere.
double deviation_of(const Graph& graph, const Use& use, const StartValue& start, const kernels::Shape& shape,
                    const std::string& family) {
  if (family == "gpt2" || family == "llama") return language_deviation(graph, use, shape);
  if (start.kind == StartValue::kTable) return 1;  // as PyTorch does for tables in other families
  return before_rectifier(graph, use.node) ? std::sqrt(2 / start.fan_in)
                                           : std::sqrt(2 / (start.fan_in + start.fan_out));
}

StartValue start_of(const Use& use, const kernels::Shape& shape) {
  if (use.node == nullptr) return {};
  const auto start = graph::op_def(use.node->op).start;
  return start ? start(*use.node, use.input, shape) : StartValue{};
}

}  // namespace

graph::Tensors initialize(const Graph& graph, const std::string& family, std::uint64_t seed) {
  graph::Tensors tensors;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const graph::Value& value = graph.values[i];
    if (value.role != graph::Role::kParameter && value.role != graph::Role::kState) continue;
    bool symbolic = false;
    for (const graph::Dim& dim : value.dims) symbolic = symbolic || dim.symbolic();
    if (symbolic) continue;  // a cache: the session creates it
    graph::Tensor& tensor = tensors[value.name];
    tensor.shape = graph::concrete(value, {});
    tensor.data.resize(tensor.shape.bytes());
    const Use use = first_use(graph, static_cast<ValueId>(i));
    const StartValue start = start_of(use, tensor.shape);
    if (start.kind == StartValue::kZero) continue;
    CHECK(value.dtype == kernels::DType::kF32);
    const std::span<float> elements(reinterpret_cast<float*>(tensor.data.data()),
                                    static_cast<std::size_t>(tensor.shape.count()));
    if (start.kind == StartValue::kOne) {
      for (float& element : elements) element = 1.0f;
    } else {
      fill_normal(elements, deviation_of(graph, use, start, tensor.shape, family), seed, value.name);
    }
  }
  return tensors;
}

graph::Tensors initialize(const Built& built, std::uint64_t seed) {
  graph::Tensors tensors = initialize(built.graph, built.family, seed);
  for (const std::string& name : built.zeros) std::ranges::fill(tensors.at(name).data, std::uint8_t{0});
  return tensors;
}

}  // namespace mlx::nn
