// Frozen parameters: no gradient, no optimizer state, no backward below what is trained, and the same bits for the
// rest.
#include <doctest/doctest.h>

#include <algorithm>

#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

const std::vector<std::string> kBelow{"conv1.weight", "norm1.gamma", "norm1.beta", "conv2.weight", "conv2.bias"};

Tensors trained(const Graph& forward, int steps) {
  const TrainingGraph training = to_training(forward, {}, 0);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  options.training = true;
  Pool pool(1);
  Session session(training.graph, sample::random_tensors(sample::cnn()), options, pool);
  const float rate = 0.05f;
  for (int step = 0; step < steps; ++step) {
    const sample::Batch batch = sample::images(16, 100 + static_cast<std::uint64_t>(step));
    session.run({{training.graph.find("images"), batch.images.data(), {16, 12, 12, 2}},
                 {training.labels, batch.labels.data(), {16}},
                 {training.learning_rate, &rate, {1}}},
                static_cast<std::uint64_t>(step));
  }
  return session.tensors();
}

}  // namespace

TEST_CASE("nothing is done for what is frozen below the first trained layer") {
  const Graph frozen = freeze(sample::cnn(), kBelow);
  CHECK_NOTHROW(validate(frozen));
  const Graph graph = to_training(frozen, {}, 0).graph;
  CHECK(sample::count_of(graph, Op::kConv2dBackwardWeights) == 0);
  CHECK(sample::count_of(graph, Op::kConv2dBackwardData) == 0);
  CHECK(sample::count_of(graph, Op::kMaxPoolBackward) == 0);
  CHECK(sample::count_of(graph, Op::kBatchNorm) == 0);
  CHECK(sample::count_of(graph, Op::kBatchNormInference) == 1);
  CHECK(sample::count_of(graph, Op::kLinearBackwardWeights) == 2);
  CHECK(sample::count_of(graph, Op::kLinearBackwardData) == 1);
  CHECK(sample::count_of(graph, Op::kSgd) == 4);
  CHECK(graph.find("conv1.weight.velocity") == kNone);
  CHECK(graph.find("dense1.weight.velocity") != kNone);
}

TEST_CASE("what is frozen keeps its bits, running statistics below it too, and the rest is trained") {
  const Tensors before = sample::random_tensors(sample::cnn());
  const Tensors after = trained(freeze(sample::cnn(), kBelow), 3);
  for (const std::string& name : kBelow) CHECK_MESSAGE(after.at(name).data == before.at(name).data, name);
  CHECK(after.at("norm1.mean").data == before.at("norm1.mean").data);
  CHECK(after.at("norm1.variance").data == before.at("norm1.variance").data);
  CHECK(after.at("dense1.weight").data != before.at("dense1.weight").data);
  CHECK(after.at("dense2.bias").data != before.at("dense2.bias").data);
}

TEST_CASE("a batch norm above trained parameters uses the batch's statistics, frozen or not") {
  const Tensors before = sample::random_tensors(sample::cnn());
  const Tensors after = trained(freeze(sample::cnn(), {"norm1.gamma", "norm1.beta", "dense2.weight"}), 3);
  CHECK(after.at("norm1.gamma").data == before.at("norm1.gamma").data);
  CHECK(after.at("dense2.weight").data == before.at("dense2.weight").data);
  CHECK(after.at("norm1.mean").data != before.at("norm1.mean").data);
  CHECK(after.at("conv1.weight").data != before.at("conv1.weight").data);
}

TEST_CASE("freezing nothing changes nothing") {
  const Tensors plain = trained(sample::cnn(), 2), frozen = trained(freeze(sample::cnn(), {}), 2);
  for (const auto& [name, tensor] : plain) CHECK_MESSAGE(tensor.data == frozen.at(name).data, name);
}
