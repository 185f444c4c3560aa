// Ranks get micro-batches by how fast they are, and make the bits of one rank. Ranks are threads here, and a slow one
// sleeps where it reads.
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "memory_sink.h"
#include "nn/model.h"
#include "tests/dist/ranks.h"
#include "train/loop/balance.h"
#include "train/loop/training_loop.h"
#include "train/prepared.h"
#include "world.h"

namespace mlx::train::test {
namespace {

struct SlowSource final : data::BatchSource {
  SlowSource(std::unique_ptr<data::BatchSource> of, int each) : source(std::move(of)), micros(each) {}
  std::int64_t batches() const override { return source->batches(); }
  std::int64_t examples() const override { return source->examples(); }
  void start(std::uint64_t epoch, std::int64_t first) override { source->start(epoch, first); }
  const data::BatchView* next() override {
    const data::BatchView* const batch = source->next();
    if (batch) std::this_thread::sleep_for(std::chrono::microseconds(micros * batch->count));
    return batch;
  }
  std::unique_ptr<data::BatchSource> source;
  int micros;  // for each example
};

struct SlowDataset final : data::Dataset {
  SlowDataset(data::DatasetPtr of, int each) : dataset(std::move(of)), micros(each) {}
  const data::Description& describe() const override { return dataset->describe(); }
  data::DatasetPtr subset(const data::IndexSet& items) const override { return dataset->subset(items); }
  data::Preprocessing measure(const data::Preprocessing* base) const override { return dataset->measure(base); }
  std::unique_ptr<data::BatchSource> batches(const data::Preprocessing& preprocessing,
                                             const data::BatchOptions& options, Pool& pool) const override {
    return std::make_unique<SlowSource>(dataset->batches(preprocessing, options, pool), micros);
  }
  data::DatasetPtr dataset;
  int micros;
};

const char* const kBalancedConfig = R"([data]
dataset = "data/bars"
[model]
name = "clf"
family = "mlp"
hidden = [24]
norm = "batch"
[train]
epochs = 6
batch = 24
accumulate = 12
seed = 5
learning_rate = 0.01
optimizer = "adamw"
clip = 0.5
)";

struct BalancedRun {
  TrainingResult result{};
  MemorySink sink{};
};

BalancedRun train_balanced(World& world, const std::string& text, const std::vector<int>& micros) {
  const Digest dataset = registry::resolve(*world.repository, "data/bars").digest;
  const store::Store& store = world.repository->store();
  NoProgress silent;
  const train::Prepared prepared = train::prepare(store, dataset, config_of(text), nullptr, world.backend, silent);
  std::vector<TrainingData> data;  // by rank
  data.reserve(micros.size());
  for (const int each : micros) {
    TrainingData& own = data.emplace_back(load_training_split(store, dataset, prepared.config, silent));
    own.train = std::make_shared<SlowDataset>(own.train, each);
  }
  BalancedRun out;
  dist::on_ranks(static_cast<int>(micros.size()), [&](dist::Communicator& own) {
    NoProgress quiet;
    Pool pool(1);
    LoopOptions options;
    options.backend = world.backend;
    options.ranks = &own;
    options.verify_every = 7;
    MemorySink nothing;
    const bool first = own.rank() == 0;
    TrainingResult result = run_training(prepared.config, prepared.built, data[static_cast<std::size_t>(own.rank())],
                                         options, first ? out.sink : nothing, pool, quiet);
    if (first) out.result = std::move(result);
  });
  return out;
}

}  // namespace

TEST_CASE("balance: a slow rank gets fewer micro-batches, and the model has the bits of one rank") {
  World world;
  const std::string config = kBalancedConfig;
  const BalancedRun whole = train_balanced(world, config, {0});
  const auto check_same = [&](const BalancedRun& run) {
    CHECK(nn::encode_tensors(run.result.tensors) == nn::encode_tensors(whole.result.tensors));
    CHECK(run.sink.metrics.at("train/loss") == whole.sink.metrics.at("train/loss"));
    CHECK(run.sink.metrics.at("train/gradient_norm") == whole.sink.metrics.at("train/gradient_norm"));
  };
  for (const char* more : {"balance = true\n", "balance = true\nzero = 1\n"}) {
    CAPTURE(more);
    const BalancedRun two = train_balanced(world, config + more, {200, 1000});
    check_same(two);
    const auto share_of = [&](int rank) {
      return two.sink.metrics.at(fmt::format("ranks/{}/micro_batches", rank)).rbegin()->second;
    };
    CHECK(share_of(0) + share_of(1) == 12);
    CHECK(share_of(1) <= 4);
    CHECK(two.sink.metrics.at("ranks/1/micro_batches").begin()->second == 6);  // before anything was measured
  }
  check_same(train_balanced(world, config + "balance = true\n", {800, 40, 400}));
  check_same(train_balanced(world, config + "balance = true\n", {0}));
}

TEST_CASE("balance: what it cannot be combined with is refused") {
  World world;
  CHECK_THROWS_WITH(
      train_balanced(world, std::string(kBalancedConfig) + "balance = true\nsync_every = 4\nworkers = 2\n", {0, 0}),
      doctest::Contains("[train] balance: each worker of local SGD has the same share of a batch"));
}

}  // namespace mlx::train::test
