// Trainings on ranks that are threads, whose results are compared. Shared by the tests of training.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "memory_sink.h"
#include "nn/model.h"
#include "registry/versions/references.h"
#include "tests/dist/ranks.h"
#include "train/loop/training_loop.h"
#include "train/prepared.h"
#include "world.h"

namespace mlx::train::test {

struct SharedRun {
  TrainingResult result{};
  MemorySink sink{};
};

// On `ranks` threads; sink and result are rank 0's. Goes on from the sink's last checkpoint. `change`: of a rank's
// data.
inline void train_shared(World& world, const std::string& text, int ranks, MemorySink& sink, TrainingResult& result,
                         Progress* progress = nullptr,
                         const std::function<void(int rank, TrainingData& data)>& change = {}) {
  const Digest dataset = registry::resolve(*world.repository, "data/bars").digest;
  const store::Store& store = world.repository->store();
  NoProgress silent;
  const train::Prepared prepared = train::prepare(store, dataset, config_of(text), nullptr, world.backend, silent);
  std::vector<TrainingData> data;  // by rank
  data.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    data.push_back(rank == 0 ? load_training_data(store, dataset, prepared.config, silent)
                             : load_training_split(store, dataset, prepared.config, silent));
    if (change) change(rank, data.back());
  }
  dist::on_ranks(ranks, [&](dist::Communicator& own) {
    NoProgress quiet;
    Pool pool(1 + own.rank() % 2);
    const bool first = own.rank() == 0;
    LoopOptions options;
    options.backend = world.backend;
    options.ranks = &own;
    options.verify_every = 3;
    options.resume = first && sink.last.has_value();
    options.keep_state = first;
    MemorySink nothing;
    TrainingResult made =
        run_training(prepared.config, prepared.built, data[static_cast<std::size_t>(own.rank())], options,
                     first ? static_cast<RunSink&>(sink) : nothing, pool, first && progress ? *progress : quiet);
    if (first) result = std::move(made);
  });
}

inline SharedRun train_shared(World& world, const std::string& text, int ranks) {
  SharedRun out;
  train_shared(world, text, ranks, out.sink, out.result);
  return out;
}

inline void check_same(const SharedRun& run, const SharedRun& expected) {
  CHECK(nn::encode_tensors(run.result.tensors) == nn::encode_tensors(expected.result.tensors));
  REQUIRE(run.sink.last);
  CHECK(nn::encode_tensors(run.sink.last->tensors) == nn::encode_tensors(expected.sink.last->tensors));
  CHECK(run.sink.saved == expected.sink.saved);
  for (const char* metric : {"train/loss", "train/gradient_norm", "valid/loss"}) {
    CAPTURE(metric);
    const auto found = expected.sink.metrics.find(metric);
    if (found != expected.sink.metrics.end()) CHECK(run.sink.metrics.at(metric) == found->second);
  }
}

}  // namespace mlx::train::test
