// Updates that wait for later steps ([train] async): which gradients they take, the same bits on any number of ranks
// and resumed, and ranks that do not wait for a slow one. Ranks are threads here.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"
#include "shared_training.h"
#include "train/loop/checkpoint.h"
#include "train/loop/training_step.h"
#include "world.h"

namespace mlx::train::test {
namespace {

// Nine steps an epoch.
const char* const kAsyncConfig = R"([data]
dataset = "data/bars"
hold_out = 64
[model]
name = "clf"
family = "mlp"
hidden = [32, 32]
norm = "batch"
[train]
epochs = 2
batch = 24
accumulate = 24
seed = 5
learning_rate = 0.01
checkpoint_every = "7 steps"
)";

std::string waits(int steps, const std::string& more = "", const std::string& config = kAsyncConfig) {
  return config + more + fmt::format("async = {}\n", steps);
}

void check_same_waiting(const SharedRun& run, const SharedRun& expected) {
  const std::vector<graph::Tensors>&a = run.sink.last->waiting, &b = expected.sink.last->waiting;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(nn::encode_tensors(a[i]) == nn::encode_tensors(b[i]));
}

float* floats_of(graph::Tensor& tensor) {
  return reinterpret_cast<float*>(tensor.data.data());
}

// Blocks in front of a batch, until it may go on.
struct GatedSource final : data::BatchSource {
  std::int64_t batches() const override { return source->batches(); }
  std::int64_t examples() const override { return source->examples(); }
  void start(std::uint64_t epoch, std::int64_t first) override { source->start(epoch, first); }
  const data::BatchView* next() override {
    before_next();
    return source->next();
  }
  std::unique_ptr<data::BatchSource> source;
  std::function<void()> before_next;
};

struct GatedDataset final : data::Dataset {
  const data::Description& describe() const override { return dataset->describe(); }
  data::DatasetPtr subset(const data::IndexSet& items) const override { return dataset->subset(items); }
  data::Preprocessing measure(const data::Preprocessing* base) const override { return dataset->measure(base); }
  std::unique_ptr<data::BatchSource> batches(const data::Preprocessing& preprocessing,
                                             const data::BatchOptions& options, Pool& pool) const override {
    auto out = std::make_unique<GatedSource>();
    out->source = dataset->batches(preprocessing, options, pool);
    out->before_next = before_next;
    return out;
  }
  data::DatasetPtr dataset;
  std::function<void()> before_next;
};

}  // namespace

TEST_CASE("async: the update of a step takes the gradients of as many steps before, and an epoch ends with all") {
  World world;
  const std::string text =
      replaced(replaced(kAsyncConfig, "norm = \"batch\"\n", ""), "accumulate = 24", "accumulate = 2") +
      "optimizer = \"sgd\"\nmomentum = 0\nschedule = \"constant\"\n";
  const Digest dataset = registry::resolve(*world.repository, "data/bars").digest;
  const store::Store& store = world.repository->store();
  NoProgress silent;
  const train::Prepared prepared = train::prepare(store, dataset, config_of(text), nullptr, world.backend, silent);
  const TrainingData data = load_training_data(store, dataset, prepared.config, silent);
  const auto alone = dist::lone_rank();
  Pool pool(2);
  for (const std::int64_t async : {1, 3}) {
    CAPTURE(async);
    const SharedRun run = train_shared(world, waits(static_cast<int>(async), "", text), 1);
    TrainingStep step(prepared.built, prepared.config, data.train->describe(), world.backend, *alone, pool);
    const auto source = data.train->batches(data.preprocessing, batch_options(prepared.config, 0, false), pool);
    std::vector<graph::Tensors> weights{nn::initialize(prepared.built, prepared.config.seed)};  // by updates done
    for (std::int64_t epoch = 0, at = 0; epoch < 2; ++epoch) {
      const std::int64_t begin = at;
      source->start(static_cast<std::uint64_t>(epoch), 0);
      for (const data::BatchView* batch = source->next(); batch; batch = source->next(), ++at) {
        const graph::Tensors& known = weights[static_cast<std::size_t>(std::max(begin, at - async))];
        step.start(known);
        const StepOutcome outcome = step.run(*batch, at, 0.01);
        CHECK(outcome.loss == doctest::Approx(run.sink.metrics.at("train/loss").at(at + 1)).epsilon(1e-4));
        graph::Tensors next = weights.back(), moved = step.state();
        for (auto& [name, tensor] : next) {
          graph::Tensor before = known.at(name);
          for (std::size_t i = 0; i < tensor.data.size() / sizeof(float); ++i)
            floats_of(tensor)[i] += floats_of(moved.at(name))[i] - floats_of(before)[i];
        }
        weights.push_back(std::move(next));
      }
    }
    for (auto& entry : weights.back()) {
      const std::string name = entry.first;
      graph::Tensor& tensor = entry.second;
      CAPTURE(name);
      graph::Tensor made = run.result.tensors.at(name);
      float apart = 0;
      for (std::size_t i = 0; i < tensor.data.size() / sizeof(float); ++i)
        apart = std::max(apart, std::abs(floats_of(tensor)[i] - floats_of(made)[i]));
      CHECK(apart < 1e-4f);
    }
  }
}

TEST_CASE("async: any number of ranks makes the bits of one, in the model and in its checkpoints") {
  World world;
  for (const char* more :
       {"optimizer = \"adamw\"\nclip = 0.5\nema = 0.9\n", "optimizer = \"sgd\"\nwire = \"bf16\"\n"}) {
    for (const int async : {1, 2}) {
      CAPTURE(more);
      CAPTURE(async);
      const SharedRun one = train_shared(world, waits(async, more), 1);
      CHECK(one.sink.saved.size() > 2);
      for (const int ranks : {2, 4, 8}) {
        CAPTURE(ranks);
        check_same(train_shared(world, waits(async, more), ranks), one);
      }
    }
  }
}

TEST_CASE("async: a micro-batch for a rank alone, and more steps than an epoch has") {
  World world;
  const std::string whole = replaced(kAsyncConfig, "accumulate = 24\n", "");
  const SharedRun at_once = train_shared(world, whole, 1), later = train_shared(world, waits(1, "", whole), 1);
  CHECK(nn::encode_tensors(at_once.result.tensors) != nn::encode_tensors(later.result.tensors));
  const SharedRun all = train_shared(world, waits(16), 1);
  CHECK(all.result.steps == 18);
  check_same(train_shared(world, waits(9), 4), all);  // an epoch has nine: all of them wait for its end
}

TEST_CASE("async: a checkpoint is resumed by any number of ranks, with what waits") {
  World world;
  const std::string text = waits(3, "optimizer = \"adamw\"\nclip = 0.5\nema = 0.9\n");
  const SharedRun whole = train_shared(world, text, 1);
  struct Change {
    int ranks, ranks_again;
  };
  for (const Change& change : {Change{1, 1}, Change{1, 4}, Change{2, 8}, Change{4, 1}, Change{2, 2}}) {
    for (const std::uint64_t at : {3, 5, 9, 10}) {
      CAPTURE(change.ranks);
      CAPTURE(change.ranks_again);
      CAPTURE(at);
      StopAt tripwire(at);
      SharedRun stopped;
      CHECK_THROWS_AS(train_shared(world, text, change.ranks, stopped.sink, stopped.result, &tripwire), Error);
      const CheckpointState& last = *stopped.sink.last;
      REQUIRE(last.step >= static_cast<std::int64_t>(at));
      REQUIRE(last.step < whole.result.steps);
      CHECK(last.waiting.size() == (last.step % 9 == 0 ? 0u : 3u));
      SharedRun resumed;
      resumed.sink.last = decode_checkpoint(encode_checkpoint(last), "a test");
      train_shared(world, text, change.ranks_again, resumed.sink, resumed.result);
      CHECK(resumed.result.from == last.step);
      CHECK(nn::encode_tensors(resumed.result.tensors) == nn::encode_tensors(whole.result.tensors));
      CHECK(nn::encode_tensors(resumed.sink.last->tensors) == nn::encode_tensors(whole.sink.last->tensors));
      CHECK(resumed.result.loss == whole.result.loss);
    }
  }
}

TEST_CASE("async: checkpoints hold the same sums on any number of ranks") {
  World world;
  const auto stopped_on = [&](int ranks) {
    SharedRun stopped;
    StopAt tripwire(4);
    const std::string text = replaced(waits(2), "\"7 steps\"", "\"3 steps\"");
    struct : MemorySink {
      void save_checkpoint(CheckpointState state, bool improved) override {
        if (saved.empty()) MemorySink::save_checkpoint(std::move(state), improved);
      }
    } first;
    CHECK_THROWS_AS(train_shared(world, text, ranks, first, stopped.result, &tripwire), Error);
    stopped.sink = first;
    return stopped;
  };
  const SharedRun one = stopped_on(1);
  CHECK(one.sink.last->step == 3);
  CHECK(one.sink.last->waiting.size() == 2);
  for (const int ranks : {2, 4}) check_same_waiting(stopped_on(ranks), one);
}

TEST_CASE("async: a rank goes on while another is as many steps behind, and no further") {
  constexpr int kBehind = 2;  // the step in front of which rank 1 waits
  World world;
  for (const int async : {0, 1, 4}) {
    CAPTURE(async);
    std::atomic<int> first = 0, second = 0;  // batches that the ranks have begun to take
    std::atomic<int> seen = 0;
    SharedRun run;
    train_shared(world, waits(async), 2, run.sink, run.result, nullptr, [&](int rank, TrainingData& data) {
      const auto gated = std::make_shared<GatedDataset>();
      gated->dataset = data.train;
      gated->before_next = [&, rank, async] {
        if (rank == 0) {
          ++first;
          return;
        }
        if (second++ != kBehind) return;
        // Rank 0 has all of the other's steps but this one. It waits for that before its next batch.
        for (int turn = 0; turn < 20000 && first < kBehind + async + 1; ++turn)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        seen = first.load();
      };
      data.train = gated;
    });
    CHECK(seen == kBehind + async + 1);
    check_same(run, train_shared(world, waits(async), 1));
  }
}

TEST_CASE("async: running statistics lack no step") {
  World world;
  const std::string still = replaced(kAsyncConfig, "learning_rate = 0.01", "learning_rate = 1e-30");
  SharedRun at_once = train_shared(world, still, 1);
  for (const int async : {1, 4}) {
    SharedRun later = train_shared(world, waits(async, "", still), 2);
    int compared = 0;
    for (auto& entry : at_once.result.tensors) {
      const std::string name = entry.first;
      graph::Tensor& tensor = entry.second;
      if (name.find("running") == std::string::npos) continue;
      CAPTURE(name);
      for (std::size_t i = 0; i < tensor.data.size() / sizeof(float); ++i)
        CHECK(floats_of(later.result.tensors.at(name))[i] == doctest::Approx(floats_of(tensor)[i]).epsilon(1e-4));
      ++compared;
    }
    CHECK(compared == 4);
  }
}

TEST_CASE("async: a loss that is not finite ends all ranks after the same step") {
  World world;
  const std::string config =
      replaced(replaced(kAsyncConfig, "norm = \"batch\"\n", ""), "learning_rate = 0.01", "learning_rate = 1000");
  std::string one;
  for (const int ranks : {1, 2, 4}) {
    SharedRun run;
    try {
      train_shared(world, waits(2, "optimizer = \"sgd\"\n", config), ranks, run.sink, run.result);
      FAIL("it goes on");
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kDiverged);
      if (ranks == 1) one = error.message;
      CHECK(error.message == one);
    }
  }
}

TEST_CASE("async: a damaged checkpoint is refused by the name of what it lacks") {
  World world;
  SharedRun stopped;
  StopAt tripwire(4);
  CHECK_THROWS_AS(train_shared(world, waits(2), 1, stopped.sink, stopped.result, &tripwire), Error);
  const CheckpointState good = *stopped.sink.last;
  REQUIRE(good.waiting.size() == 2);
  const auto resume = [&](const CheckpointState& state, int async) {
    SharedRun run;
    run.sink.last = state;
    train_shared(world, waits(async), 1, run.sink, run.result);
  };
  CheckpointState lacks = good;
  lacks.waiting[1].erase("counters");
  CHECK_THROWS_WITH(resume(lacks, 2), doctest::Contains("no 'counters' of this size"));
  CHECK_THROWS_WITH(resume(good, 1), doctest::Contains("2 steps that wait, and [train] async is 1"));
}

TEST_CASE("async: what waits is part of the forecast of memory") {
  World world;
  const std::string large = replaced(kAsyncConfig, "hidden = [32, 32]", "hidden = [512, 512]");
  const auto forecast = [&](int async) { return train_shared(world, waits(async, "", large), 2).result.memory; };
  const MemoryForecast none = forecast(0), two = forecast(2);
  const std::int64_t gradients = 4 * (144 * 512 + 512 * 512);
  CHECK(two.weights - none.weights > 2 * gradients);
  CHECK(two.checkpoint - none.checkpoint > 2 * gradients);
}

TEST_CASE("async: what excludes it is refused by name") {
  World world;
  const auto refused = [&](const std::string& more, int ranks = 1) {
    SharedRun run;
    try {
      train_shared(world, waits(2, more), ranks, run.sink, run.result);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUsage);
      CHECK(error.message.find("async = 2") != std::string::npos);
      return error.message + error.hint;
    }
    return std::string();
  };
  CHECK(refused("zero = 1\n").find("leave async or zero out") != std::string::npos);
  CHECK(refused("balance = true\n").find("leave async or balance out") != std::string::npos);
  CHECK(refused("sync_every = 4\n").find("leave async or sync_every out") != std::string::npos);
  CHECK_THROWS_WITH_AS(config_of(waits(17)), doctest::Contains("async"), Error);
  CHECK_THROWS_WITH_AS(config_of(waits(-1)), doctest::Contains("async"), Error);
}

}  // namespace mlx::train::test
