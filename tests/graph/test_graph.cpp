// Building graphs: shapes, names, and errors that say which node and which shapes.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/session/summary.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

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

TEST_CASE("a summary has one row per node, with parameters and FLOP, and counts a shared table once") {
  const Graph g = sample::cnn();
  const Summary summary = summarize(g, {1});
  const auto row = std::ranges::find(summary.layers, "conv2", &LayerRow::name);
  REQUIRE(row != summary.layers.end());
  CHECK(row->operation == "conv2d");
  CHECK(to_text(g, row->output) == "[batch,3,3,8]");
  CHECK(row->parameters == std::vector<std::string>{"conv2.weight", "conv2.bias"});
  CHECK(row->parameter_count == 8 * 3 * 3 * 8 + 8);
  CHECK(summary.layers.front().flops == 2 * 144 * 8 * 18);  // conv1
  CHECK(std::ranges::find(summary.layers, "flatten", &LayerRow::name) == summary.layers.end());
  const std::int64_t parameters = 144 + 16 + 584 + 16 * 72 + 16 + 4 * 16 + 4;
  CHECK(summary.parameters == parameters);
  CHECK(summary.weight_bytes == 4 * static_cast<std::size_t>(parameters + 16));  // and the running statistics
  CHECK(summarize(g, {3}).flops == 3 * summary.flops);

  const Summary tied = summarize(sample::transformer(), {1, 6});
  CHECK(tied.layers.back().name == "logits");
  CHECK(tied.layers.back().parameter_count == 0);
  CHECK(tied.layers.front().parameter_count == 11 * 8);
}

TEST_CASE("the planned arena is the one that a session uses, whatever the weights") {
  const TrainingGraph training = to_training(sample::cnn(), {}, 0);
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  options.training = true;
  Session session(training.graph, sample::random_tensors(training.graph), options, pool);
  const sample::Batch batch = sample::images(6, 1);
  const float rate = 0.01f;
  session.run({{training.graph.find("images"), batch.images.data(), {6, 12, 12, 2}},
               {training.labels, batch.labels.data(), {6}},
               {training.learning_rate, &rate, {1}}});
  CHECK(planned_arena(training.graph, {6}, kernels::backend_named("ref")) == session.arena_bytes());
  CHECK(planned_arena(training.graph, {12}, kernels::backend_named("ref")) > session.arena_bytes());
}

TEST_CASE("errors name node and shapes") {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const ValueId images = g.input("images", DType::kF32, {batch, Dim::of(28), Dim::of(28), Dim::of(3)});
  const ValueId w = g.parameter("w", {Dim::of(8), Dim::of(3), Dim::of(3), Dim::of(4)});
  Attrs conv;
  conv.kernel = {3, 3};
  const std::string channels = sample::refusal([&] { g.add(Op::kConv2d, conv, {images, w}, "conv7"); });
  CAPTURE(channels);
  CHECK(says(channels, "conv7"));
  CHECK(says(channels, "[batch,28,28,3]"));
  CHECK(says(channels, "[8,3,3,4]"));
  CHECK(says(sample::refusal([&] { g.add(Op::kConv2d, conv, {images}, "c"); }), "input 1 is missing"));
  CHECK(says(sample::refusal([&] {
               g.add_shaped(Op::kReshape, {}, {images}, {batch, Dim::of(100)}, "flatten");
             }),
             "[batch,100]"));
  CHECK(says(sample::refusal([&] { g.add(Op::kAdd, {}, {images, w}, "sum"); }), "sum (add)"));
  CHECK(says(sample::refusal([&] { g.parameter("w", {Dim::of(1)}); }), "'w'"));
  CHECK(says(sample::refusal([&] { g.parameter("negative", {Dim::of(-1)}); }), "no size may be negative"));
  CHECK(says(sample::refusal([&] { g.add(Op::kRelu, {}, {99}, "r"); }), "does not exist"));
  const ValueId fitting = g.parameter("fitting", {Dim::of(8), Dim::of(3), Dim::of(3), Dim::of(3)});
  conv.pad = {3, 0, 0, 0};
  CHECK(says(sample::refusal([&] { g.add(Op::kConv2d, conv, {images, fitting}, "c"); }), "padding"));
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

TEST_CASE("a value used twice gets both gradients, and untrained values get none") {
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
  CHECK(says(sample::refusal([&] { differentiate(g, loss, {x}); }), "'p' (softmax)"));
}
