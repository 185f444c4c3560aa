// Trainings on one rank or several, which are threads, and how their results compare. Used by the tests of ranks that
// share a model or a batch.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "memory_sink.h"
#include "nn/model.h"
#include "registry/repository.h"
#include "tests/dist/ranks.h"
#include "train/loop/training_loop.h"
#include "train/prepared.h"

namespace mlx::train::test {

// A dataset in a repository that outlives it.
struct RankData {
  registry::Repository* repository = nullptr;
  Digest dataset;
};

struct RankRun {
  TrainingResult result{};
  MemorySink sink{};
};

// On `ranks` threads; sink and result are rank 0's. Goes on from the sink's last checkpoint.
inline void train_on(const RankData& data, const std::string& config, int ranks, MemorySink& sink,
                     const std::function<void(TrainingResult&)>& done, Progress* progress = nullptr) {
  dist::on_ranks(ranks, [&](dist::Communicator& own) {
    NoProgress silent;
    Pool pool(1);
    const kernels::Backend backend = kernels::best_backend();
    const train::Prepared prepared =
        train::prepare(data.repository->store(), data.dataset, config_of(config), nullptr, backend, silent);
    const bool first = own.rank() == 0;
    const TrainingData split =
        first ? load_training_data(data.repository->store(), data.dataset, prepared.config, silent)
              : load_training_split(data.repository->store(), data.dataset, prepared.config, silent);
    LoopOptions options;
    options.backend = backend;
    options.ranks = &own;
    options.verify_every = 3;
    options.resume = first && sink.last.has_value();
    options.keep_state = first;
    MemorySink nothing;
    TrainingResult result =
        run_training(prepared.config, prepared.built, split, options, first ? static_cast<RunSink&>(sink) : nothing,
                     pool, first && progress ? *progress : silent);
    if (first) done(result);
  });
}
inline void train_on(const RankData& data, const std::string& config, int ranks, RankRun& out,
                     Progress* progress = nullptr) {
  train_on(
      data, config, ranks, out.sink, [&](TrainingResult& result) { out.result = std::move(result); }, progress);
}
inline RankRun train_on(const RankData& data, const std::string& config, int ranks) {
  RankRun out;
  train_on(data, config, ranks, out);
  return out;
}

// The largest difference of two tensors, in units of the largest element.
inline double largest_difference(const graph::Tensor& a, const graph::Tensor& b) {
  REQUIRE(a.shape == b.shape);
  double most = 0, apart = 0;
  for (std::size_t at = 0; at < a.data.size(); at += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, a.data.data() + at, sizeof x);
    std::memcpy(&y, b.data.data() + at, sizeof y);
    most = std::max(most, std::abs(double{x}));
    apart = std::max(apart, std::abs(double{x} - double{y}));
  }
  return most > 0 ? apart / most : apart;
}

inline void check_follows(const RankRun& parts, const RankRun& whole, double tolerance) {
  REQUIRE(parts.result.steps == whole.result.steps);
  for (const char* metric : {"train/loss", "train/gradient_norm", "valid/loss"}) {
    CAPTURE(metric);
    const auto &of_parts = parts.sink.metrics.at(metric), &of_whole = whole.sink.metrics.at(metric);
    REQUIRE(of_parts.size() == of_whole.size());
    for (const auto& each : of_whole) {
      CAPTURE(each.first);
      CHECK(std::abs(of_parts.at(each.first) / each.second - 1) < tolerance);
    }
  }
  REQUIRE(parts.result.tensors.size() == whole.result.tensors.size());
  for (const auto& each : whole.result.tensors) {
    CAPTURE(each.first);
    CHECK(largest_difference(each.second, parts.result.tensors.at(each.first)) < 10 * tolerance);
  }
}

// A checkpoint cannot be stored, in the middle of its tensors.
struct FullSink final : MemorySink {
  void save_checkpoint(CheckpointState state, bool) override {
    saved.push_back(state.step);
    if (!state.late.shapes.empty()) (void)state.late.make(state.late.shapes.begin()->first);
  }
};

// What a config is refused for, from "[train]" on; "" if it is not.
inline std::string refusal(const RankData& data, const std::string& config, int ranks) {
  try {
    train_on(data, config, ranks);
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
    return error.message.substr(error.message.find("[train]"));
  }
  return {};
}

}  // namespace mlx::train::test
