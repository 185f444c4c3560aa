// Which launches a layer with gelu and its gradient take: of cuBLASLt's product alone where that takes the problem, of
// a second one behind it where it does not.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "probe.h"
#include "tests/graph/sample.h"

namespace mlx::graph {
namespace {

constexpr std::int64_t kBatch = 8;

// features[batch,16] → a layer of `width`, gelu, four classes.
Graph perceptron(std::int64_t width) {
  Graph g;
  const ValueId x = g.input("features", DType::kF32, {Dim::sym(g.symbol("batch")), Dim::of(16)});
  const auto linear = [&](ValueId in, std::int64_t out, const std::string& name) {
    return g.add(Op::kLinear, {}, {in, g.parameter(name + ".weight", {Dim::of(out), g.value(in).dims.back()})},
                 name)[0];
  };
  g.outputs = {linear(g.add(Op::kGelu, {}, {linear(x, width, "up")}, "gelu")[0], 4, "down")};
  return g;
}

// Launches of each node in one step, by its name.
std::map<std::string, std::size_t> launches_of(std::int64_t width, Precision precision) {
  const TrainingGraph training = to_training(perceptron(width), {}, LossSpec{}, {precision, sample::gpu()});
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::cuda_backend();
  options.training = true;
  Session session(training.graph, sample::random_tensors(training.graph), options, pool);
  const std::vector<float> features = sample::random_floats(kBatch * 16, 5);
  const std::vector<std::int32_t> labels{0, 1, 2, 3, 0, 1, 2, 3};
  const float rate = 0.1f;
  std::map<std::string, std::size_t> launches;
  std::size_t before = emulation::counts().launches;
  RunOptions run;
  run.after = [&](std::size_t node) {
    const std::size_t now = emulation::counts().launches;
    launches[training.graph.nodes[node].name] = now - before;
    before = now;
    return true;
  };
  session.run({{training.graph.find("features"), features.data(), {kBatch, 16}},
               {training.labels, labels.data(), {kBatch}},
               {training.learning_rate, &rate, {1}}},
              run);
  session.wait();
  return launches;
}

}  // namespace

TEST_CASE("gelu and its gradient are part of cuBLASLt's products in half, and behind them where it declines") {
  for (const Precision precision : {Precision::kBF16, Precision::kF16}) {
    const auto whole = launches_of(24, precision), narrow = launches_of(20, precision);  // of 8 elements and not
    for (const char* name : {"up", "down.backward_data"}) {
      CAPTURE(std::string(name));
      CHECK(whole.at(name) == 1);
      CHECK(narrow.at(name) == 2);
    }
    CHECK_FALSE(whole.contains("gelu"));
    CHECK_FALSE(whole.contains("gelu.backward"));
  }
  // Of f32 the library's gelu is not wanted.
  for (const char* name : {"up", "down.backward_data"}) CHECK(launches_of(24, Precision::kF32).at(name) == 2);
}

}  // namespace mlx::graph
