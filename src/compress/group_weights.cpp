// Replaces linear layers one by one; the tensors of a layer are rounded row by row on all threads.

#include "compress/group_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "graph/passes/passes.h"
#include "kernels/half.h"

namespace mlx::compress {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Op;
using graph::ValueId;
using kernels::DType;
using kernels::F16;

constexpr int kMost4 = 7, kLeast4 = -8, kMost8 = 127;

float in_f16(double x) {
  return kernels::widen(kernels::to_f16(static_cast<float>(x)));
}

// To the nearest, of two the even one, within the bounds.
float rounded(float w, float inverse, int least, int most) {
  constexpr float kWhole = 0x1.8p23f;  // numbers of its size have no fraction
  const float near = std::clamp(w * inverse, static_cast<float>(least), static_cast<float>(most));
  return (near + kWhole) - kWhole;
}

// What remains of the squared error of `w` at the best scale for the integers that w · inverse rounds to: that is w·q /
// q·q, and takes (w·q)² / q·q away.
struct Fit {
  double gain = 0, scale = 0;
};
Fit fit_of(std::span<const float> w, float inverse) {
  constexpr std::size_t kSums = 4;
  std::array<double, kSums> wq{}, qq{};  // groups are multiples of four
  for (std::size_t i = 0; i < w.size(); i += kSums)
    for (std::size_t j = 0; j < kSums; ++j) {
      const double q = rounded(w[i + j], inverse, kLeast4, kMost4);
      wq[j] += static_cast<double>(w[i + j]) * q;
      qq[j] += q * q;
    }
  const double product = (wq[0] + wq[1]) + (wq[2] + wq[3]), square = (qq[0] + qq[1]) + (qq[2] + qq[3]);
  return square > 0 ? Fit{product * product / square, product / square} : Fit{};
}

// The integer that the largest weight becomes is tried around -8, as that reaches further than 7.
float scale_of_4(std::span<const float> w, float largest) {
  constexpr int kTries = 8;
  Fit best;
  for (int i = -kTries; i <= kTries; ++i) {
    const Fit fit = fit_of(w, (static_cast<float>(kLeast4) + 0.1f * static_cast<float>(i)) / largest);
    if (fit.gain > best.gain) best = fit;
  }
  return in_f16(best.scale);
}

kernels::Shape shape_of(DType dtype, std::int64_t rows, std::int64_t columns) {
  kernels::Shape shape;
  shape.dtype = dtype;
  shape.rank = 2;
  shape.dims[0] = rows, shape.dims[1] = columns;
  return shape;
}

graph::Tensor tensor_of(const kernels::Shape& shape) {
  graph::Tensor tensor;
  tensor.shape = shape;
  tensor.data.resize(shape.bytes());
  return tensor;
}

std::vector<float> row_of(const graph::Weight& weights, std::int64_t row) {
  const std::int64_t k = weights.shape().dims[1];
  std::vector<float> out(static_cast<std::size_t>(k));
  const auto widen_all = [&]<typename T>(const T* from) {
    for (std::int64_t i = 0; i < k; ++i) out[static_cast<std::size_t>(i)] = kernels::widen(from[row * k + i]);
  };
  const std::uint8_t* const data = weights.data().data();
  switch (weights.shape().dtype) {
    case DType::kBF16:
      widen_all(reinterpret_cast<const kernels::BF16*>(data));
      break;
    case DType::kF16:
      widen_all(reinterpret_cast<const F16*>(data));
      break;
    default:
      widen_all(reinterpret_cast<const float*>(data));
  }
  return out;
}

struct RoundedLayer {
  graph::Tensor weights, scales;
};

RoundedLayer round_layer(const graph::Weight& from, const std::string& name, const Groups& groups, Pool& pool) {
  const std::int64_t n = from.shape().dims[0], k = from.shape().dims[1], count = k / groups.size;
  RoundedLayer out{tensor_of(groups.bits == 4 ? shape_of(DType::kU8, n, k / 2) : shape_of(DType::kS8, n, k)),
                   tensor_of(shape_of(DType::kF16, count, n))};
  auto* const scales = reinterpret_cast<F16*>(out.scales.data.data());
  pool.run(n, [&](std::int64_t row) {
    const std::vector<float> w = row_of(from, row);
    std::vector<std::int8_t> q(w.size());
    for (std::int64_t group = 0; group < count; ++group) {
      const auto at = static_cast<std::size_t>(group * groups.size), size = static_cast<std::size_t>(groups.size);
      const std::span<const float> part = std::span(w).subspan(at, size);
      const float scale = round_group(part, groups.bits, std::span(q).subspan(at, size));
      if (!std::isfinite(scale)) fail(ErrorKind::kCorrupt, "'{}' has weights that are not finite, or too large", name);
      scales[group * n + row] = kernels::to_f16(scale);
    }
    std::uint8_t* to = out.weights.data.data() + row * (groups.bits == 4 ? k / 2 : k);
    if (groups.bits == 8)
      std::memcpy(to, q.data(), q.size());
    else
      for (std::size_t i = 0; i < q.size(); i += 2) *to++ = static_cast<std::uint8_t>((q[i] + 8) | (q[i + 1] + 8) << 4);
  });
  return out;
}

// A linear layer with weights of its own kind: parameters in f32, whole groups.
bool can_be_rounded(const Graph& graph, const Node& node, const Groups& groups) {
  if (node.op != Op::kLinear || node.attrs.activation != kernels::Activation::kNone || node.outputs.size() > 1)
    return false;
  const graph::Value& weights = graph.value(node.inputs[1]);
  return weights.role == graph::Role::kParameter && weights.dtype == DType::kF32 &&
         weights.dims[1].size % groups.size == 0;
}

}  // namespace

float round_group(std::span<const float> w, int bits, std::span<std::int8_t> q) {
  const auto larger = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
  const float largest = *std::ranges::max_element(w, larger);
  const bool finite = std::ranges::all_of(w, [](float x) { return std::isfinite(x); });
  if (!finite) return std::nanf("");
  float scale = 0;
  if (largest != 0) scale = bits == 4 ? scale_of_4(w, largest) : in_f16(std::fabs(largest) / kMost8);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  for (std::size_t i = 0; i < w.size(); ++i)
    q[i] = static_cast<std::int8_t>(bits == 4 ? rounded(w[i], inverse, kLeast4, kMost4)
                                              : rounded(w[i], inverse, -kMost8, kMost8));
  return scale;
}

GroupedWeights group_weights(const nn::Model& model, const Groups& groups, Pool& pool) {
  CHECK((groups.bits == 4 || groups.bits == 8) && groups.size > 0 && groups.size % 32 == 0);
  nn::Model out = model;
  Graph& graph = out.graph;
  graph::Weights::Map weights = model.weights->all();
  std::int64_t layers = 0, left = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != Op::kLinear) continue;
    if (!can_be_rounded(graph, graph.nodes[i], groups)) {
      ++left;
      continue;
    }
    const Node layer = graph.nodes[i];
    const std::string of = graph.value(layer.inputs[1]).name, name = layer.name + ".groups";
    RoundedLayer made = round_layer(*model.weights->find(of), of, groups, pool);
    const auto add = [&](const std::string& as, graph::Tensor& tensor) {
      const kernels::Shape& shape = tensor.shape;
      const ValueId id =
          graph.parameter(as, {graph::Dim::of(shape.dims[0]), graph::Dim::of(shape.dims[1])}, shape.dtype);
      auto bytes = std::make_shared<const Bytes>(std::move(tensor.data));
      weights[as] = std::make_shared<const graph::Weight>(shape, *bytes, graph::Backing{bytes});
      return id;
    };
    const ValueId w = add(name, made.weights), scales = add(name + ".scales", made.scales);
    const ValueId bias = layer.inputs.size() > 2 ? layer.inputs[2] : kNone;
    Node& node = graph.nodes[i];
    node.op = Op::kLinearGroups;
    node.attrs = {};
    node.inputs = {layer.inputs[0], w, scales};
    if (bias != kNone) node.inputs.push_back(bias);
    ++layers;
  }
  if (layers == 0) fail(ErrorKind::kUsage, "the model has no linear layer whose inputs are groups of {}", groups.size);
  graph = graph::remove_dead(graph);
  std::erase_if(weights, [&](const auto& entry) { return graph.find(entry.first) == kNone; });
  out.weights = std::make_shared<const graph::Weights>(std::move(weights));
  out.precision = groups.bits == 4 ? "int4" : "int8";
  return {std::move(out), layers, left};
}

}  // namespace mlx::compress
