// A training without a repository: data in memory, and a sink that keeps in memory what it is told. The bits are those
// of a training through the repository.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <csignal>
#include <map>
#include <thread>

#include "data/kinds/images_dataset.h"
#include "dist/local_ranks.h"
#include "memory_sink.h"
#include "train/build_model.h"
#include "train/loop/training_loop.h"
#include "world.h"

namespace mlx::train::test {
namespace {

// As a program would that has the images already.
TrainingResult train_in_memory(const std::string& text, RunSink& sink, Progress& progress, bool resume = false) {
  TrainConfig config = config_of(text);
  Pool pool(2);
  TrainingData data = make_training_data(config, data::make_dataset(synthetic::make_examples(300, 1)), nullptr);
  LoopOptions options;
  options.backend = kernels::best_backend();
  options.resume = resume;
  config.precision = name_of(precision_of(config, data.train->describe(), options.backend));
  const nn::Built built = build_model(config, data.train->describe(), nullptr);
  return run_training(config, built, data, options, sink, pool, progress);
}

TEST_CASE("a training needs no repository: another sink gets the same bits, metrics and checkpoints") {
  World world;
  const TrainOutcome expected = world.train();
  const nn::Model stored = nn::load_model(world.repository->store(), expected.version.digest);
  MemorySink sink;
  NoProgress silent;
  const TrainingResult result = train_in_memory(synthetic::kConfig, sink, silent);
  CHECK(nn::encode_tensors(result.tensors) == nn::encode_tensors(stored.weights->tensors()));
  CHECK(result.steps == 24);
  CHECK(sink.began == std::vector<std::int64_t>{0});
  CHECK(sink.saved == std::vector<std::int64_t>{4, 8, 12, 16, 20});
  CHECK(sink.steps == 24);
  CHECK(sink.ends == 1);
  for (const char* name : {"train/loss", "train/accuracy", "valid/loss", "valid/accuracy"}) {
    CAPTURE(name);
    const std::vector<registry::MetricPoint> points = registry::metrics(*world.repository, expected.run.id, name);
    REQUIRE(points.size() == sink.metrics[name].size());
    for (const registry::MetricPoint& point : points) CHECK(sink.metrics[name].at(point.step) == point.value);
  }
}

TEST_CASE("an interrupted training continues from the sink's last checkpoint, to the same bits") {
  NoProgress silent;
  MemorySink whole, stopped;
  const TrainingResult expected = train_in_memory(synthetic::kConfig, whole, silent);
  StopAt tripwire(11);
  CHECK_THROWS_WITH_AS(train_in_memory(synthetic::kConfig, stopped, tripwire),
                       "interrupted after step 11 of 24; a checkpoint is kept", Error);
  CHECK(stopped.saved.back() == 11);
  CHECK(stopped.ends == 1);
  const TrainingResult resumed = train_in_memory(synthetic::kConfig, stopped, silent, true);
  CHECK(resumed.from == 11);
  CHECK(stopped.began == std::vector<std::int64_t>{0, 11});
  CHECK(nn::encode_tensors(resumed.tensors) == nn::encode_tensors(expected.tensors));
  CHECK(stopped.metrics["train/loss"] == whole.metrics["train/loss"]);
}

TEST_CASE("bug: an interruption ended every work of the process: the other one of two trainings completes") {
  NoProgress silent;
  MemorySink alone, stopped, other;
  const TrainingResult expected = train_in_memory(synthetic::kConfig, alone, silent);
  std::atomic<bool> is_stopped = false;
  std::thread first([&] {
    StopAt interrupted(3);
    try {
      train_in_memory(synthetic::kConfig, stopped, interrupted);
    } catch (const Error& error) {
      is_stopped = error.kind == ErrorKind::kInterrupted;
    }
  });
  Tripwire waiting(2, [&] { first.join(); });  // most of its steps come after the interruption
  const TrainingResult result = train_in_memory(synthetic::kConfig, other, waiting);
  CHECK(is_stopped);
  CHECK(stopped.saved.back() == 3);
  CHECK(result.steps == 24);
  CHECK(nn::encode_tensors(result.tensors) == nn::encode_tensors(expected.tensors));
}

TEST_CASE("a training that diverges tells its sink so, and looks for the origin from the sink's last checkpoint") {
  std::string config = replaced(synthetic::kConfig, "learning_rate = 0.05", "learning_rate = 1000.0");
  for (int layer = 0; layer < 2; ++layer) config = replaced(config, "norm = \"batch\", ", "");
  MemorySink sink;
  NoProgress silent;
  CHECK_THROWS_WITH_AS(train_in_memory(config, sink, silent),
                       doctest::Contains("was the first to become non-finite, at step "), Error);
  CHECK(sink.ends == 1);
}

TEST_CASE("a rank that computes other bits than its replica is found") {
  std::vector<std::unique_ptr<dist::Communicator>> ranks;
  std::array<std::string, 2> said;
  const auto train = [&](std::size_t rank, double rate) {
    const std::unique_ptr<dist::Communicator> own = std::move(ranks[rank]);
    TrainConfig config = config_of(with("accumulate = 2", replaced(synthetic::kConfig, "learning_rate = 0.05",
                                                                   fmt::format("learning_rate = {}", rate))));
    Pool pool(1);
    const TrainingData data = make_training_data(config, data::make_dataset(synthetic::make_examples(300, 1)), nullptr);
    LoopOptions options;
    options.ranks = own.get();
    options.verify_every = 3;
    config.precision = name_of(precision_of(config, data.train->describe(), options.backend));
    const nn::Built built = build_model(config, data.train->describe(), nullptr);
    MemorySink sink;
    NoProgress silent;
    try {
      run_training(config, built, data, options, sink, pool, silent);
    } catch (const Error& error) {
      said[rank] = error.message;
    }
  };
  for (const double rate : {0.05, 0.0501}) {
    ranks = dist::local_ranks(2);
    said = {};
    std::thread other([&] { train(1, rate); });
    train(0, 0.05);
    other.join();
    CHECK(said[0].starts_with("after step 3 these ranks had different bits: rank 0") == (rate != 0.05));
    CHECK(said[0].empty() == (rate == 0.05));
    CHECK(said[1] == said[0]);
  }
}

}  // namespace
}  // namespace mlx::train::test
