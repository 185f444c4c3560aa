// A small text, and its training on one rank or several, which are threads: for tests of ranks that hold parts of a
// model.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "memory_sink.h"
#include "nn/model.h"
#include "registry/sync/open_repository.h"
#include "store/worktree/scan.h"
#include "tests/dist/ranks.h"
#include "train/loop/training_loop.h"
#include "train/prepared.h"
#include "world.h"

namespace mlx::train::test {

inline constexpr const char* kRhymeText = R"([data]
dataset = "data/rhyme"
tokenizer = "chars"
hold_out = 100
[model]
name = "lm"
family = "FAMILY"
layers = 2
width = 24
heads = 4
context = 16
dropout = 0.1
EXTRA
[train]
epochs = 1
batch = 4
seed = 5
optimizer = "OPTIMIZER"
learning_rate = 0.01
clip = 0.5
checkpoint_every = "4 steps"
)";

inline std::string text_config(const std::string& family, const std::string& optimizer = "sgd",
                               const std::string& more = {}) {
  std::string text = replaced(kRhymeText, "FAMILY", family);
  text = replaced(text, "EXTRA", family == "llama" ? "kv_heads = 2\nhidden = 36" : "");
  return replaced(text, "OPTIMIZER", optimizer) + more;
}

struct RhymeData {
  RhymeData() : pool(1), disk(store::real_disk()) {
    registry::Repository::init(folder.path(), *disk);
    const std::string data = join_path(folder.path(), "data");
    make_folders(data);
    std::string text;
    for (int i = 0; i < 20; ++i) text += "the cat sat on the mat.\nthe dog sat on the log.\n";
    write_file_atomically(join_path(data, "train.txt"), text);
    repository = std::unique_ptr<registry::Repository>(
        new registry::Repository(registry::open_repository(folder.path(), *disk, pool)));
    NoProgress silent;
    dataset = store::add_folder(repository->store(), data, nullptr, &repository->stat_cache(), pool, silent).id;
  }

  TempFolder folder;
  Pool pool;
  std::unique_ptr<store::Disk> disk;
  std::unique_ptr<registry::Repository> repository;
  Digest dataset;
};

struct RankRun {
  TrainingResult result{};
  MemorySink sink{};
};

// On `ranks` threads; sink and result are rank 0's. Goes on from the sink's last checkpoint.
inline void train_on(RhymeData& data, const std::string& config, int ranks, MemorySink& sink,
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
inline void train_on(RhymeData& data, const std::string& config, int ranks, RankRun& out,
                     Progress* progress = nullptr) {
  train_on(
      data, config, ranks, out.sink, [&](TrainingResult& result) { out.result = std::move(result); }, progress);
}
inline RankRun train_on(RhymeData& data, const std::string& config, int ranks) {
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

}  // namespace mlx::train::test
