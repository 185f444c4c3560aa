// Gelu and its gradient as parts of the products before them: which nodes are left, that what is computed stays what it
// was, and what is not fused.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "graph/op_def.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

constexpr std::int64_t kExamples = 6;

ValueId linear(Graph& g, ValueId x, std::int64_t out, const std::string& name) {
  const Dim in = g.value(x).dims.back();
  const ValueId w = g.parameter(name + ".weight", {Dim::of(out), in}), b = g.parameter(name + ".bias", {Dim::of(out)});
  return g.add(Op::kLinear, {}, {x, w, b}, name)[0];
}

// features[batch,12] → a layer of 16, what `middle` makes of it, a layer of 24, gelu, five classes.
Graph perceptron(const std::function<ValueId(Graph&, ValueId)>& middle) {
  Graph g;
  const ValueId x = g.input("features", DType::kF32, {Dim::sym(g.symbol("batch")), Dim::of(12)});
  const ValueId y = linear(g, middle(g, linear(g, x, 16, "a")), 24, "b");
  g.outputs = {linear(g, g.add(Op::kGelu, {}, {y}, "gelu.b")[0], 5, "c")};
  return g;
}
ValueId gelu(Graph& g, ValueId x) {
  return g.add(Op::kGelu, {}, {x}, "gelu.a")[0];
}
ValueId dropout(Graph& g, ValueId x) {
  Attrs attrs;
  attrs.rate = 0.3f;
  attrs.stream = 4;
  return g.add(Op::kDropout, attrs, {x}, "dropout")[0];
}

// The loss and the gradients of all parameters, in that order; products in `half` where that is not f32.
Graph gradients_of(Graph g, DType half) {
  Dims rows = g.value(g.outputs[0]).dims;
  rows.pop_back();
  const ValueId labels = g.input("labels", DType::kS32, rows);
  const ValueId loss = g.add(Op::kSoftmaxCrossEntropy, {}, {g.outputs[0], labels}, "loss")[0];
  std::vector<ValueId> parameters;
  for (std::size_t i = 0; i < g.values.size(); ++i)
    if (g.values[i].role == Role::kParameter) parameters.push_back(static_cast<ValueId>(i));
  g.outputs = {loss};
  for (const ValueId id : differentiate(g, loss, parameters)) g.outputs.push_back(id);
  if (half != DType::kF32) {
    multiply_in_half(g, half, sample::gpu());
    store_in_half(g, half, sample::gpu());
  }
  return remove_dead(g);
}

Graph fused(Graph g) {
  fuse_gelu(g);
  g = remove_dead(g);
  validate(g);
  return g;
}

std::vector<std::vector<float>> results(const Graph& g) {
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  options.training = true;
  Session session(g, sample::random_tensors(g), options, pool);
  const std::vector<float> features = sample::random_floats(kExamples * 12, 3, 2.0f);
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 4, 0};
  session.run({{g.find("features"), features.data(), {kExamples, 12}}, {g.find("labels"), labels.data(), {kExamples}}});
  std::vector<std::vector<float>> all;
  for (const ValueId id : g.outputs) all.push_back(sample::floats(session.output(id)));
  return all;
}

const Node& node(const Graph& g, const std::string& name) {
  const auto found = std::ranges::find(g.nodes, name, &Node::name);
  REQUIRE_MESSAGE(found != g.nodes.end(), name);
  return *found;
}
// Whether the layer gives what its gelu is taken of; whether its gradient goes through a gelu.
bool gives_pre(const Graph& g, const std::string& layer) {
  const Node& n = node(g, layer);
  return n.attrs.activation == Activation::kGelu && n.outputs.size() == 2;
}
bool through_gelu(const Graph& g, const std::string& layer) {
  const Node& n = node(g, layer + ".backward_data");
  return n.attrs.activation == Activation::kGelu && n.inputs.size() == 3;
}

// The same but for what is rounded once less: gelu is taken of sums, and multiplied with sums, that are not stored.
void check_same_results(const Graph& before, const Graph& after, double tolerance) {
  const std::vector<std::vector<float>> wanted = results(before), got = results(after);
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    REQUIRE(got[i].size() == wanted[i].size());
    double apart = 0, size = 0;
    for (std::size_t k = 0; k < wanted[i].size(); ++k) {
      apart = std::max(apart, std::abs(double{got[i][k]} - double{wanted[i][k]}));
      size = std::max(size, std::abs(double{wanted[i][k]}));
    }
    CAPTURE(before.value(before.outputs[i]).name);
    CHECK(size > 0);
    CHECK(apart <= tolerance * size);
  }
}

}  // namespace

TEST_CASE("gelu is part of the layer before it and its gradient of the product before that, in every precision") {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    CAPTURE(kernels::name_of(type));
    const Graph before = gradients_of(perceptron(gelu), type), after = fused(before);
    CHECK(sample::count_of(before, Op::kGelu) == 2);
    CHECK(sample::count_of(before, Op::kGeluBackward) == 2);
    CHECK(after.nodes.size() == before.nodes.size() - 4);
    CHECK(sample::count_of(after, Op::kGelu) + sample::count_of(after, Op::kGeluBackward) == 0);
    for (const char* layer : {"a", "b"}) CHECK(gives_pre(after, layer));
    for (const char* layer : {"b", "c"}) CHECK(through_gelu(after, layer));
    const Node &a = node(after, "a"), &back = node(after, "b.backward_data");
    CHECK(back.inputs[2] == a.outputs[1]);
    for (const ValueId id : {a.outputs[0], a.outputs[1], back.outputs[0]}) CHECK(after.value(id).dtype == type);
    check_same_results(before, after, type == DType::kF32 ? 1e-5 : 0x1p-6);
  }
}

TEST_CASE("a layer whose gelu nobody differentiates gives nothing beside it") {
  const TrainingGraph training =
      to_training(freeze(perceptron(gelu), {"a.weight", "a.bias"}), {}, LossSpec{}, {Precision::kF32, sample::gpu()});
  const Node& a = node(training.graph, "a");
  CHECK(a.attrs.activation == Activation::kGelu);
  CHECK(a.outputs.size() == 1);
  CHECK_FALSE(a.attrs.pre_output);
  CHECK(gives_pre(training.graph, "b"));
  validate(training.graph);
}

TEST_CASE("gelu is not fused through dropout, on either side of it") {
  const Graph inside =
      gradients_of(perceptron([](Graph& g, ValueId x) { return gelu(g, dropout(g, x)); }), DType::kF32);
  Graph after = fused(inside);
  CHECK(node(after, "a").attrs.activation == Activation::kNone);
  CHECK(sample::count_of(after, Op::kGelu) == 1);
  CHECK(through_gelu(after, "b"));  // its gradient is the product's all the same: dropout's is behind
  check_same_results(inside, after, 1e-5);

  const Graph behind =
      gradients_of(perceptron([](Graph& g, ValueId x) { return dropout(g, gelu(g, x)); }), DType::kF32);
  after = fused(behind);
  CHECK(gives_pre(after, "a"));
  CHECK_FALSE(through_gelu(after, "b"));
  CHECK(sample::count_of(after, Op::kGeluBackward) == 1);
  check_same_results(behind, after, 1e-5);
}

TEST_CASE("a gradient that somebody else reads too is written, and gelu's taken of it") {
  // x + gelu(a(x)): both have the gradient that the next layer gives.
  const Graph before = gradients_of(perceptron([](Graph& g, ValueId x) {
                                      const ValueId y = linear(g, x, 16, "inner");
                                      return g.add(Op::kAdd, {}, {x, gelu(g, y)}, "sum")[0];
                                    }),
                                    DType::kF32);
  const Graph after = fused(before);
  CHECK(gives_pre(after, "inner"));
  CHECK_FALSE(through_gelu(after, "b"));
  CHECK(through_gelu(after, "c"));
  CHECK(sample::count_of(after, Op::kGeluBackward) == 1);
  check_same_results(before, after, 1e-5);
}

TEST_CASE("what goes into gelu is still there for other readers, and a product that is an output stays one") {
  const Graph shared = gradients_of(perceptron([](Graph& g, ValueId x) {
                                      return g.add(Op::kAdd, {}, {x, gelu(g, x)}, "sum")[0];
                                    }),
                                    DType::kF32);
  const Graph after = fused(shared);
  CHECK(gives_pre(after, "a"));
  CHECK(sample::count_of(after, Op::kGelu) == 0);
  check_same_results(shared, after, 1e-5);

  Graph output = gradients_of(perceptron(gelu), DType::kF32);
  output.outputs.push_back(node(output, "b.backward_data").outputs[0]);
  output.outputs.push_back(node(output, "a").outputs[0]);
  const Graph kept = fused(output);
  CHECK(gives_pre(kept, "a"));
  CHECK_FALSE(through_gelu(kept, "b"));
  CHECK(through_gelu(kept, "c"));
  check_same_results(output, kept, 1e-5);
}

TEST_CASE("what is stored in different types is not fused") {
  // The sum wants f32 of what goes into gelu, the layer behind gelu bf16 of its result.
  const Graph before = gradients_of(perceptron([](Graph& g, ValueId x) {
                                      const ValueId y = linear(g, gelu(g, x), 16, "inner");
                                      return g.add(Op::kAdd, {}, {x, y}, "sum")[0];
                                    }),
                                    DType::kBF16);
  const Graph after = fused(before);
  CHECK(before.value(node(before, "a").outputs[0]).dtype == DType::kF32);
  CHECK(before.value(node(before, "gelu.a").outputs[0]).dtype == DType::kBF16);
  CHECK(node(after, "a").attrs.activation == Activation::kNone);
  CHECK(sample::count_of(after, Op::kGelu) == 1);
  CHECK(gives_pre(after, "b"));
  check_same_results(before, after, 0x1p-6);
}

TEST_CASE("graphs for CPUs keep gelu as it is; those for GPUs are read again from their text") {
  for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
    const Graph cpu = to_training(perceptron(gelu), {}, LossSpec{}, {precision}).graph;
    CHECK(sample::count_of(cpu, Op::kGelu) == 2);
    CHECK(sample::count_of(cpu, Op::kGeluBackward) == 2);
    for (const Node& each : cpu.nodes) CHECK(each.attrs.activation == Activation::kNone);
  }
  for (const Precision precision : {Precision::kF32, Precision::kTF32, Precision::kBF16, Precision::kF16}) {
    const Graph gpu = to_training(perceptron(gelu), {}, LossSpec{}, {precision, sample::gpu()}).graph;
    CHECK(sample::count_of(gpu, Op::kGelu) + sample::count_of(gpu, Op::kGeluBackward) == 0);
    const Graph back = graph_from_json(to_json(gpu), "model.json");
    CHECK(to_json(back) == to_json(gpu));
    CHECK(node(back, "a").attrs.pre_output);
  }
}

TEST_CASE("a pre-activation without gelu is refused") {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const ValueId x = g.input("x", DType::kF32, {batch, Dim::of(8)}), w = g.parameter("w", {Dim::of(4), Dim::of(8)});
  const ValueId dy = g.input("dy", DType::kF32, {batch, Dim::of(4)});
  Attrs without, with;
  without.pre_output = true;
  with.activation = Activation::kGelu;
  CHECK_THROWS_AS(g.add(Op::kLinear, without, {x, w}, "layer"), Error);
  CHECK_THROWS_AS(g.add(Op::kLinearBackwardData, {}, {dy, w, x}, "data"), Error);
  CHECK_THROWS_AS(g.add(Op::kLinearBackwardData, with, {dy, w}, "data"), Error);
  CHECK_THROWS_AS(g.add(Op::kLinearBackwardData, with, {dy, w, dy}, "data"), Error);
  CHECK(g.add(Op::kLinearBackwardData, with, {dy, w, x}, "data").size() == 1);
}
