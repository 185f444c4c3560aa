// What is computed again instead of kept: the same bits in less memory, for every grouping of parts.
#include <doctest/doctest.h>

#include <algorithm>

#include "graph/session/recompute.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

struct Training {
  std::string name;
  Graph forward;
  std::vector<std::int64_t> sizes;  // by symbol
  PrecisionSpec precision{};
};

// Batch norm with its statistics, residual branches, dropout of both kinds, rotary positions, a tied table, a layer
// that gives two values to the backward pass.
std::vector<Training> trainings() {
  return {{"cnn", sample::cnn(), {16}},
          {"transformer", sample::transformer(), {8, 6}},
          {"transformer for a GPU", sample::transformer(), {8, 6}, {Precision::kF32, sample::gpu()}},
          {"llama", sample::llama(), {8, 6}}};
}

std::vector<std::int64_t> dims_of(const Value& value, const std::vector<std::int64_t>& sizes) {
  const kernels::Shape shape = concrete(value, sizes);
  return {shape.dims.begin(), shape.dims.begin() + shape.rank};
}

// All that outlives three steps, in `parts` micro-batches each.
Tensors train(const TrainingGraph& training, const Training& what, int parts, kernels::Backend backend) {
  SessionOptions options;
  options.backend = backend;
  options.training = true;
  options.seed = 9;
  Pool pool(2);
  Session session(training.graph, sample::random_tensors(training.graph), options, pool);
  const Value& input = training.graph.value(training.graph.inputs[0]);
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (int part = 0; part < parts; ++part) {
      const auto count = static_cast<std::size_t>(concrete(input, what.sizes).count());
      const std::vector<float> floats = sample::random_floats(count, 50 + 7 * step + static_cast<std::uint64_t>(part));
      std::vector<std::int32_t> ids, labels;
      for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>((i * 7 + step) % 11));
      for (std::size_t i = 0; i < count; ++i) labels.push_back(static_cast<std::int32_t>((i * 5 + step) % 4));
      const float rate = 0.05f, factors[] = {part == 0 ? 0.0f : 1.0f, 1.0f / static_cast<float>(parts)};
      const void* const data =
          input.dtype == DType::kF32 ? static_cast<const void*>(floats.data()) : static_cast<const void*>(ids.data());
      std::vector<Feed> feeds{
          {training.graph.inputs[0], data, dims_of(input, what.sizes)},
          {training.labels, labels.data(), dims_of(training.graph.value(training.labels), what.sizes)},
          {training.learning_rate, &rate, {1}}};
      if (training.accumulation != kNone) feeds.push_back({training.accumulation, factors, {2}});
      RunOptions run;
      run.step = step;
      run.part = static_cast<std::uint64_t>(part);
      run.last = training.loss_end;
      session.run(feeds, run);
      run.first = training.loss_end;
      run.last = part + 1 < parts ? training.update_begin : SIZE_MAX;
      session.run(feeds, run);
    }
  }
  return session.tensors();
}

std::vector<NodeRange> first_of(const std::vector<NodeRange>& parts, std::size_t group, std::size_t count) {
  std::vector<NodeRange> out;
  for (std::size_t i = 0; i < parts.size() && out.size() < count; i += group)
    out.push_back({parts[i].begin, parts[std::min(parts.size(), i + group) - 1].end});
  return out;
}

}  // namespace

TEST_CASE("recomputation trains to the same bits, with every grouping, clipped or not, in micro-batches or not") {
  for (const Training& what : trainings()) {
    CAPTURE(what.name);
    // A norm that is computed again of its sum must be of the same kernels as one that makes the sum: for a GPU's graph
    // ref's, which alone of those here do both.
    const kernels::Backend backend =
        what.precision.can.adds_in_norms ? kernels::backend_named("ref") : kernels::best_backend();
    for (const bool several : {false, true}) {
      OptimizerSpec spec;
      spec.name = several ? "adamw" : "sgd";
      spec.accumulate = several;
      spec.clip = several ? 0.5f : 0.0f;
      const TrainingGraph plain = to_training(what.forward, spec, LossSpec{"softmax", 0.1f}, what.precision);
      const int parts = several ? 2 : 1;
      const Tensors wanted = train(plain, what, parts, backend);
      const std::vector<NodeRange> all = recomputable_parts(plain);
      REQUIRE(all.size() >= 3);
      for (const std::size_t group : {std::size_t{1}, std::size_t{2}, std::size_t{3}, all.size()}) {
        CAPTURE(group);
        const TrainingGraph again = recompute(plain, first_of(all, group, all.size()));
        CHECK_NOTHROW(validate(again.graph));
        CHECK(again.graph.nodes.at(again.loss_end - 1).name == "loss");
        if (group > 1) CHECK(again.graph.nodes.size() > plain.graph.nodes.size());
        const Tensors got = train(again, what, parts, backend);
        REQUIRE(got.size() == wanted.size());
        for (const auto& [name, tensor] : wanted) CHECK_MESSAGE(got.at(name).data == tensor.data, name);
      }
    }
  }
}

TEST_CASE("for norms with a residual the norm of the sum is recomputed, and the sum is kept") {
  for (const Training& what : trainings()) {
    if (what.name == "cnn") continue;
    CAPTURE(what.name);
    const TrainingGraph plain = to_training(what.forward, {}, LossSpec{}, {Precision::kF32, sample::gpu()});
    const Tensors wanted = train(plain, what, 1, kernels::backend_named("ref"));
    const std::vector<NodeRange> all = recomputable_parts(plain);
    for (const std::size_t group : {std::size_t{1}, std::size_t{2}, std::size_t{3}, all.size()}) {
      CAPTURE(group);
      const TrainingGraph again = recompute(plain, first_of(all, group, all.size()));
      CHECK_NOTHROW(validate(again.graph));
      if (group == 1) {
        const std::string name = what.name == "llama" ? "b.norm2" : "norm2";
        const auto norm = std::ranges::find(again.graph.nodes, name + ".again", &Node::name);
        const auto first = std::ranges::find(again.graph.nodes, name, &Node::name);
        REQUIRE((norm != again.graph.nodes.end() && first != again.graph.nodes.end()));
        CHECK(norm->outputs.size() + 1 == first->outputs.size());
        CHECK(norm->inputs[0] == first->outputs.back());
      }
      const Tensors got = train(again, what, 1, kernels::backend_named("ref"));
      for (const auto& [name, tensor] : wanted) CHECK_MESSAGE(got.at(name).data == tensor.data, name);
    }
  }
}

TEST_CASE("parts of a transformer end where only the residual stream is passed on") {
  const TrainingGraph training = to_training(sample::transformer(), {}, 0.0f);
  std::vector<std::string> last;
  for (const NodeRange& part : recomputable_parts(training)) last.push_back(training.graph.nodes[part.end - 1].name);
  CHECK(last == std::vector<std::string>{"tokens", "positions", "add1", "add2", "norm3", "logits"});
}

TEST_CASE("fit_memory recomputes nothing if possible, else as little as fits, else the smallest need") {
  const TrainingGraph training = to_training(sample::llama(11, 32, 64), {}, 0.0f);
  const std::vector<std::int64_t> sizes{16, 24};
  const kernels::Backend backend = kernels::best_backend();
  const auto wanted = [](const PlannedMemory& memory) { return memory.arena + memory.packed; };
  const PlannedMemory all = planned_memory(training.graph, sizes, backend, true);
  const std::size_t whole = wanted(all);
  const Fitted same = fit_memory(training, sizes, backend, whole);
  CHECK(same.fits);
  CHECK(same.nodes == 0);
  const Fitted least = fit_memory(training, sizes, backend, 0);
  CHECK_FALSE(least.fits);
  CHECK(least.memory.arena < all.arena * 3 / 4);
  std::size_t before = 0;
  for (const std::size_t percent : {95, 85, 75}) {
    const std::size_t allowed = wanted(least.memory) + (whole - wanted(least.memory)) * percent / 100;
    const Fitted some = fit_memory(training, sizes, backend, allowed);
    CHECK(some.fits);
    CHECK(wanted(some.memory) <= allowed);
    CHECK(wanted(some.memory) == wanted(planned_memory(some.training.graph, sizes, backend, true)));
    CHECK(some.nodes > 0);
    CHECK(some.nodes >= before);
    before = some.nodes;
  }
}

TEST_CASE("bug: with a GPU's half-precision copies of weights almost nothing could be recomputed") {
  const Graph forward = sample::llama(11, 32, 64);
  const TrainingGraph whole = to_training(forward, {}, LossSpec{}),
                      half = to_training(forward, {}, LossSpec{}, {Precision::kBF16, sample::gpu()});
  CHECK(recomputable_parts(half).size() >= recomputable_parts(whole).size());
  const std::vector<std::int64_t> sizes{16, 24};
  const std::size_t all = planned_memory(half.graph, sizes, kernels::backend_named("ref"), true).arena;
  CHECK(fit_memory(half, sizes, kernels::backend_named("ref"), 0).memory.arena < all * 3 / 4);
}
