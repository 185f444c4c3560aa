// A repository with a dataset and a config to train, and ways to interrupt training. Shared by the tests of training.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/pointers.h"
#include "registry/versions/references.h"
#include "store/disk.h"
#include "synthetic.h"
#include "train/trainer.h"

namespace mlx::train::test {

struct World {
  explicit World(int threads = 2, const std::string& config = synthetic::kConfig,
                 std::unique_ptr<store::Disk> on = store::real_disk())
      : pool(threads), disk(std::move(on)) {
    synthetic::make_repository(folder.path(), *disk, pool);
    write_config(config);
    open();
  }
  void open() {
    repository = std::unique_ptr<registry::Repository>(
        new registry::Repository(registry::open_repository(folder.path(), *disk, pool)));
  }
  void write_config(const std::string& text) { write_file_atomically(join_path(folder.path(), "train.toml"), text); }
  TrainConfig config() { return read_train_config(join_path(folder.path(), "train.toml")); }
  TrainOutcome train(Progress& progress, const std::string& resume = {}, bool force = false) {
    TrainOptions options;
    options.resume = resume;
    options.force = force;
    options.backend = backend;
    return train::train(*repository, config(), options, progress);
  }
  TrainOutcome train(const std::string& resume = {}, bool force = false) {
    NoProgress silent;
    return train(silent, resume, force);
  }
  std::string run() { return "run:" + registry::runs(*repository).back().id; }
  std::string id() { return registry::resolve(*repository, "clf").digest.hex(); }

  kernels::Backend backend = kernels::best_backend();
  TempFolder folder;
  Pool pool;
  std::unique_ptr<store::Disk> disk;
  std::unique_ptr<registry::Repository> repository;
};

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The config of synthetic.h with more lines in [train].
inline std::string with(const std::string& lines, const std::string& config = synthetic::kConfig) {
  return config + lines + "\n";
}

// Counts steps, calls `at` when the given step is done, and keeps warnings.
struct Tripwire : Progress {
  Tripwire(std::uint64_t at_step, std::function<void()> what, const Interruption& of = Interruption::never())
      : Progress(of), step(at_step), fire(std::move(what)) {}
  void begin(std::string_view stage, std::uint64_t, std::string_view) override { training = stage == "training"; }
  void advance(std::uint64_t count) override {
    if (training && (done += count) == step) fire();
  }
  void note(std::string_view) override {}
  void end() override {}
  void warn(std::string_view text) override { warnings += std::string(text) + "\n"; }
  std::uint64_t step, done = 0;
  std::function<void()> fire;
  std::string warnings;
  bool training = false;
};

// Interrupts the training that reports to it when the given step is done.
struct OwnToken {
  Interruption token;
};
struct StopAt final : private OwnToken, Tripwire {
  explicit StopAt(std::uint64_t at_step)
      : Tripwire(
            at_step, [this] { token.raise(SIGTERM); }, token) {}
};

}  // namespace mlx::train::test
