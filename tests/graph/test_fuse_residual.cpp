// Residual sums as part of norms in training graphs for GPUs: which nodes come out, that nothing is computed before
// what it reads, and that the values are those of the graph as it is on a CPU.
#include <doctest/doctest.h>

#include <algorithm>

#include "graph/op_def.h"
#include "graph/session/bucket.h"
#include "graph/session/recompute.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

TrainingGraph training_of(const Graph& forward, Precision precision, const kernels::Capabilities& can) {
  return to_training(forward, {"adamw"}, LossSpec{}, {precision, can});
}

const Node& node_of(const Graph& graph, const std::string& name) {
  const auto at = std::ranges::find(graph.nodes, name, &Node::name);
  REQUIRE(at != graph.nodes.end());
  return *at;
}

std::vector<std::string> names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> out;
  for (const ValueId id : ids) out.push_back(graph.value(id).name);
  return out;
}

std::ptrdiff_t sums_in(const Graph& graph) {
  return std::ranges::count(graph.nodes, Op::kAdd, &Node::op);
}
std::ptrdiff_t fused_in(const Graph& graph) {
  return std::ranges::count_if(graph.nodes, adds);
}

// x[batch,8] with weights in front, so that its gradient is wanted; norm gives a layer norm with gamma and beta.
struct Sample {
  Graph g;
  ValueId x = kNone, y = kNone;
  Sample() {
    const ValueId features = g.input("features", DType::kF32, {Dim::sym(g.symbol("batch")), Dim::of(8)});
    x = linear(features, "x");
    y = g.add(Op::kGelu, {}, {x}, "y")[0];
  }
  ValueId linear(ValueId from, const std::string& name) {
    return g.add(Op::kLinear, {}, {from, g.parameter(name + ".weight", {Dim::of(8), Dim::of(8)})}, name)[0];
  }
  ValueId norm(ValueId from) {
    return g.add(Op::kLayerNorm, {},
                 {from, g.parameter("norm.gamma", {Dim::of(8)}), g.parameter("norm.beta", {Dim::of(8)})}, "norm")[0];
  }
  Graph fused(ValueId output) {
    g.outputs = {output};
    const Graph graph = training_of(g, Precision::kF32, sample::gpu()).graph;
    CHECK_NOTHROW(validate(graph));
    return graph;
  }
};

}  // namespace

TEST_CASE("fused residuals: the norms of a transformer take the sums before them and the gradients beside theirs") {
  const Graph forward = sample::transformer(11, 16, 6, 0.0f);
  for (const Precision precision : {Precision::kF32, Precision::kTF32, Precision::kBF16, Precision::kF16}) {
    CAPTURE(static_cast<int>(precision));
    const Graph graph = training_of(forward, precision, sample::gpu()).graph;
    CHECK_NOTHROW(validate(graph));
    CHECK(sums_in(graph) == 1);  // of the gradients of the table that is used twice
    CHECK(fused_in(graph) == 4);
    const Node& norm2 = node_of(graph, "norm2");
    CHECK(names(graph, norm2.inputs) ==
          std::vector<std::string>{"positions", "norm2.gamma", "norm2.beta", "projection"});
    CHECK(names(graph, {norm2.outputs[3]}) == std::vector<std::string>{"add1"});
    CHECK(names(graph, {node_of(graph, "norm3").inputs[0]}) == std::vector<std::string>{"add1"});
    const Node& back2 = node_of(graph, "norm2.backward");
    CHECK(names(graph, {back2.inputs[0]}) == std::vector<std::string>{"add1"});
    CHECK(back2.inputs[5] == node_of(graph, "norm3.backward").outputs[0]);
    CHECK(node_of(graph, "norm1.backward").inputs[5] == back2.outputs[0]);
    CHECK_FALSE(adds(node_of(graph, "norm3.backward")));  // nobody else reads what the last norm does
    CHECK_FALSE(adds(node_of(graph, "norm1")));
    // What only the sum reads is stored in half, the stream of sums never.
    const bool half = precision == Precision::kBF16 || precision == Precision::kF16;
    CHECK(kernels::is_half(graph.value(graph.find("projection")).dtype) == half);
    CHECK(kernels::is_half(graph.value(graph.find("down")).dtype) == half);
    CHECK(graph.value(graph.find("add1")).dtype == DType::kF32);
    const Graph cpu = training_of(forward, precision == Precision::kF16 ? Precision::kF32 : precision, {}).graph;
    CHECK(fused_in(cpu) == 0);
    CHECK(sums_in(cpu) == 5);
  }
}

TEST_CASE("fused residuals: those of a llama, and what dropout gives stays f32") {
  const Graph graph = training_of(sample::llama(), Precision::kBF16, sample::gpu()).graph;
  CHECK_NOTHROW(validate(graph));
  CHECK(sums_in(graph) == 0);
  CHECK(fused_in(graph) == 8);
  const Node& norm3 = node_of(graph, "norm3");
  CHECK(names(graph, norm3.inputs) == std::vector<std::string>{"b.add1", "norm3.gamma", "b.down"});
  CHECK(graph.value(norm3.inputs[2]).dtype == DType::kBF16);
  const Graph dropped = training_of(sample::transformer(11, 16, 6, 0.1f), Precision::kBF16, sample::gpu()).graph;
  CHECK_NOTHROW(validate(dropped));
  CHECK(names(dropped, {node_of(dropped, "norm2").inputs[3]}) == std::vector<std::string>{"dropout"});
  CHECK(dropped.value(dropped.find("dropout")).dtype == DType::kF32);
}

TEST_CASE("fused residuals: training has the bits of the graph without") {
  // Not of a transformer with gelu, which ref takes of the unrounded sum where it is part of the product.
  const TrainingGraph plain = training_of(sample::llama(), Precision::kF32, {});
  const TrainingGraph fused = training_of(sample::llama(), Precision::kF32, sample::gpu());
  REQUIRE(fused_in(fused.graph) >= 4);
  const Tensors expected = sample::trained_on_ids(plain, kernels::backend_named("ref")),
                got = sample::trained_on_ids(fused, kernels::backend_named("ref"));
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, tensor] : expected) CHECK_MESSAGE(got.at(name).data == tensor.data, name);
}

TEST_CASE("fused residuals: a sum that is read before the norm stays, one that is read after it is fused") {
  for (const bool before : {false, true}) {
    CAPTURE(before);
    Sample block;
    Graph& g = block.g;
    const ValueId sum = g.add(Op::kAdd, {}, {block.x, block.y}, "sum")[0];
    ValueId other = before ? block.linear(sum, "other") : kNone;
    const ValueId norm = block.norm(sum);
    if (!before) other = block.linear(sum, "other");
    const Graph graph = block.fused(g.add(Op::kScaledAdd, {}, {norm, other}, "out")[0]);
    CHECK(adds(node_of(graph, "norm")) == !before);
    // The gradient of the sum comes before or behind the norm's: then that moves down to it.
    CHECK(adds(node_of(graph, "norm.backward")));
    const auto at = [&](const std::string& name) { return &node_of(graph, name) - graph.nodes.data(); };
    CHECK(at("other.backward_data") < at("norm.backward"));
  }
}

TEST_CASE("fused residuals: not a sum with an activation, nor one that a norm only uses as a scale") {
  Sample block;
  Attrs relu;
  relu.activation = Activation::kRelu;
  const ValueId sum = block.g.add(Op::kAdd, relu, {block.x, block.y}, "sum")[0];
  CHECK_FALSE(adds(node_of(block.fused(block.norm(sum)), "norm")));

  Sample scaled;
  Graph& g = scaled.g;
  const ValueId gamma =
      g.add(Op::kAdd, {}, {g.parameter("a", {Dim::of(8)}), g.parameter("b", {Dim::of(8)})}, "gamma")[0];
  const ValueId norm = g.add(Op::kRmsNorm, {}, {scaled.x, gamma}, "norm")[0];
  CHECK_FALSE(adds(node_of(scaled.fused(norm), "norm")));
}

TEST_CASE("fused residuals need no more memory, and parts end where the residual stream is passed on") {
  const std::vector<std::int64_t> sizes{16, 24};
  OptimizerSpec clipped;
  clipped.clip = 1.0f;  // updates come last on a CPU too
  const Graph forward = sample::llama(11, 32, 64);
  const TrainingGraph fused = to_training(forward, clipped, LossSpec{}, {Precision::kF32, sample::gpu()});
  const TrainingGraph plain = to_training(forward, clipped, LossSpec{}, {Precision::kF32});
  const auto wanted = [&](const TrainingGraph& training) {
    return planned_memory(training.graph, sizes, kernels::backend_named("ref"), true).arena;
  };
  const auto least = [&](const TrainingGraph& training) {
    return fit_memory(training, sizes, kernels::backend_named("ref"), 0).memory.arena;
  };
  MESSAGE("arena " << wanted(fused) << " instead of " << wanted(plain) << ", at least " << least(fused)
                   << " instead of " << least(plain));
  CHECK(wanted(fused) <= wanted(plain));
  CHECK(least(fused) <= least(plain) * 105 / 100);  // where a norm adds, both that it adds are there with the sum and y
  CHECK(least(fused) < wanted(fused) * 3 / 4);
  const TrainingGraph training = training_of(sample::transformer(), Precision::kF32, sample::gpu());
  std::vector<std::string> last;
  for (const NodeRange& part : recomputable_parts(training)) last.push_back(training.graph.nodes[part.end - 1].name);
  CHECK(last == std::vector<std::string>{"tokens", "positions", "dropout", "down", "norm3", "logits"});
}
