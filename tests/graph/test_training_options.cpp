// Micro-batches, clipping, averages of weights, and the search for the first operation that is not finite.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "graph/session/not_finite.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

SessionOptions ref_training_options() {
  SessionOptions options;
  options.training = true;
  options.backend = kernels::best_backend();
  return options;
}

constexpr std::int64_t kSequences = 8, kTime = 6;

// Ids of kSequences sequences for a step.
std::vector<std::int32_t> ids_of(std::uint64_t step) {
  std::vector<std::int32_t> ids;
  for (std::uint64_t i = 0; i < kSequences * kTime; ++i)
    ids.push_back(static_cast<std::int32_t>(kernels::random_u32(4, step, 4, i) % 11));
  return ids;
}

struct Trainer {
  Trainer(const OptimizerSpec& spec, std::int64_t micro_batches)
      : training(to_training(sample::transformer(11, 8, kTime, 0.0f), spec, 0.0f)),
        start(sample::random_tensors(training.graph)),
        parts(micro_batches),
        session(training.graph, start, ref_training_options(), pool) {}

  // One step; the mean loss over its micro-batches.
  double step(std::uint64_t at) {
    const std::vector<std::int32_t> ids = ids_of(at);
    const std::int64_t rows = kSequences / parts;
    double loss = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const float factors[] = {part == 0 ? 0.0f : 1.0f, 1.0f / static_cast<float>(parts)};
      const float average[] = {0.75f, 0.25f}, rate = 0.05f;
      const std::int32_t* first = ids.data() + part * rows * kTime;
      std::vector<Feed> feeds{{training.graph.find("ids"), first, {rows, kTime}},
                              {training.labels, first, {rows, kTime}},
                              {training.learning_rate, &rate, {1}}};
      if (training.accumulation != kNone) feeds.push_back({training.accumulation, factors, {2}});
      if (training.average != kNone) feeds.push_back({training.average, average, {2}});
      RunOptions options;
      options.step = at;
      if (part + 1 < parts) options.last = training.update_begin;
      session.run(feeds, options);
      loss += double{sample::floats(session.output(training.loss))[0]} / static_cast<double>(parts);
    }
    return loss;
  }
  std::vector<float> tensor(const std::string& name) { return sample::floats(session.tensors().at(name).data); }

  Pool pool{2};
  TrainingGraph training;
  Tensors start;
  std::int64_t parts;
  Session session;
};

const char* const kWeights[] = {"tokens.weight", "qkv.weight", "up.bias", "norm3.gamma"};

}  // namespace

TEST_CASE("micro-batches make the step of the whole batch, with every optimizer, clipped or not") {
  for (const std::string& name : optimizer_names()) {
    if (name == "lion") continue;  // takes the sign of what may be a rounding away from zero
    for (const float clip : {0.0f, 0.5f}) {
      CAPTURE(name);
      CAPTURE(clip);
      OptimizerSpec spec;
      spec.name = name;
      spec.clip = clip;
      spec.weight_decay = 0.01f;
      Trainer whole(spec, 1);
      spec.accumulate = true;
      Trainer parts(spec, 4);
      for (std::uint64_t step = 0; step < 3; ++step)
        CHECK(parts.step(step) == doctest::Approx(whole.step(step)).epsilon(1e-4));
      for (const char* weight : kWeights)
        CHECK_MESSAGE(sample::largest_difference(whole.tensor(weight), parts.tensor(weight)) < 2e-3, weight);
      CHECK(sample::largest_difference(whole.tensor("qkv.weight"), sample::floats(whole.start.at("qkv.weight").data)) >
            0.005);
    }
  }
}

TEST_CASE("clipping scales all gradients by one factor, from their norm together") {
  OptimizerSpec spec;
  spec.momentum = 0;
  spec.nesterov = false;
  Trainer plain(spec, 1);
  spec.clip = 1e6f;
  Trainer loose(spec, 1);
  spec.clip = 0.1f;
  Trainer tight(spec, 1);
  for (Trainer* each : {&plain, &loose, &tight}) each->step(0);
  const double norm = sample::floats(tight.session.output(tight.training.gradient_norm))[0];
  CHECK(norm > 0.2);
  double squares = 0, clipped = 0;
  for (const auto& [name, tensor] : tight.start) {
    const ValueId id = tight.training.graph.find(name);
    if (tight.training.graph.value(id).role != Role::kParameter) continue;
    CHECK(plain.tensor(name) == loose.tensor(name));
    const std::vector<float> before = sample::floats(tensor.data), free = plain.tensor(name), held = tight.tensor(name);
    for (std::size_t i = 0; i < before.size(); ++i) {
      squares += std::pow(double{free[i]} - double{before[i]}, 2);
      clipped += std::pow(double{held[i]} - double{before[i]}, 2);
    }
  }
  CHECK(std::abs(std::sqrt(squares) / (0.05 * norm) - 1) < 1e-4);
  CHECK(std::abs(std::sqrt(clipped) / (0.05 * 0.1) - 1) < 1e-3);
}

TEST_CASE("averages follow the weights after each update") {
  OptimizerSpec spec;
  spec.average = true;
  Trainer trainer(spec, 1);
  std::vector<float> expected(trainer.tensor("up.weight").size(), 0.0f);
  for (std::uint64_t step = 0; step < 3; ++step) {
    trainer.step(step);
    const std::vector<float> weights = trainer.tensor("up.weight");
    for (std::size_t i = 0; i < weights.size(); ++i) expected[i] = 0.75f * expected[i] + 0.25f * weights[i];
  }
  CHECK(sample::largest_difference(trainer.tensor("up.weight.ema"), expected) < 1e-6);
}

TEST_CASE("no parameter is written before the loss is computed") {
  OptimizerSpec spec;
  for (const std::string& name : optimizer_names()) {
    spec.name = name;
    const TrainingGraph training = to_training(sample::cnn(), spec, 0.0f);
    CHECK(training.graph.nodes.at(training.loss_end - 1).name == "loss");
    for (std::size_t i = 0; i < training.loss_end; ++i)
      for (const ValueId id : training.graph.nodes[i].outputs)
        CHECK((id == kNone || training.graph.value(id).role != Role::kParameter));
  }
}

TEST_CASE("the first operation that is not finite is found, in forward and in backward") {
  const TrainingGraph training = to_training(sample::cnn(0.0f), {}, 0.0f);
  Pool pool(2);
  const sample::Batch batch = sample::images(16, 3);
  const float rate = 0.05f;
  const std::vector<Feed> feeds{{training.graph.find("images"), batch.images.data(), {16, 12, 12, 2}},
                                {training.labels, batch.labels.data(), {16}},
                                {training.learning_rate, &rate, {1}}};
  const auto found = [&](const char* name, float value, std::size_t every) {
    Tensors tensors = sample::random_tensors(training.graph);
    Bytes& bytes = tensors.at(name).data;
    for (std::size_t at = 0; at < bytes.size(); at += every * sizeof value)
      std::memcpy(bytes.data() + at, &value, sizeof value);
    Session session(training.graph, tensors, ref_training_options(), pool);
    RunOptions options;
    options.last = training.loss_end;
    session.run(feeds, options);  // as training does before it looks: running statistics are spoiled already
    options.last = SIZE_MAX;
    return find_not_finite(session, feeds, options);
  };
  CHECK_FALSE(found("conv2.weight", 0.01f, 1));
  std::optional<NotFinite> first = found("conv2.weight", 3e38f, 1);
  REQUIRE(first);
  CHECK(first->node == "conv2");
  CHECK(first->op == "conv2d");
  first = found("dense1.weight", std::numeric_limits<float>::quiet_NaN(), 5);
  REQUIRE(first);
  CHECK(first->node.empty());
  CHECK(first->value == "dense1.weight");
}

TEST_CASE("any non-finite state after a step is detected, in place and by a GPU's norm") {
  OptimizerSpec spec;
  spec.name = "adamw";
  Pool pool(2);
  const sample::Batch batch = sample::images(16, 3);
  for (const bool gpu : {false, true}) {
    const TrainingGraph training = to_training(sample::cnn(0.0f), spec, LossSpec{},
                                               {Precision::kF32, gpu ? sample::gpu() : kernels::Capabilities{}});
    CHECK((training.state_norm != kNone) == gpu);
    const float rate = 0.0f;
    const std::vector<Feed> feeds{{training.graph.find("images"), batch.images.data(), {16, 12, 12, 2}},
                                  {training.labels, batch.labels.data(), {16}},
                                  {training.learning_rate, &rate, {1}}};
    const auto finite_with = [&](const std::string& name, float value) {
      Tensors tensors = sample::random_tensors(training.graph);
      Session session(training.graph, tensors, ref_training_options(), pool);
      if (!name.empty()) {
        Bytes bytes = tensors.contains(name) ? tensors.at(name).data : session.tensors().at(name).data;
        std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
        session.set_state(name, bytes);
      }
      session.run(feeds);
      CHECK(std::isfinite(sample::floats(session.output(training.loss))[0]));
      if (gpu)
        CHECK(std::isfinite(sample::floats(session.output(training.state_norm))[0]) == session.state_is_finite());
      return session.state_is_finite();
    };
    CHECK(finite_with("", 0));
    CHECK(finite_with("dense1.weight.m", 1e30f));
    CHECK_FALSE(finite_with("dense1.weight.v", std::numeric_limits<float>::infinity()));
    CHECK_FALSE(finite_with("dense2.bias.m", std::numeric_limits<float>::quiet_NaN()));
    CHECK_FALSE(finite_with("norm1.mean", std::numeric_limits<float>::infinity()));
  }
}
