// Stopped at any step and resumed: the bits of a training that was never stopped, whatever keeps state between steps.
#include <doctest/doctest.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/process_use.h"
#include "world.h"

namespace mlx::train::test {
namespace {

// Three epochs of eight steps; every optimizer, with all that is kept between steps.
const char* const kVariants[] = {
    "optimizer = \"adamw\"\nema = 0.9\nclip = 0.5",
    "optimizer = \"lion\"\naccumulate = 4\nkeep = \"best\"",
    "optimizer = \"muon\"\naccumulate = 2\nema = 0.95\npatience = 1\nmetric = \"loss\"",
    "optimizer = \"sgd\"\nclip = 1.0\nkeep = \"best\"\nschedule = \"one_cycle\"\ncheckpoint_every = \"5 steps\"",
};

std::string variant(const std::string& lines) {
  const std::string config = replaced(synthetic::kConfig, "learning_rate = 0.05\ncheckpoint_every = 0.5\n", "");
  return with(lines, config);
}

TEST_CASE("stopped at any step and resumed equals never stopped, with another number of threads" *
          doctest::test_suite("long")) {
  for (const std::string lines : kVariants) {
    CAPTURE(lines);
    World whole(2, variant(lines));
    const TrainOutcome expected = whole.train();
    const Json summary = parse_json(expected.run.summary, "summary");
    World stopped(3, variant(lines));
    // 3, then 8, where the validation is interrupted, then 14.
    for (const std::uint64_t step : {3u, 5u, 6u}) {
      StopAt tripwire(step);
      const bool first = registry::runs(*stopped.repository).empty();
      CHECK_THROWS_WITH_AS(stopped.train(tripwire, first ? "" : stopped.run()),
                           doctest::Contains("a checkpoint is kept"), Error);
    }
    const TrainOutcome resumed = stopped.train(stopped.run());
    CHECK(stopped.id() == whole.id());
    const Json after = parse_json(resumed.run.summary, "summary");
    for (const char* key : {"steps", "loss", "accuracy", "valid_loss", "valid_accuracy"})
      CHECK_MESSAGE(after.at(key) == summary.at(key), key);
    CHECK(registry::metrics(*stopped.repository, resumed.run.id, "train/loss").size() ==
          registry::metrics(*whole.repository, expected.run.id, "train/loss").size());
  }
}

TEST_CASE("each optimizer learns, with the same bits for one, two and three threads" * doctest::test_suite("long")) {
  for (const char* name : {"adamw", "lion", "muon"}) {
    const std::string config = replaced(with(fmt::format("optimizer = \"{}\"\nepochs = 6", name)), "epochs = 3\n", "");
    const double rate = std::string(name) == "lion" ? 0.001 : 0.01;
    const std::string tuned = replaced(config, "learning_rate = 0.05", fmt::format("learning_rate = {}", rate));
    World one(1, tuned), two(2, tuned), three(3, tuned);
    const Json summary = parse_json(one.train().run.summary, "summary");
    CAPTURE(name);
    CHECK(summary.at("valid_accuracy").get<double>() > 0.9);
    two.train();
    three.train();
    CHECK(one.id() == two.id());
    CHECK(one.id() == three.id());
  }
}

TEST_CASE("a step of micro-batches has the loss of the whole batch") {
  // Without batch norm and dropout, whose results depend on what is computed together.
  std::string plain = replaced(synthetic::kConfig, "  { dropout = 0.1 },\n", "");
  for (int layer = 0; layer < 2; ++layer) plain = replaced(plain, "norm = \"batch\", ", "");
  World whole(2, plain), parts(2, with("accumulate = 4", plain));
  const auto losses = [](World& world) {
    const std::string run = world.train().run.id;
    return registry::metrics(*world.repository, run, "train/loss");
  };
  const std::vector<registry::MetricPoint> a = losses(whole), b = losses(parts);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(b[i].value == doctest::Approx(a[i].value).epsilon(1e-3));
}

TEST_CASE("the best model is kept, and a training that gets no better ends") {
  // A rate that ruins what was learned once warmup is over.
  const std::string wild = "schedule = \"step\"\nmilestones = [2]\ngamma = 0.0\nkeep = \"best\"\npatience = 2\n";
  World world(2, replaced(with(wild), "epochs = 3", "epochs = 40"));
  const TrainOutcome outcome = world.train();
  const Json summary = parse_json(outcome.run.summary, "summary");
  CHECK(summary.at("stopped_early") == true);
  CHECK(summary.at("steps").get<int>() < 40 * 8);
  CHECK(summary.at("kept_step").get<int>() < summary.at("steps").get<int>());
  double best = 0;
  for (const registry::MetricPoint& point : registry::metrics(*world.repository, outcome.run.id, "valid/accuracy"))
    best = std::max(best, point.value);
  CHECK(summary.at("valid_accuracy") == best);
}

TEST_CASE("averaged weights are what is evaluated and stored") {
  World plain, averaged(2, with("ema = 0.5"));
  const TrainOutcome a = plain.train(), b = averaged.train();
  CHECK(plain.id() != averaged.id());
  // The training itself is the same: only what is evaluated differs.
  const auto series = [](World& world, const TrainOutcome& outcome, const char* name) {
    std::vector<double> values;
    for (const registry::MetricPoint& point : registry::metrics(*world.repository, outcome.run.id, name))
      values.push_back(point.value);
    return values;
  };
  CHECK(series(plain, a, "train/loss") == series(averaged, b, "train/loss"));
  CHECK(series(plain, a, "valid/loss") != series(averaged, b, "valid/loss"));
  CHECK(series(averaged, b, "valid/accuracy").back() > 0.9);
}

TEST_CASE("a run records what it took of the machine") {
  World world(2, with("clip = 1.0"));
  const TrainOutcome outcome = world.train();
  const Json summary = parse_json(outcome.run.summary, "summary");
  CHECK(summary.at("cpu_seconds").get<double>() > 0);
  CHECK(summary.at("peak_memory").get<std::int64_t>() > 1 << 20);
  for (const char* name : {"system/memory", "system/cores"})
    CHECK(registry::metrics(*world.repository, outcome.run.id, name).size() == 3);
  CHECK(registry::metrics(*world.repository, outcome.run.id, "train/gradient_norm").size() == 24);
}

TEST_CASE("a thousand metrics are one short transaction") {
  World world;
  registry::RunStart start;
  start.command = "train";
  start.key = Digest::of("key");
  const std::string run = registry::start_run(*world.repository, start);
  std::vector<registry::MetricPoint> points;
  for (std::int64_t step = 1; step <= 500; ++step) {
    for (const char* name : {"train/loss", "train/accuracy"})
      points.push_back({step, name, 1.0 / static_cast<double>(step), 0});
  }
  const double started = seconds_now(), cpu = cpu_seconds();
  registry::log_metrics(*world.repository, run, points);
  MESSAGE(fmt::format("1,000 metrics in {:.2f} ms, {:.2f} ms of them on a CPU", 1e3 * (seconds_now() - started),
                      1e3 * (cpu_seconds() - cpu)));
  CHECK(registry::metrics(*world.repository, run).size() == 1000);
}

TEST_CASE("bad keys are named with file and line") {
  struct Bad {
    const char *lines, *message;
  };
  const Bad bad[] = {
      {"clip = -1", "clip"},
      {"clip = \"hard\"", "clip"},
      {"accumulate = 5", "accumulate: 5 micro-batches of equal size do not make a batch of 32"},
      {"accumulate = 64", "accumulate"},
      {"ema = 1.0", "ema"},
      {"patience = -1", "patience"},
      {"keep = \"first\"", "keep"},
      {"metric = \"loss\"", "it is only for keep"},
      {"beta1 = 0.9", "beta1"},
      {"optimizer = \"lion\"\nepsilon = 1e-8", "epsilon"},
      {"schedule = \"step\"", "milestones"},
  };
  for (const Bad& each : bad) {
    CAPTURE(each.lines);
    TempFolder folder;
    const std::string file = join_path(folder.path(), "train.toml");
    write_file_atomically(file, with(each.lines));
    std::string message = "nothing was thrown";
    try {
      read_train_config(file);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUsage);
      message = error.message;
    }
    CHECK_MESSAGE(message.find(each.message) != std::string::npos, message);
    CHECK_MESSAGE(message.find("train.toml:") != std::string::npos, message);
  }
  const auto refusal = [](const std::string& config) {
    TempFolder folder;
    const std::string file = join_path(folder.path(), "train.toml");
    write_file_atomically(file, config);
    try {
      read_train_config(file);
    } catch (const Error& error) {
      return error.message;
    }
    return std::string("nothing was thrown");
  };
  const std::string blind = replaced(synthetic::kConfig, "hold_out = 44\n", "");
  for (const char* lines : {"keep = \"best\"", "patience = 3"}) {
    const std::string message = refusal(with(lines, blind));
    CHECK_MESSAGE(message.find("needs validation data") != std::string::npos, message);
  }
  for (const char* every : {"\"5 parsecs\"", "\"min\"", "\"-3 steps\"", "\"2.5 steps\"", "\"\"", "0", "true"}) {
    const std::string message =
        refusal(replaced(synthetic::kConfig, "checkpoint_every = 0.5", fmt::format("checkpoint_every = {}", every)));
    CHECK_MESSAGE(message.find("checkpoint_every") != std::string::npos, message);
    CHECK_MESSAGE(message.find("train.toml:") != std::string::npos, message);
  }
}

}  // namespace
}  // namespace mlx::train::test
