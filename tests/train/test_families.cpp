// Every family trains: it learns, gives the same bits with any number of threads, and resumes to the bits of a run that
// was never stopped.
#include <doctest/doctest.h>

#include <csignal>

#include "base/error.h"
#include "base/json.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/references.h"
#include "synthetic.h"
#include "train/trainer.h"
#include "world.h"

namespace mlx {
namespace {

std::string bars_config(const std::string& model) {
  return "[data]\ndataset = \"data/bars\"\nhold_out = 44\naugment = { shift = 1 }\n[model]\nname = "
         "\"clf\"\n" +
         model + "[train]\nepochs = 3\nbatch = 32\nseed = 5\nlearning_rate = 0.05\ncheckpoint_every = 0.5\n";
}

struct BarsWorld {
  BarsWorld(int threads, const std::string& model) : pool(threads), disk(store::real_disk()) {
    synthetic::make_repository(folder.path(), *disk, pool);
    write_file_atomically(join_path(folder.path(), "train.toml"), bars_config(model));
    repository = std::unique_ptr<registry::Repository>(
        new registry::Repository(registry::open_repository(folder.path(), *disk, pool)));
  }
  train::TrainOutcome train(Progress& progress, const std::string& resume = {}) {
    train::TrainOptions options;
    options.resume = resume;
    options.backend = kernels::best_backend();
    return train::train(*repository, train::read_train_config(join_path(folder.path(), "train.toml")), options,
                        progress);
  }
  std::string id() { return registry::resolve(*repository, "clf").digest.hex(); }

  TempFolder folder;
  Pool pool;
  std::unique_ptr<store::Disk> disk;
  std::unique_ptr<registry::Repository> repository;
};

void check_family(const std::string& model) {
  CAPTURE(model);
  NoProgress silent;
  BarsWorld one(1, model), two(2, model), three(3, model);
  const train::TrainOutcome outcome = one.train(silent);
  const std::vector<registry::MetricPoint> losses = registry::metrics(*one.repository, outcome.run.id, "train/loss");
  REQUIRE(losses.size() == 24);
  double first = 0, last = 0;
  for (std::size_t i = 0; i < 4; ++i) first += losses[i].value, last += losses[losses.size() - 1 - i].value;
  CHECK(last < 0.7 * first);
  CHECK(parse_json(outcome.run.summary, "summary")["valid_accuracy"].get<double>() > 0.6);

  two.train(silent);
  CHECK(two.id() == one.id());

  train::test::StopAt interrupt(11);
  CHECK_THROWS_WITH_AS(three.train(interrupt), doctest::Contains("after step 11"), Error);
  three.train(silent, "run:" + registry::runs(*three.repository).at(0).id);
  CHECK(three.id() == one.id());
}

}  // namespace

TEST_CASE("families: resnet trains, with the same bits on any threads and when resumed" * doctest::test_suite("long")) {
  check_family(
      "family = \"resnet\"\ndepth = 20\nwidth = 0.25\nstochastic_depth = 0.1\nzero_init_residual = true\n"
      "dropout = 0.05\n");
}

TEST_CASE("families: a resnet of bottlenecks trains, with the same bits on any threads and when resumed" *
          doctest::test_suite("long")) {
  check_family("family = \"resnet\"\ndepth = 50\nwidth = 0.0625\nstem = \"cifar\"\nzero_init_residual = true\n");
}

TEST_CASE("families: mobilenet_v2 trains, with the same bits on any threads and when resumed" *
          doctest::test_suite("long")) {
  check_family("family = \"mobilenet_v2\"\nwidth = 0.25\nhalvings = 2\nstochastic_depth = 0.05\ndropout = 0.0\n");
}

}  // namespace mlx
