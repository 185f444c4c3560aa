// Training through a real repository: what a version depends on, and what stopping and resuming must not change.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"
#include "base/json.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/pointers.h"
#include "train/evaluate/evaluate_version.h"
#include "world.h"

namespace mlx {
namespace {

using namespace train::test;

TEST_CASE("training learns, names the next version, moves the pointer and records the run") {
  World world;
  const train::TrainOutcome outcome = world.train();
  CHECK_FALSE(outcome.unchanged);
  CHECK(outcome.version.name() == "clf@v1");
  CHECK(outcome.run.status == registry::RunStatus::kDone);
  CHECK(registry::read_pointer(*world.repository, "clf")->digest == outcome.version.digest);
  const Json summary = parse_json(outcome.run.summary, "summary");
  CHECK(summary["steps"] == 24);  // 256 of 300 examples, 8 batches, 3 epochs
  CHECK(summary["valid_accuracy"].get<double>() > 0.9);
  CHECK(registry::metrics(*world.repository, outcome.run.id, "train/loss").size() == 24);
  CHECK(registry::metrics(*world.repository, outcome.run.id, "valid/accuracy").size() == 3);
  NoProgress silent;
  const train::EvaluateOutcome evaluated = train::evaluate_version(*world.repository, "clf", "data/bars", "test", false,
                                                                   "test", kernels::best_backend(), silent);
  CHECK(evaluated.evaluation.count == 99);
  CHECK(evaluated.evaluation.accuracy() > 0.9);
  CHECK(train::evaluate_version(*world.repository, "clf", "data/bars", "test", false, "test", kernels::best_backend(),
                                silent)
            .unchanged);
}

TEST_CASE("the same inputs give the same version, in another repository and with another number of threads") {
  World one(1), two(2), three(3);
  one.train();
  two.train();
  three.train();
  CHECK(one.id() == two.id());
  CHECK(one.id() == three.id());
}

TEST_CASE("another seed gives another version") {
  World one, two(2, replaced(synthetic::kConfig, "seed = 5", "seed = 6"));
  one.train();
  two.train();
  CHECK(one.id() != two.id());
}

TEST_CASE("training again is unchanged; force gives the same bits; a lost pointer is restored") {
  World world;
  const train::TrainOutcome first = world.train();
  const train::TrainOutcome again = world.train();
  CHECK(again.unchanged);
  CHECK(again.run.id == first.run.id);
  const train::TrainOutcome forced = world.train({}, true);
  CHECK_FALSE(forced.unchanged);
  CHECK(forced.version.digest == first.version.digest);
  CHECK(forced.version.number == 1);
  unlink(join_path(world.folder.path(), "models/clf.mlx").c_str());
  CHECK(world.train().unchanged);
  CHECK(registry::read_pointer(*world.repository, "clf")->digest == first.version.digest);
}

TEST_CASE("interrupted and resumed equals never stopped") {
  World whole, stopped;
  whole.train();
  StopAt tripwire(11);
  train::TrainOptions options;
  options.backend = kernels::best_backend();
  const train::TrainConfig config = train::read_train_config(join_path(stopped.folder.path(), "train.toml"));
  std::string message;
  try {
    train::train(*stopped.repository, config, options, tripwire);
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kInterrupted);
    message = error.message;
  }
  CHECK(message == "interrupted after step 11 of 24; a checkpoint is kept");
  const std::vector<registry::Run> all = registry::runs(*stopped.repository);
  REQUIRE(all.size() == 1);
  CHECK(all[0].status == registry::RunStatus::kInterrupted);
  const train::TrainOutcome resumed = stopped.train("run:" + all[0].id);
  CHECK(resumed.run.status == registry::RunStatus::kDone);
  CHECK(registry::metrics(*stopped.repository, all[0].id, "train/loss").size() == 24);
  CHECK(stopped.id() == whole.id());
}

TEST_CASE("killed with SIGKILL and resumed equals never stopped") {
  World whole, killed;
  whole.train();
  killed.repository.reset();
  const pid_t child = fork();
  if (child == 0) {
    // A pool's threads do not survive fork: the child makes its own.
    Pool pool(2);
    registry::Repository repository = registry::open_repository(killed.folder.path(), *killed.disk, pool);
    Tripwire tripwire(18, [] { kill(getpid(), SIGKILL); });
    train::TrainOptions options;
    options.backend = kernels::best_backend();
    train::train(repository, train::read_train_config(join_path(killed.folder.path(), "train.toml")), options,
                 tripwire);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  killed.repository = std::unique_ptr<registry::Repository>(
      new registry::Repository(registry::open_repository(killed.folder.path(), *killed.disk, killed.pool)));
  const std::vector<registry::Run> all = registry::runs(*killed.repository);
  REQUIRE(all.size() == 1);
  CHECK(all[0].status == registry::RunStatus::kKilled);
  REQUIRE(registry::checkpoints(*killed.repository, all[0].id).size() == 2);
  killed.train("run:" + all[0].id);
  CHECK(killed.id() == whole.id());
}

TEST_CASE("a run is not resumed with another config") {
  World world;
  const std::string run = world.train().run.id;
  world.write_config(replaced(synthetic::kConfig, "seed = 5", "seed = 4"));
  CHECK_THROWS_WITH_AS(world.train("run:" + run), doctest::Contains("another config"), Error);
}

TEST_CASE("a loss that is not finite ends the run as failed and names the step") {
  // Without norms, so that nothing holds the weights back.
  std::string config = replaced(synthetic::kConfig, "learning_rate = 0.05", "learning_rate = 1000");
  for (int layer = 0; layer < 2; ++layer) config = replaced(config, "norm = \"batch\", ", "");
  World world(2, config);
  CHECK_THROWS_WITH_AS(world.train(), doctest::Contains("at step"), Error);
  CHECK(registry::runs(*world.repository)[0].status == registry::RunStatus::kFailed);
  CHECK(registry::versions(*world.repository, "clf").empty());
}

TEST_CASE("a config says what is wrong, where") {
  struct Bad {
    const char *from, *to, *message;
  };
  const Bad bad[] = {
      {"epochs = 3", "epoch = 3", "did you mean 'epochs'"},
      {"epochs = 3", "epochs = \"three\"", "expected an integer"},
      {"batch = 32", "batch = 0", "expected an integer from 1 to"},
      {"batch = 32", "batch = 5000", "larger than the 256 training examples"},
      {"hold_out = 44", "hold_out = 300", "leaves nothing"},
      {"family = \"cnn\"", "family = \"cmn\"", "train.toml:8"},
      {"size = 2", "size = 50", "train.toml"},
      {"name = \"clf\"", "name = \"../clf\"", "expected letters, digits"},
      {"data/bars", "data/bar", "data/bar"},
      {"dataset = \"data/bars\"", "dataset = \"data/bars\"\ntrain = \"validation\"", "has no split 'validation'"},
      {"seed = 5", "seed = 5\noptimizer = \"adam\"", "adamw"},
  };
  for (const Bad& b : bad) {
    CAPTURE(b.to);
    World world(1, replaced(synthetic::kConfig, b.from, b.to));
    std::string message = "nothing was thrown";
    try {
      world.train();
    } catch (const Error& error) {
      message = error.message + "\n" + error.hint;
      CHECK((error.kind == ErrorKind::kUsage || error.kind == ErrorKind::kNotFound));
    }
    CHECK_MESSAGE(message.find(b.message) != std::string::npos, message);
    CHECK(registry::versions(*world.repository, "clf").empty());
  }
}

}  // namespace
}  // namespace mlx
