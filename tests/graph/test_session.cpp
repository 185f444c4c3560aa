// Sessions: training works and does not depend on threads or memory reuse, shape buckets share state, errors name the
// input.
#include <doctest/doctest.h>

#include <algorithm>

#include "allocations.h"
#include "base/error.h"
#include "sample.h"
#include "tests/kernels/backends.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

struct TrainedCnn {
  std::vector<float> losses;
  Tensors tensors;
};

SessionOptions training_options(kernels::Backend backend = kernels::backend_named("ref")) {
  SessionOptions options;
  options.backend = backend;
  options.training = true;
  options.seed = 42;
  return options;
}

TrainedCnn train_cnn(int steps, int threads, const OptimizerSpec& optimizer, const SessionOptions& options) {
  const TrainingGraph training = to_training(sample::cnn(), optimizer, 0.05f);
  Pool pool(threads);
  Session session(training.graph, sample::random_tensors(training.graph), options, pool);
  const float rate = optimizer.name == "sgd" ? 0.05f : optimizer.name == "lion" ? 0.003f : 0.01f;
  TrainedCnn trained;
  for (int step = 0; step < steps; ++step) {
    const std::int64_t count = step % 3 == 2 ? 24 : 32;  // two buckets
    const sample::Batch batch = sample::images(count, 100 + static_cast<std::uint64_t>(step));
    session.run({{training.graph.find("images"), batch.images.data(), {count, 12, 12, 2}},
                 {training.labels, batch.labels.data(), {count}},
                 {training.learning_rate, &rate, {1}}},
                static_cast<std::uint64_t>(step));
    trained.losses.push_back(sample::floats(session.output(training.loss))[0]);
    std::int32_t counted = 0;
    std::memcpy(&counted, session.output(training.counted).data(), 4);
    CHECK(counted == count);
  }
  trained.tensors = session.tensors();
  return trained;
}

void check_same_bits(const TrainedCnn& a, const TrainedCnn& b) {
  CHECK(a.losses == b.losses);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& each : a.tensors) {
    CHECK_MESSAGE(each.second.data == b.tensors.at(each.first).data, each.first << " differs");
  }
}

}  // namespace

TEST_CASE("a small net learns with every optimizer, at every backend, with the same bits for any number of threads") {
  for (const kernels::Backend backend : kernels::test::backends()) {
    for (const std::string& name : optimizer_names()) {
      const std::string at = fmt::format("{} {}", name, backend.name());
      CAPTURE(at);
      OptimizerSpec optimizer;
      optimizer.name = name;
      optimizer.weight_decay = 1e-3f;
      const TrainedCnn one = train_cnn(12, 1, optimizer, training_options(backend));
      CHECK(one.losses.back() < 0.75f * one.losses.front());
      check_same_bits(one, train_cnn(12, 3, optimizer, training_options(backend)));
    }
  }
}

TEST_CASE("memory is reused without a trace in the results") {
  SessionOptions naive = training_options();
  naive.reuse_memory = false;
  check_same_bits(train_cnn(4, 1, {}, training_options()), train_cnn(4, 1, {}, naive));

  const TrainingGraph training = to_training(sample::transformer(), {"adamw"}, 0.0f);
  Pool pool(2);
  std::vector<std::int32_t> ids;
  for (std::uint64_t i = 0; i < 24; ++i) ids.push_back(static_cast<std::int32_t>(kernels::random_u32(4, 4, 4, i) % 11));
  const float rate = 1e-2f;
  const auto train = [&](const SessionOptions& options) {
    Session session(training.graph, sample::random_tensors(training.graph), options, pool);
    for (std::uint64_t step = 0; step < 4; ++step) {
      session.run({{training.graph.find("ids"), ids.data(), {4, 6}},
                   {training.labels, ids.data(), {4, 6}},
                   {training.learning_rate, &rate, {1}}},
                  step);
    }
    return session.tensors();
  };
  for (const kernels::Backend backend : kernels::test::backends()) {
    naive.backend = backend;
    check_same_bits({{}, train(training_options(backend))}, {{}, train(naive)});
  }
}

TEST_CASE("run allocates nothing once a bucket is planned") {
  const TrainingGraph training = to_training(sample::cnn(), {}, 0.0f);
  // Not with oneDNN, which copies its arguments into a map of its own at every call.
  for (const kernels::Backend backend : {kernels::backend_named("ref"), kernels::test::own_backend()}) {
    const std::string level_name = backend.name();
    CAPTURE(level_name);
    Pool pool(2);
    Session session(training.graph, sample::random_tensors(training.graph), training_options(backend), pool);
    const sample::Batch batch = sample::images(32, 1);
    const float rate = 0.05f;
    const std::vector<Feed> many{{training.graph.find("images"), batch.images.data(), {32, 12, 12, 2}},
                                 {training.labels, batch.labels.data(), {32}},
                                 {training.learning_rate, &rate, {1}}};
    std::vector<Feed> few = many;
    few[0].dims[0] = few[1].dims[0] = 8;
    for (std::uint64_t step = 0; step < 3; ++step) {
      session.run(many, step);
      session.run(few, step);
    }
    const std::int64_t before = allocations();
    for (std::uint64_t step = 3; step < 6; ++step) {
      session.run(many, step);
      session.run(few, step);
    }
    CHECK(allocations() == before);
  }
}

TEST_CASE("inference: dropout gone, statistics used, folding and fusing change nothing but rounding") {
  const Graph forward = sample::cnn();
  Tensors tensors = sample::random_tensors(forward);
  const auto change = [&](const char* name, std::uint64_t stream, float base) {
    std::vector<float> values = sample::random_floats(8, stream, 0.4f);
    for (float& value : values) value += base;
    std::memcpy(tensors.at(name).data.data(), values.data(), 32);
  };
  change("norm1.gamma", 1, 1);
  change("norm1.beta", 2, 0);
  change("norm1.mean", 3, 0.2f);
  change("norm1.variance", 4, 1);
  const Graph plain = to_inference(forward);
  Tensors folded = tensors;
  const Graph fused = fuse(plain, folded);
  validate(fused);
  CHECK(fused.nodes.size() == 6);  // conv, pool, conv, reshape, dense, dense
  CHECK(fused.find("norm1.gamma") == kNone);
  CHECK_FALSE(folded.contains("norm1.gamma"));
  CHECK(fused.nodes[0].attrs.activation == Activation::kRelu);
  CHECK(folded.at("conv1.bias").shape.dims[0] == 8);
  CHECK(tensors.at("conv1.weight").data != folded.at("conv1.weight").data);

  Pool pool(2);
  const sample::Batch batch = sample::images(16, 5);
  const auto logits = [&](const Graph& graph, const Tensors& weights, kernels::Backend backend) {
    SessionOptions options;
    options.backend = backend;
    Session session(graph, weights, options, pool);
    session.run({{graph.inputs[0], batch.images.data(), {16, 12, 12, 2}}});
    return sample::floats(session.output(graph.outputs[0]));
  };
  const std::vector<float> expected = logits(plain, tensors, kernels::backend_named("ref"));
  for (const kernels::Backend backend : kernels::test::backends()) {
    const std::vector<float> got = logits(fused, folded, backend);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-4f);
  }
}

TEST_CASE("with_loss keeps the logits and counts correct predictions") {
  const Graph forward = to_inference(sample::cnn());
  const TrainingGraph evaluation = with_loss(forward);
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  Session session(evaluation.graph, sample::random_tensors(evaluation.graph), options, pool);
  sample::Batch batch = sample::images(10, 6);
  batch.labels[3] = -1;  // ignored
  const auto run = [&] {
    session.run({{evaluation.graph.inputs[0], batch.images.data(), {10, 12, 12, 2}},
                 {evaluation.labels, batch.labels.data(), {10}}});
  };
  run();
  const std::vector<float> logits = sample::floats(session.output(evaluation.graph.outputs[0]));
  std::int32_t right = 0, correct = 0, counted = 0;
  for (std::size_t n = 0; n < 10; ++n) {
    const auto* row = &logits[n * 4];
    right += batch.labels[n] == std::max_element(row, row + 4) - row;
  }
  std::memcpy(&correct, session.output(evaluation.correct).data(), 4);
  std::memcpy(&counted, session.output(evaluation.counted).data(), 4);
  CHECK(correct == right);
  CHECK(counted == 9);
}

TEST_CASE("buckets share state, the arena follows, constants are seen when they change") {
  const Graph g = to_inference(sample::cnn());
  Pool pool(1);
  Session session(g, sample::random_tensors(g), {}, pool);
  const sample::Batch batch = sample::images(64, 9);
  const auto first = [&](std::int64_t count) {
    session.run({{g.inputs[0], batch.images.data(), {count, 12, 12, 2}}});
    CHECK(session.output_shape(g.outputs[0]).dims[0] == count);
    return sample::floats(session.output(g.outputs[0]))[0];
  };
  const float one = first(1);
  const std::size_t small = session.arena_bytes();
  CHECK(std::abs(first(64) - one) < 1e-4f);
  CHECK(session.arena_bytes() > small);
  CHECK(first(1) == one);
  for (std::int64_t count = 2; count < 50; ++count) CHECK(std::abs(first(count) - one) < 1e-4f);  // more than are kept
  const std::vector<float> zeros(4 * 16, 0.0f);
  session.set_state("dense2.weight", {reinterpret_cast<const std::uint8_t*>(zeros.data()), 256});
  float bias = 0;
  std::memcpy(&bias, session.state("dense2.bias"), 4);
  CHECK(first(1) == doctest::Approx(bias));
  CHECK(session.state_bytes() > 256);
}

TEST_CASE("profiling names nodes, operations and kernels") {
  const Graph g = to_inference(sample::cnn());
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  Session session(g, sample::random_tensors(g), options, pool);
  const sample::Batch batch = sample::images(4, 9);
  session.set_profiling(true);
  for (int i = 0; i < 3; ++i) session.run({{g.inputs[0], batch.images.data(), {4, 12, 12, 2}}});
  const std::vector<NodeTime> times = session.profile();
  REQUIRE(times.size() == 9);  // all but reshape
  CHECK(times[0].name == "conv1");
  CHECK(times[0].op == "conv2d");
  CHECK(times[0].kernel == "ref");
  CHECK(times[0].calls == 3);
  CHECK(times[0].flops == doctest::Approx(3.0 * 4 * 41472));
  CHECK(times[0].seconds > 0);
}

TEST_CASE("feeds that do not fit are refused by name, and the session stays usable") {
  const TrainingGraph evaluation = with_loss(to_inference(sample::cnn()));
  const Graph& g = evaluation.graph;
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  Session session(g, sample::random_tensors(g), options, pool);
  const sample::Batch batch = sample::images(4, 9);
  const Feed images{g.inputs[0], batch.images.data(), {4, 12, 12, 2}};
  const auto says = [](const std::string& text, const char* part) {
    INFO(text);
    return text.find(part) != std::string::npos;
  };
  CHECK_THROWS_AS(session.output(evaluation.loss), Error);
  CHECK(says(sample::refusal([&] { session.run({images}); }), "'labels' was not fed"));
  CHECK(says(sample::refusal([&] {
               session.run({images, {evaluation.labels, batch.labels.data(), {3}}});
             }),
             "batch is 3"));
  CHECK(says(sample::refusal([&] {
               session.run({{g.inputs[0], batch.images.data(), {4, 12, 12, 3}}});
             }),
             "[4,12,12,3]"));
  CHECK(says(sample::refusal([&] { session.run({{g.inputs[0], batch.images.data(), {4, 288}}}); }), "[batch,12,12,2]"));
  CHECK(says(sample::refusal([&] {
               session.run({{g.inputs[0], batch.images.data(), {0, 12, 12, 2}}});
             }),
             "at least 1"));
  CHECK(says(sample::refusal([&] { session.run({{evaluation.loss, batch.images.data(), {1}}}); }), "not an input"));
  CHECK(says(sample::refusal([&] { session.bind_symbol("sequence", 4); }), "'sequence'"));
  CHECK(says(sample::refusal([&] { session.state("nobody"); }), "nobody"));
  CHECK(says(sample::refusal([&] { session.set_state("dense2.bias", {}); }), "16 bytes"));
  CHECK_NOTHROW(session.run({images, {evaluation.labels, batch.labels.data(), {4}}}));
}

TEST_CASE("all missing and misshapen weights are named at once") {
  const Graph g = to_inference(sample::cnn());
  Tensors tensors = sample::random_tensors(g);
  tensors.erase("conv1.weight");
  tensors.at("dense1.bias").shape.dims[0] = 15;
  tensors.at("dense2.bias").data.pop_back();
  Pool pool(1);
  const std::string message = sample::refusal([&] { Session(g, tensors, {}, pool); });
  CAPTURE(message);
  for (const char* name : {"conv1.weight", "dense1.bias", "dense2.bias", "[15]"})
    CHECK(message.find(name) != std::string::npos);
}

// bug: a graph with a symbol that nothing has, as one from outside may be, could not run.
TEST_CASE("session: a symbol that no input has needs no size") {
  Graph g;
  g.symbol("unused");
  const ValueId x = g.input("x", DType::kF32, {Dim::sym(g.symbol("batch")), Dim::of(2)});
  g.outputs = {g.add(Op::kRelu, {}, {x}, "y")[0]};
  Pool pool(1);
  Session session(g, Tensors{}, {}, pool);
  const std::vector<float> numbers{-1, 2, 3, -4};
  session.run({{x, numbers.data(), {2, 2}}});
  CHECK(sample::floats(session.output(g.outputs[0])) == std::vector<float>{0, 2, 3, 0});
}
