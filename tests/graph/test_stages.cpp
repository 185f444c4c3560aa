// One forward graph in several stages: where it is cut, what each has, and what a session keeps between its passes.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "graph/passes/passes.h"
#include "graph/session/planner.h"
#include "graph/session/session.h"
#include "graph/session/summary.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

// Blocks of x + up(x)·down; the last is `wide` times as expensive. `tied`: the output layer is the embedding.
Graph residual_net(int blocks, bool tied, std::int64_t wide = 1) {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const ValueId ids = g.input("ids", DType::kS32, {batch});
  const auto weights = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    return g.parameter(name, {Dim::of(out), Dim::of(in)});
  };
  const ValueId tokens = weights("tokens.weight", 11, 8);
  ValueId x = g.add(Op::kEmbedding, {}, {ids, tokens}, "tokens")[0];
  for (int i = 0; i < blocks; ++i) {
    const std::string name = "block" + std::to_string(i);
    const std::int64_t hidden = i + 1 == blocks ? 16 * wide : 16;
    ValueId y = g.add(Op::kLinear, {}, {x, weights(name + ".up.weight", hidden, 8)}, name + ".up")[0];
    y = g.add(Op::kGelu, {}, {y}, name + ".gelu")[0];
    y = g.add(Op::kLinear, {}, {y, weights(name + ".down.weight", 8, hidden)}, name + ".down")[0];
    x = g.add(Op::kAdd, {}, {x, y}, name + ".add")[0];
  }
  g.outputs = {g.add(Op::kLinear, {}, {x, tied ? tokens : weights("head.weight", 11, 8)}, "head")[0]};
  return g;
}

std::vector<std::string> layers(const Graph& forward, int stages) {
  std::vector<std::string> out;
  for (const Stage& stage : cut_into_stages(forward, stages, {1})) {
    const Graph g = stage_graph(forward, stage);
    validate(g);
    const StageLayers of = layers_of(g, stage);
    out.push_back(of.first + " " + of.last);
  }
  return out;
}

std::string refusal(const Graph& graph, int stages) {
  try {
    (void)cut_into_stages(graph, stages, {1});
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
    return error.message;
  }
  return "";
}

std::vector<std::string> parameters_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values)
    if (value.role == Role::kParameter) names.push_back(value.name);
  return names;
}

}  // namespace

TEST_CASE("stages: a graph is cut behind sums, so that the most expensive stage costs least") {
  using Layers = std::vector<std::string>;
  CHECK(layers(residual_net(4, false), 1) == Layers{"tokens head"});
  CHECK(layers(residual_net(4, false), 2) == Layers{"tokens block1.down", "block2.up head"});
  CHECK(layers(residual_net(4, false), 5) == Layers{"tokens block0.down", "block1.up block1.down",
                                                    "block2.up block2.down", "block3.up block3.down", "head head"});
  CHECK(layers(residual_net(4, false, 20), 2) == Layers{"tokens block2.down", "block3.up head"});
  CHECK(layers(residual_net(4, true), 2) == Layers{"tokens block1.down", "block2.up head"});
  CHECK(refusal(residual_net(2, false), 4) ==
        "the model can be cut into 3 stages at most, behind the sums of its residual stream");
}

TEST_CASE("stages: tied weights are the last stage's, and the first has a copy") {
  const Graph forward = residual_net(2, true);
  const std::vector<Stage> stages = cut_into_stages(forward, 2, {1});
  for (const Stage& stage : stages) {
    CHECK(stage.shared == "tokens.weight");
    CHECK(stage.rows == "tokens");
    CHECK(stage.runs == std::vector{1, 0, 1});
    CHECK(stage.run_of.at("tokens.weight") == 0);
    CHECK(stage.run_of.at("block0.up.weight") == 1);
    CHECK(stage.copies("tokens.weight") == (stage.stage == 0));
  }
  const std::vector<std::string> first = parameters_of(stage_graph(forward, stages[0]));
  CHECK(first == std::vector<std::string>{"tokens.weight", "block0.up.weight", "block0.down.weight"});
  CHECK(stages[0].output == "block0.add");
  CHECK(stages[1].input == "block0.add");
  OptimizerSpec optimizer;
  optimizer.accumulate = true;
  const auto training = [&](const Stage& stage) {
    Partition partition;
    partition.stage = stage;
    TrainingGraph out = to_training(stage_graph(forward, stage), optimizer, {}, {}, partition);
    validate(out.graph);
    return out;
  };
  const TrainingGraph of_first = training(stages[0]), of_last = training(stages[1]);
  CHECK(of_first.loss == kNone);
  CHECK(of_first.labels == kNone);
  CHECK(of_first.graph.find("tokens.weight.m") == kNone);
  CHECK(of_first.graph.find("tokens.weight.grad_sum") == kNone);
  CHECK(of_first.stage.late_begin == of_first.update_begin);
  CHECK(of_last.graph.find("tokens.weight.grad_sum") != kNone);
  // Its backward pass ends with what the first stage's gradient is needed for.
  REQUIRE(of_last.stage.late_begin < of_last.update_begin);
  CHECK(of_last.graph.nodes[of_last.stage.late_begin].op == Op::kEmbeddingBackward);
  CHECK(of_last.graph.nodes[of_last.update_begin - 1].name == "tokens.weight.grad_sum");
}

TEST_CASE("stages: weights that other layers share, and running statistics, are refused") {
  Graph shared = residual_net(2, false);
  shared.nodes.back().inputs[1] = shared.find("block0.up.weight");
  CHECK(refusal(shared, 2) == "'block0.up.weight' is shared by layers of different stages");
  Graph with_state = residual_net(2, false);
  with_state.state("mean", {Dim::of(8)});
  CHECK(refusal(with_state, 2) == "the model keeps running statistics: 'mean'");
}

TEST_CASE("stages: what waits for another stage is kept once a micro-batch, and everything else once") {
  const Graph forward = residual_net(3, false);
  const std::vector<Stage> stages = cut_into_stages(forward, 2, {1});
  OptimizerSpec optimizer;
  optimizer.accumulate = true;
  Partition partition;
  partition.stage = stages[0];
  TrainingGraph training = to_training(stage_graph(forward, stages[0]), optimizer, {}, {}, partition);
  const kernels::Backend backend = kernels::best_backend();
  const auto memory = [&](int slots) {
    training.slots = slots;
    return planned_memory(training.graph, {64}, backend, true, training.kept()).arena;
  };
  const std::size_t two = memory(2), three = memory(3), four = memory(4);
  CHECK(four - three == three - two);
  CHECK(three - two > 0);
  CHECK(memory(1) <= two);
}

TEST_CASE("stages: two micro-batches that are under way at once have the gradients of one after the other") {
  const Graph forward = residual_net(3, false);
  const std::vector<Stage> stages = cut_into_stages(forward, 2, {1});
  OptimizerSpec optimizer;
  optimizer.accumulate = true;
  Partition partition;
  partition.stage = stages[0];
  TrainingGraph training = to_training(stage_graph(forward, stages[0]), optimizer, {}, {}, partition);
  training.slots = 2;
  Tensors tensors;
  float next = 0.3f;
  for (const Value& value : training.graph.values) {
    if (value.role != Role::kParameter) continue;
    Tensor tensor{concrete(value, {}), {}};
    for (std::int64_t i = 0; i < tensor.shape.count(); ++i, next = next < 0 ? next + 1.1f : next - 0.7f) {
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&next);
      tensor.data.insert(tensor.data.end(), bytes, bytes + sizeof next);
    }
    tensors[value.name] = std::move(tensor);
  }
  constexpr std::int64_t kBatch = 5;
  const std::array<std::array<std::int32_t, kBatch>, 2> ids{{{1, 2, 3, 4, 5}, {10, 9, 8, 7, 6}}};
  std::vector<float> gradient(kBatch * 8);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 7) - 3;
  const float rate = 0.1f;
  const std::array<float, 2> factors{0.0f, 1.0f};
  Pool pool(1);
  // The sums of gradients after each micro-batch.
  const auto sums = [&](const KeptValues& kept, bool together) {
    SessionOptions options;
    options.training = true;
    options.kept = kept;
    Session session(training.graph, tensors, options, pool);
    const auto run = [&](std::size_t which, bool backward) {
      RunOptions how;
      how.slot = kept.slots > 1 ? static_cast<int>(which) : 0;
      how.first = backward ? training.loss_end : 0;
      how.last = backward ? training.update_begin : training.loss_end;
      session.run({{training.graph.find("ids"), ids[which].data(), {kBatch}},
                   {training.stage.output_gradient, gradient.data(), {kBatch, 8}},
                   {training.learning_rate, &rate, {1}},
                   {training.accumulation, factors.data(), {2}}},
                  how);
    };
    Bytes out;
    const auto take = [&] {
      for (const Value& value : training.graph.values) {
        if (!value.name.ends_with(kGradientSum)) continue;
        const auto* const data = static_cast<const std::uint8_t*>(session.state(value.name));
        out.insert(out.end(), data, data + concrete(value, {}).bytes());
      }
    };
    run(0, false);
    if (together) run(1, false);
    run(0, true), take();
    if (!together) run(1, false);
    run(1, true), take();
    return out;
  };
  const Bytes one_by_one = sums({}, false);
  CHECK(one_by_one.size() > 0);
  CHECK(sums(training.kept(), true) == one_by_one);
  CHECK(sums(training.kept(), false) == one_by_one);
}
