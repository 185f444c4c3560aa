// Each product is a graph of one node.

#include "compress/products.h"

#include <cmath>

#include "base/error.h"
#include "compress/group_weights.h"
#include "graph/session/session.h"

namespace mlx::compress {
namespace {

using graph::Dim;
using graph::Op;
using graph::ValueId;

std::vector<float> run_layer(std::span<const float> x, std::int64_t inputs, Op op, const graph::Attrs& attrs,
                             const std::vector<std::shared_ptr<const graph::Weight>>& weights, const Engine& engine) {
  const auto rows = static_cast<std::int64_t>(x.size()) / inputs;
  CHECK(rows > 0 && rows * inputs == static_cast<std::int64_t>(x.size()));
  graph::Graph graph;
  graph::Weights::Map map;
  std::vector<ValueId> read{graph.input("x", graph::DType::kF32, {Dim::sym(graph.symbol("rows")), Dim::of(inputs)})};
  for (const auto& weight : weights) {
    const kernels::Shape& shape = weight->shape();
    const std::string name = fmt::format("w{}", read.size());
    graph::Dims dims{Dim::of(shape.dims[0])};
    if (shape.rank > 1) dims.push_back(Dim::of(shape.dims[1]));
    read.push_back(graph.parameter(name, dims, shape.dtype));
    map[name] = weight;
  }
  const ValueId from = read[0], to = graph.add(op, attrs, read, "y")[0];
  graph.outputs = {to};
  graph::SessionOptions options;
  options.backend = engine.backend;
  graph::Session session(graph, std::make_shared<const graph::Weights>(std::move(map)), options, engine.pool);
  session.run({{from, x.data(), {rows, inputs}}});
  const ByteView bytes = session.output(to);
  const auto* const y = reinterpret_cast<const float*>(bytes.data());
  return {y, y + bytes.size() / sizeof(float)};
}

}  // namespace

std::vector<float> product(std::span<const float> x, const std::shared_ptr<const graph::Weight>& weights,
                           const Engine& engine) {
  return run_layer(x, weights->shape().dims[1], Op::kLinear, {}, {weights}, engine);
}

std::vector<float> product(std::span<const float> x, const SharedLayer& layer, const Engine& engine) {
  if (layer.blocks) {
    const std::int64_t blocks = layer.weights->shape().dims[0] / layer.outputs / layer.blocks->bytes;
    return run_layer(x, blocks * layer.blocks->weights, Op::kLinearBlocks, attrs_of_blocks(layer), {layer.weights},
                     engine);
  }
  const std::int64_t inputs = layer.weights->shape().dims[1] * (layer.bits == 4 ? 2 : 1);
  return run_layer(x, inputs, Op::kLinearGroups, {}, {layer.weights, layer.scales}, engine);
}

double relative_error(std::span<const float> exact, std::span<const float> rounded) {
  CHECK(exact.size() == rounded.size());
  double apart = 0, square = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double was = exact[i], is = rounded[i];
    apart += (is - was) * (is - was);
    square += was * was;
  }
  return square > 0 ? std::sqrt(apart / square) : apart > 0 ? 1 : 0;
}

}  // namespace mlx::compress
