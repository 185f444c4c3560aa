// Kernels that take many tensors at once: a session's steps side by side go in few launches, with the bits of one by
// one.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "probe.h"
#include "tests/graph/sample.h"

namespace mlx::graph {
namespace {

constexpr std::int64_t kLayers = 40, kWidth = 12, kRows = 8;

// More parameters than one launch takes, of sizes that fill no block and, at the end, several.
Graph deep() {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  ValueId x = g.input("features", DType::kF32, {batch, Dim::of(kWidth)});
  const auto linear = [&](std::int64_t in, std::int64_t out, const std::string& name) {
    const ValueId w = g.parameter(name + ".weight", {Dim::of(out), Dim::of(in)});
    return g.add(Op::kLinear, {}, {x, w, g.parameter(name + ".bias", {Dim::of(out)})}, name)[0];
  };
  for (std::int64_t i = 0; i < kLayers; ++i) x = linear(kWidth, kWidth, fmt::format("layer{}", i));
  x = linear(kWidth, 900, "wide");
  g.outputs = {linear(900, 5, "head")};
  return g;
}

struct Ran {
  Tensors tensors;
  std::size_t launches = 0;  // of the first step
};

Ran train(const TrainingGraph& training, bool one_by_one) {
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::cuda_backend();
  options.training = true;
  Session session(training.graph, sample::random_tensors(training.graph), options, pool);
  const std::vector<float> features = sample::random_floats(static_cast<std::size_t>(kRows * kWidth), 7);
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 4, 0, 1, 2};
  const float rate = 0.01f, average[2] = {0.9f, 0.1f};
  std::vector<Feed> feeds{{training.graph.find("features"), features.data(), {kRows, kWidth}},
                          {training.labels, labels.data(), {kRows}},
                          {training.learning_rate, &rate, {1}}};
  if (training.average != kNone) feeds.push_back({training.average, average, {2}});
  Ran ran;
  for (std::uint64_t step = 0; step < 4; ++step) {
    RunOptions run;
    run.step = step;
    if (one_by_one) run.after = [](std::size_t) { return true; };
    const std::size_t before = emulation::counts().launches;
    session.run(feeds, run);
    session.wait();
    if (step == 0) ran.launches = emulation::counts().launches - before;
  }
  ran.tensors = session.tensors();
  return ran;
}

std::size_t nodes_of(const Graph& graph, auto&& counts) {
  return static_cast<std::size_t>(std::ranges::count_if(graph.nodes, counts));
}

}  // namespace

TEST_CASE("together: updates and casts of many parameters in few launches, with the same bits") {
  for (const char* name : {"sgd", "adamw", "lion"}) {
    for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
      CAPTURE(name);
      CAPTURE(static_cast<int>(precision));
      OptimizerSpec spec;
      spec.name = name;
      spec.weight_decay = 0.1f;  // of matrices only
      spec.clip = precision == Precision::kBF16 ? 1.0f : 0.0f;
      spec.average = precision == Precision::kBF16;
      const TrainingGraph training = to_training(deep(), spec, LossSpec{}, {precision, sample::gpu()});
      const Ran together = train(training, false), alone = train(training, true);
      REQUIRE(together.tensors.size() == alone.tensors.size());
      for (const auto& [tensor, value] : alone.tensors) {
        CAPTURE(tensor);
        CHECK(together.tensors.at(tensor).data == value.data);
      }
      const Graph& g = training.graph;
      const std::size_t updates = nodes_of(g, [](const Node& node) { return node.name.ends_with(".update"); });
      const std::size_t casts = nodes_of(g, [&](const Node& node) {
        return node.op == Op::kCast && g.value(node.inputs[0]).role == Role::kParameter;
      });
      CHECK(updates == 2 * (kLayers + 2));
      CHECK(casts == (precision == Precision::kBF16 ? kLayers + 2 : 0));
      const std::size_t update_launches = (updates + 63) / 64, cast_launches = (casts + 63) / 64;
      CHECK(alone.launches - together.launches >= updates - update_launches + casts - cast_launches);
    }
  }
}

}  // namespace mlx::graph
