// Building graphs: shapes, names, and errors that say which node and which shapes.
#include <doctest/doctest.h>

#include "base/error.h"
#include "graph/op_def.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

std::string refusal(auto&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message;
  }
  return "(nothing was refused)";
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("shapes are inferred with symbols kept") {
  const Graph g = sample::cnn();
  CHECK(to_text(g, g.value(g.find("conv1")).dims) == "[batch,12,12,8]");
  CHECK(to_text(g, g.value(g.find("pool1")).dims) == "[batch,6,6,8]");
  CHECK(to_text(g, g.value(g.find("conv2")).dims) == "[batch,3,3,8]");
  CHECK(to_text(g, g.value(g.outputs[0]).dims) == "[batch,4]");
  CHECK_NOTHROW(validate(g));
  CHECK(concrete(g.value(g.find("conv1")), {5}).count() == 5 * 12 * 12 * 8);
}

TEST_CASE("the text table has a line a node, parameters and FLOP for one example") {
  const std::string text = to_text(sample::cnn());
  CAPTURE(text);
  CHECK(says(text, "conv2"));
  CHECK(says(text, "[batch,3,3,8]"));
  CHECK(says(text, "584"));     // conv2: 8·3·3·8 + 8
  CHECK(says(text, "41.5 k"));  // conv1: 2 · 144 · 8 · 18
  const std::string tied = to_text(sample::transformer());
  CAPTURE(tied);
  CHECK(says(tied, "total"));  // the tied table counts once
}

TEST_CASE("errors name node and shapes") {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const ValueId images = g.input("images", DType::kF32, {batch, Dim::of(28), Dim::of(28), Dim::of(3)});
  const ValueId w = g.parameter("w", {Dim::of(8), Dim::of(3), Dim::of(3), Dim::of(4)});
  Attrs conv;
  conv.kernel = {3, 3};
  const std::string channels = refusal([&] { g.add(Op::kConv2d, conv, {images, w}, "conv7"); });
  CAPTURE(channels);
  CHECK(says(channels, "conv7"));
  CHECK(says(channels, "[batch,28,28,3]"));
  CHECK(says(channels, "[8,3,3,4]"));
  CHECK(says(refusal([&] { g.add(Op::kConv2d, conv, {images}, "c"); }), "input 1 is missing"));
  CHECK(says(refusal([&] {
               g.add_shaped(Op::kReshape, {}, {images}, {batch, Dim::of(100)}, "flatten");
             }),
             "[batch,100]"));
  CHECK(says(refusal([&] { g.add(Op::kAdd, {}, {images, w}, "sum"); }), "sum (add)"));
  CHECK(says(refusal([&] { g.parameter("w", {Dim::of(1)}); }), "'w'"));
  CHECK(says(refusal([&] { g.parameter("empty", {Dim::of(0)}); }), "at least 1"));
  CHECK(says(refusal([&] { g.add(Op::kRelu, {}, {99}, "r"); }), "does not exist"));
  const ValueId fitting = g.parameter("fitting", {Dim::of(8), Dim::of(3), Dim::of(3), Dim::of(3)});
  conv.pad = {3, 0, 0, 0};
  CHECK(says(refusal([&] { g.add(Op::kConv2d, conv, {images, fitting}, "c"); }), "padding"));
  CHECK(g.nodes.empty());  // a refused node leaves none behind
}

TEST_CASE("concrete refuses sizes that overflow") {
  Graph g;
  const Dim n = Dim::sym(g.symbol("n"));
  g.input("x", DType::kF32, {n, n, n, n});
  CHECK_THROWS_AS(concrete(g.values[0], {1 << 20}), Error);
  CHECK_THROWS_AS(concrete(g.values[0], {0}), Error);
  CHECK(concrete(g.values[0], {3}).bytes() == 324);
}

TEST_CASE("a value used twice gets both gradients, and what is not trained gets none") {
  Graph g = sample::transformer();
  const TrainingGraph training = to_training(g, {}, 0.0f);
  const Graph& t = training.graph;
  CHECK_NOTHROW(validate(t));
  const ValueId gradient = t.find("tokens.weight.grad");
  REQUIRE(gradient != kNone);
  bool added = false;
  for (const Node& node : t.nodes) added = added || (node.op == Op::kAdd && node.outputs[0] == gradient);
  CHECK(added);
  CHECK(t.find("ids.grad") == kNone);
}

TEST_CASE("only a loss can be differentiated, and only through operations that have a backward") {
  Graph g;
  const ValueId x = g.parameter("x", {Dim::of(2), Dim::of(4)});
  const ValueId p = g.add(Op::kSoftmax, {}, {x}, "p")[0];
  CHECK_THROWS_AS(differentiate(g, p, {x}), Error);
  const ValueId labels = g.input("labels", DType::kS32, {Dim::of(2)});
  const ValueId loss = g.add(Op::kSoftmaxCrossEntropy, {}, {p, labels}, "loss")[0];
  CHECK(says(refusal([&] { differentiate(g, loss, {x}); }), "'p' (softmax)"));
}
