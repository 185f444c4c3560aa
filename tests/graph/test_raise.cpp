// Primitive operations as core ones: which become what, that the numbers stay, and what stays as it is.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

constexpr std::int64_t kRows = 5;

Attrs adding() {
  Attrs attrs;
  attrs.arithmetic = kernels::Arithmetic::kAdd;
  return attrs;
}
Attrs turning(bool turned = true) {
  Attrs attrs;
  attrs.transpose_b = turned;
  return attrs;
}
Attrs axes(std::initializer_list<std::int64_t> list) {
  Attrs attrs;
  attrs.axes = kernels::int_list(list);
  return attrs;
}
ValueId weights(Graph& g, const char* name, std::vector<std::int64_t> sizes) {
  Dims dims;
  for (const std::int64_t size : sizes) dims.push_back(Dim::of(size));
  return g.parameter(name, dims);
}

// x[rows,4,6] → what `rest` makes of it.
Graph from_x(const std::function<ValueId(Graph&, ValueId)>& rest) {
  Graph g;
  const ValueId x = g.input("x", DType::kF32, {Dim::sym(g.symbol("rows")), Dim::of(4), Dim::of(6)});
  g.outputs = {rest(g, x)};
  return g;
}

std::vector<float> result(const Graph& g, const std::shared_ptr<const Weights>& held) {
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  Session session(g, held, options, pool);
  const std::vector<float> x = sample::random_floats(kRows * 24, 3, 2.0f);
  session.run({{g.find("x"), x.data(), {kRows, 4, 6}}});
  return sample::floats(session.output(g.outputs[0]));
}

std::vector<Op> ops(const Graph& g) {
  std::vector<Op> list;
  for (const Node& node : g.nodes) list.push_back(node.op);
  return list;
}

// Raises `g`: its operations are `expected` then, its result is what it was, and raising it again changes nothing.
WithWeights check_raised(const Graph& g, const std::vector<Op>& expected) {
  const auto held = std::make_shared<const Weights>(sample::random_tensors(g));
  const WithWeights raised = raise(g, *held);
  validate(raised.graph);
  CHECK(ops(raised.graph) == expected);
  const std::vector<float> before = result(g, held), after = result(raised.graph, raised.weights);
  REQUIRE(after.size() == before.size());
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i] == doctest::Approx(before[i]).epsilon(1e-5).scale(1));
  CHECK(ops(raise(raised.graph, *raised.weights).graph) == expected);
  for (const auto& [name, weight] : raised.weights->all()) {
    const Value& value = raised.graph.value(raised.graph.find(name));
    CHECK(weight->shape() == concrete(value, {}));
    const bool same_shape = weight->shape() == held->find(name)->shape();
    if (same_shape) CHECK(weight == held->find(name));  // shared, not copied
  }
  return raised;
}

}  // namespace

TEST_CASE("raise: a product with weights and what is added to it are a linear layer") {
  const auto layer = [](std::vector<std::int64_t> bias, bool first) {
    return from_x([&](Graph& g, ValueId x) {
      const ValueId y = g.add(Op::kMatmul, {}, {x, weights(g, "w", {6, 40})}, "product")[0];
      const ValueId b = weights(g, "b", bias);
      return g.add(Op::kArithmetic, adding(), first ? std::vector{b, y} : std::vector{y, b}, "sum")[0];
    });
  };
  for (const bool first : {false, true}) {
    for (const auto& bias : std::vector<std::vector<std::int64_t>>{{40}, {1, 40}, {1, 1, 40}}) {
      const WithWeights raised = check_raised(layer(bias, first), {Op::kLinear});
      CHECK(raised.graph.nodes[0].inputs.size() == 3);
      CHECK(raised.weights->find("w")->shape().dims[0] == 40);
      CHECK(raised.graph.value(raised.graph.outputs[0]).name == "sum");
    }
  }
}

TEST_CASE("raise: weights that are turned already stay as they are") {
  check_raised(from_x([](Graph& g, ValueId x) {
                 return g.add(Op::kMatmul, turning(), {x, weights(g, "w", {7, 6})}, "y")[0];
               }),
               {Op::kLinear});
  check_raised(from_x([](Graph& g, ValueId x) {
                 const ValueId turned = g.add(Op::kTranspose, axes({1, 0}), {weights(g, "w", {7, 6})}, "turned")[0];
                 return g.add(Op::kMatmul, {}, {x, turned}, "y")[0];
               }),
               {Op::kLinear});
  check_raised(from_x([](Graph& g, ValueId x) {  // turned twice
                 const ValueId turned = g.add(Op::kTranspose, axes({1, 0}), {weights(g, "w", {6, 7})}, "turned")[0];
                 return g.add(Op::kMatmul, turning(), {x, turned}, "y")[0];
               }),
               {Op::kLinear});
}

TEST_CASE("raise: activations that follow are fused as those of other layers are") {
  const Graph g = from_x([](Graph& out, ValueId x) {
    ValueId y = out.add(Op::kMatmul, {}, {x, weights(out, "w", {6, 9})}, "product")[0];
    y = out.add(Op::kArithmetic, adding(), {y, weights(out, "b", {9})}, "sum")[0];
    return out.add(Op::kRelu, {}, {y}, "act")[0];
  });
  const WithWeights raised = check_raised(g, {Op::kLinear, Op::kRelu});
  const WithWeights fused = fuse(raised.graph, *raised.weights);
  CHECK(ops(fused.graph) == std::vector{Op::kLinear});
}

TEST_CASE("raise: means over height and width, and sums of equal shapes") {
  const auto image = [](Graph& g, ValueId x) {
    return g.add_shaped(Op::kReshape, {}, {x}, {g.value(x).dims[0], Dim::of(4), Dim::of(3), Dim::of(2)}, "image")[0];
  };
  Attrs mean = axes({2, 1});
  mean.reduction = kernels::Reduction::kMean;
  check_raised(from_x([&](Graph& g, ValueId x) { return g.add(Op::kReduce, mean, {image(g, x)}, "mean")[0]; }),
               {Op::kReshape, Op::kAvgPool});
  Attrs kept = mean, sum = mean;
  kept.keep_dims = true, sum.reduction = kernels::Reduction::kSum;
  for (const Attrs& other : {kept, sum}) {
    check_raised(from_x([&](Graph& g, ValueId x) { return g.add(Op::kReduce, other, {image(g, x)}, "mean")[0]; }),
                 {Op::kReshape, Op::kReduce});
  }
  check_raised(from_x([&](Graph& g, ValueId x) {
                 const ValueId y = g.add(Op::kGelu, {}, {x}, "gelu")[0];
                 return g.add(Op::kArithmetic, adding(), {x, y}, "sum")[0];
               }),
               {Op::kGelu, Op::kAdd});
}

TEST_CASE("raise: what does not fit a pattern stays") {
  // Weights that are read as they are stored.
  check_raised(from_x([](Graph& g, ValueId x) {
                 const ValueId w = weights(g, "w", {6, 6});
                 const ValueId y = g.add(Op::kMatmul, {}, {x, w}, "once")[0];
                 return g.add(Op::kMatmul, {}, {y, w}, "twice")[0];
               }),
               {Op::kMatmul, Op::kMatmul});
  // A stack of matrices, two activations, a first factor that is turned.
  check_raised(from_x([](Graph& g, ValueId x) {
                 return g.add(Op::kMatmul, {}, {x, weights(g, "w", {1, 6, 3})}, "stack")[0];
               }),
               {Op::kMatmul});
  check_raised(from_x([](Graph& g, ValueId x) {
                 return g.add(Op::kMatmul, turning(), {x, x}, "scores")[0];
               }),
               {Op::kMatmul});
  Attrs turned_first;
  turned_first.transpose_a = true;
  check_raised(from_x([&](Graph& g, ValueId x) {
                 return g.add(Op::kMatmul, turned_first, {x, weights(g, "w", {4, 3})}, "y")[0];
               }),
               {Op::kMatmul});
  // What is added has another shape, is read twice, or is no sum: the product is a layer, and what follows stays.
  const auto followed = [](const std::function<ValueId(Graph&, ValueId)>& by) {
    return from_x([&](Graph& g, ValueId x) {
      return by(g, g.add(Op::kMatmul, {}, {x, weights(g, "w", {6, 3})}, "product")[0]);
    });
  };
  Attrs times;
  times.arithmetic = kernels::Arithmetic::kMul;
  const std::vector<Op> layer_and_more{Op::kLinear, Op::kArithmetic};
  check_raised(followed([](Graph& g, ValueId y) {
                 return g.add(Op::kArithmetic, adding(), {y, weights(g, "b", {4, 1})}, "sum")[0];
               }),
               layer_and_more);
  check_raised(followed([&](Graph& g, ValueId y) {
                 return g.add(Op::kArithmetic, times, {y, weights(g, "b", {3})}, "times")[0];
               }),
               layer_and_more);
  check_raised(followed([](Graph& g, ValueId y) {
                 const ValueId sum = g.add(Op::kArithmetic, adding(), {y, weights(g, "b", {3})}, "sum")[0];
                 return g.add(Op::kScaledAdd, {}, {sum, y}, "both")[0];
               }),
               {Op::kLinear, Op::kArithmetic, Op::kScaledAdd});
}

TEST_CASE("raise: a graph that is trained on keeps what its backward pass needs") {
  const Graph g = from_x([](Graph& out, ValueId x) {
    Attrs window;
    window.kernel = window.stride = {2, 1};
    const Dims dims{out.value(x).dims[0], Dim::of(4), Dim::of(6), Dim::of(1)};
    ValueId y = out.add(Op::kMaxPool, window, {out.add_shaped(Op::kReshape, {}, {x}, dims, "image")[0]}, "pool")[0];
    y = out.add_shaped(Op::kReshape, {}, {y}, {dims[0], Dim::of(12)}, "flat")[0];
    return out.add(Op::kMatmul, {}, {y, weights(out, "w", {12, 3})}, "logits")[0];
  });
  const WithWeights raised = check_raised(g, {Op::kReshape, Op::kMaxPool, Op::kReshape, Op::kLinear});
  CHECK_NOTHROW(to_training(raised.graph, {}, 0.0f));
}

TEST_CASE("bug: an outside model of sgd answered the same request differently each time") {
  Attrs plain;
  plain.momentum = 0;
  const Graph g = from_x([&](Graph& out, ValueId x) {
    const ValueId w = weights(out, "w", {6, 3}), rate = weights(out, "rate", {1});
    const ValueId changed = out.add(Op::kSgd, plain, {w, weights(out, "dw", {6, 3}), kNone, rate}, "update")[0];
    return out.add(Op::kMatmul, {}, {x, changed}, "y")[0];
  });
  CHECK(sample::refusal([&] { to_inference(g); }) ==
        "graph: node 'update' (sgd) changes 'w', which inference must not change");
}
