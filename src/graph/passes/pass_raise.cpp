// From the primitive operations of an imported graph to core operations that compute the same. Core operations are
// fused, quantized, multiplied in half precision and run by every device. What fits no pattern stays unchanged.

#include <algorithm>
#include <optional>
#include <utility>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace mlx::graph {
namespace {

using kernels::Arithmetic;
using kernels::IntList;

struct Raising {
  Graph graph;
  const Weights& weights;
  std::vector<int> uses;
  std::vector<char> merged;           // nodes that are now part of another one
  std::vector<std::string> turned{};  // weights that were [K,N] and are now [N,K]
};

int uses_of(const Raising& r, ValueId id) {
  return r.uses[static_cast<std::size_t>(id)];
}

// True for f32 values that no inference step changes and whose data is available.
bool is_weight(const Raising& r, ValueId id) {
  const Value& value = r.graph.value(id);
  if (value.role != Role::kParameter && value.role != Role::kConstant) return false;
  const std::shared_ptr<const Weight> weight = r.weights.find(value.name);
  return value.dtype == DType::kF32 && weight && weight->shape() == concrete(value, {}) && weight->shape().count() > 0;
}

// The index of the node that alone reads `value`; nodes.size() if there is none.
std::size_t only_reader(const Raising& r, ValueId value) {
  const auto reads = [&](const Node& node) { return std::ranges::find(node.inputs, value) != node.inputs.end(); };
  const auto found = std::ranges::find_if(r.graph.nodes, reads);
  return uses_of(r, value) == 1 ? static_cast<std::size_t>(found - r.graph.nodes.begin()) : r.graph.nodes.size();
}

bool swaps_two(const Node& node) {
  return node.op == Op::kTranspose && node.attrs.axes.count == 2 && node.attrs.axes.at[0] == 1;
}

// The second factor of a product, if it is a matrix of weights, possibly transposed by a separate node.
struct Matrix {
  ValueId weights = kNone;
  bool by_output = false;     // stored as [N,K], as in linear layers
  std::size_t transpose = 0;  // the node between them, if nothing else reads it; nodes.size() if there is none
};
std::optional<Matrix> matrix_of(const Raising& r, const Node& product) {
  const std::size_t none = r.graph.nodes.size();
  Matrix matrix{product.inputs[1], product.attrs.transpose_b, none};
  bool alone = uses_of(r, matrix.weights) == 1;
  const std::size_t before = producer(r.graph, matrix.weights);
  if (before < none && swaps_two(r.graph.nodes[before])) {
    matrix = {r.graph.nodes[before].inputs[0], !matrix.by_output, alone ? before : none};
    alone = alone && uses_of(r, matrix.weights) == 1;
  }
  const bool fits = is_weight(r, matrix.weights) && r.graph.value(matrix.weights).dims.size() == 2;
  if (!fits || !(matrix.by_output || alone)) return std::nullopt;  // others read it as it is stored
  return matrix;
}

// What a sum adds to `product`, if it is weights b[N] or b[1,…,N] for the last dimension; kNone otherwise.
ValueId bias_of(const Raising& r, const Node& sum, ValueId product) {
  if (sum.op != Op::kArithmetic || sum.attrs.arithmetic != Arithmetic::kAdd) return kNone;
  const ValueId bias = sum.inputs[0] == product ? sum.inputs[1] : sum.inputs[0];
  if (!is_weight(r, bias)) return kNone;
  const Dims &dims = r.graph.value(bias).dims, &y = r.graph.value(product).dims;
  const bool vector = !dims.empty() && dims.size() <= y.size() && dims.back() == y.back() &&
                      std::all_of(dims.begin(), dims.end() - 1, [](const Dim& dim) { return dim == Dim::of(1); });
  return vector && (dims.size() == 1 || uses_of(r, bias) == 1) ? bias : kNone;
}

// y = x · w + b: replaces the sum by a linear layer.
void raise_product(Raising& r, std::size_t at) {
  const Node product = r.graph.nodes[at];
  if (product.op != Op::kMatmul || product.attrs.transpose_a) return;
  const std::optional<Matrix> matrix = matrix_of(r, product);
  if (!matrix) return;
  Node layer{Op::kLinear, {}, {product.inputs[0], matrix->weights}, product.outputs, product.name};
  const std::size_t sum = only_reader(r, product.outputs[0]);
  const ValueId bias = sum < r.graph.nodes.size() ? bias_of(r, r.graph.nodes[sum], product.outputs[0]) : kNone;
  if (bias != kNone) {
    layer.inputs.push_back(bias);
    layer.outputs = r.graph.nodes[sum].outputs;
    Dims& dims = r.graph.values[static_cast<std::size_t>(bias)].dims;
    dims.erase(dims.begin(), dims.end() - 1);
    r.merged[at] = 1;
  }
  if (matrix->transpose < r.graph.nodes.size()) r.merged[matrix->transpose] = 1;
  if (!matrix->by_output) {
    Value& weights = r.graph.values[static_cast<std::size_t>(matrix->weights)];
    std::swap(weights.dims[0], weights.dims[1]);
    r.turned.push_back(weights.name);
  }
  r.graph.nodes[bias != kNone ? sum : at] = std::move(layer);
}

// The mean over height and width.
void raise_mean(Raising& r, Node& node) {
  if (node.op != Op::kReduce || node.attrs.reduction != kernels::Reduction::kMean || node.attrs.keep_dims) return;
  const Dims& x = r.graph.value(node.inputs[0]).dims;
  const IntList& axes = node.attrs.axes;
  const bool plane = axes.count == 2 && std::min(axes.at[0], axes.at[1]) == 1 && std::max(axes.at[0], axes.at[1]) == 2;
  if (!plane || x.size() != 4) return;
  if (std::ranges::any_of(x.begin() + 1, x.end(), [](const Dim& dim) { return dim.symbolic() || dim.size < 1; }))
    return;
  node.op = Op::kAvgPool;
  node.attrs = {};
}

// A sum of two tensors of one shape.
void raise_sum(Raising& r, Node& node) {
  const bool sum = node.op == Op::kArithmetic && node.attrs.arithmetic == Arithmetic::kAdd;
  if (!sum || r.graph.value(node.inputs[0]).dims != r.graph.value(node.inputs[1]).dims) return;
  node.op = Op::kAdd;
  node.attrs = {};
}

// Transposes [K,N] to [N,K].
std::shared_ptr<const Weight> turn(const Weight& weight, const kernels::Shape& shape) {
  const std::int64_t rows = shape.dims[0], columns = shape.dims[1];
  const auto data = std::make_shared<Bytes>(shape.bytes());
  const auto* const from = reinterpret_cast<const float*>(weight.data().data());
  auto* const to = reinterpret_cast<float*>(data->data());
  constexpr std::int64_t kTile = 32;
  for (std::int64_t tile = 0; tile < columns; tile += kTile) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = tile; i < std::min(tile + kTile, columns); ++i)
        to[row * columns + i] = from[i * rows + row];
    }
  }
  return std::make_shared<const Weight>(shape, *data, Backing{data});
}

// The weights that the graph names, in the graph's shapes.
std::shared_ptr<const Weights> weights_of(const Raising& r) {
  Weights::Map all;
  for (const Value& value : r.graph.values) {
    const std::shared_ptr<const Weight> old = outlives_step(value.role) ? r.weights.find(value.name) : nullptr;
    if (!old) continue;
    const bool turned = std::ranges::find(r.turned, value.name) != r.turned.end();
    const bool shorter = old->shape().rank > static_cast<int>(value.dims.size());  // a bias without its leading ones
    all[value.name] = turned    ? turn(*old, concrete(value, {}))
                      : shorter ? std::make_shared<const Weight>(concrete(value, {}), old->data(), Backing{old})
                                : old;
  }
  return std::make_shared<const Weights>(std::move(all));
}

}  // namespace

WithWeights raise(const Graph& forward, const Weights& weights) {
  Raising r{forward, weights, count_uses(forward), std::vector<char>(forward.nodes.size(), 0)};
  for (std::size_t i = 0; i < r.graph.nodes.size(); ++i) {
    raise_product(r, i);
    raise_mean(r, r.graph.nodes[i]);
  }
  for (Node& node : r.graph.nodes) raise_sum(r, node);
  erase_nodes(r.graph, r.merged);
  remove_unused_values(r.graph);
  std::shared_ptr<const Weights> raised = weights_of(r);
  return {std::move(r.graph), std::move(raised)};
}

}  // namespace mlx::graph
