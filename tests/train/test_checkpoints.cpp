// Checkpoints while a training goes on, what happens when they cannot be written, and numbers that are not finite.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "../store/fault_disk.h"
#include "base/json.h"
#include "graph/session/not_finite.h"
#include "registry/sync/open_repository.h"
#include "train/config/checkpoint_interval.h"
#include "train/repository_sink.h"
#include "world.h"

namespace mlx::train::test {
namespace {

// A disk that is full while it is told to be.
class SmallDisk final : public store::Disk {
 public:
  explicit SmallDisk(std::shared_ptr<std::atomic<bool>> full) : full_(std::move(full)) {}
  Fd create(const std::string& path) override { return real_->create(path); }
  Fd open_append(const std::string& path) override { return real_->open_append(path); }
  void write(const Fd& fd, ByteView bytes, const std::string& path) override {
    if (*full_) fail_errno(ENOSPC, path, "write");
    real_->write(fd, bytes, path);
  }
  void sync(const Fd&, const std::string&) override {}
  void sync_folder(const std::string&) override {}
  void rename(const std::string& from, const std::string& to) override { real_->rename(from, to); }
  void truncate(const std::string& path, std::uint64_t size) override { real_->truncate(path, size); }
  void remove(const std::string& path) override { real_->remove(path); }

 private:
  std::unique_ptr<store::Disk> real_ = store::real_disk();
  std::shared_ptr<std::atomic<bool>> full_;
};

CheckpointInterval interval(const std::string& value) {
  const TomlNode root = parse_toml("checkpoint_every = " + value, "train.toml");
  TomlReader reader(root, "train.toml", "[train]");
  return read_checkpoint_interval(reader, root);
}

TEST_CASE("a checkpoint is due by epochs, steps or time") {
  CHECK(is_due(interval("0.5"), 4, 8, 0));
  CHECK_FALSE(is_due(interval("0.5"), 5, 8, 1e9));
  CHECK(is_due(interval("\"2 epochs\""), 16, 8, 0));
  CHECK(is_due(interval("\"200 steps\""), 400, 8, 0));
  CHECK_FALSE(is_due(interval("\"200 steps\""), 100, 8, 1e9));
  CHECK(is_due(interval("\"5 min\""), 3, 8, 300));
  CHECK_FALSE(is_due(interval("\"5 min\""), 8, 8, 299));
  CHECK(is_due(interval("\"1.5 h\""), 3, 8, 5400));
  CHECK(is_due(interval("\"30 s\""), 3, 8, 30));
}

TEST_CASE("a disk that is full costs checkpoints, with warnings, and not the training") {
  World expected;
  expected.train();
  const auto full = std::make_shared<std::atomic<bool>>(false);
  World world(2, synthetic::kConfig, std::make_unique<SmallDisk>(full));
  // Full from before the checkpoint of step 12 to behind the one of step 16, which is collected by step 20.
  Tripwire progress(11, [&] { *full = true; });
  struct Both final : Progress {
    explicit Both(Tripwire& to, std::shared_ptr<std::atomic<bool>> of) : tripwire(to), disk_full(std::move(of)) {}
    void begin(std::string_view a, std::uint64_t b, std::string_view c) override { tripwire.begin(a, b, c); }
    void advance(std::uint64_t count) override {
      tripwire.advance(count);
      if (tripwire.done == 21) *disk_full = false;
    }
    void note(std::string_view) override {}
    void end() override {}
    void warn(std::string_view text) override { tripwire.warn(text); }
    Tripwire& tripwire;
    std::shared_ptr<std::atomic<bool>> disk_full;
  } both(progress, full);
  const TrainOutcome outcome = world.train(both);
  CHECK(outcome.run.status == registry::RunStatus::kDone);
  CHECK(world.id() == expected.id());
  CHECK(progress.warnings.find("no checkpoint at step 12") != std::string::npos);
  CHECK(progress.warnings.find("No space left on device") != std::string::npos);
}

TEST_CASE("a disk that is full when the model is stored: the error says how to resume, which gives the same bits") {
  World expected;
  expected.train();
  const auto full = std::make_shared<std::atomic<bool>>(false);
  World world(2, synthetic::kConfig, std::make_unique<SmallDisk>(full));
  Tripwire last_step(24, [&] { *full = true; });
  std::string hint;
  try {
    world.train(last_step);
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kIo);
    hint = error.hint;
  }
  CHECK(hint.find("make room") == 0);
  CHECK(hint.find("--resume " + world.run()) != std::string::npos);
  CHECK(registry::versions(*world.repository, "clf").empty());
  *full = false;
  world.open();  // the process that failed is gone
  const TrainOutcome resumed = world.train();
  // The checkpoint of step 16 was recorded when that of step 20 was made, which may have come too late itself.
  CHECK(parse_json(resumed.run.summary, "summary").at("resumed_from").get<int>() >= 16);
  CHECK(world.id() == expected.id());
  CHECK(registry::runs(*world.repository).size() == 1);
}

TEST_CASE("killed while a checkpoint may be written, at any step, and resumed: never stopped" *
          doctest::test_suite("long")) {
  World whole;
  whole.train();
  for (const std::uint64_t step : {1u, 8u, 13u}) {
    CAPTURE(step);
    World killed;
    killed.repository.reset();
    const pid_t child = fork();
    if (child == 0) {
      Pool pool(2);  // a pool's threads do not survive fork
      registry::Repository repository = registry::open_repository(killed.folder.path(), *killed.disk, pool);
      Tripwire tripwire(step, [] { kill(getpid(), SIGKILL); });
      TrainOptions options;
      options.backend = kernels::best_backend();
      train::train(repository, killed.config(), options, tripwire);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    killed.open();
    killed.train(killed.run());
    CHECK(killed.id() == whole.id());
  }
}

TEST_CASE("a repository that is removed in the middle ends the run with an error that says so") {
  World world(2, with("checkpoint_every = \"4 steps\"", replaced(synthetic::kConfig, "checkpoint_every = 0.5\n", "")));
  const std::string mlx = join_path(world.folder.path(), ".mlx");
  Tripwire tripwire(10, [&] {
    // A checkpoint is written meanwhile: files come and go.
    for (std::error_code busy; path_exists(mlx);) std::filesystem::remove_all(mlx, busy);
  });
  CHECK_THROWS_WITH_AS(world.train(tripwire), doctest::Contains("was removed during the run"), Error);
}

// Without norms, so that nothing holds the weights back.
std::string wild(const std::string& rate) {
  std::string config = replaced(synthetic::kConfig, "learning_rate = 0.05", "learning_rate = " + rate);
  for (int layer = 0; layer < 2; ++layer) config = replaced(config, "norm = \"batch\", ", "");
  return config;
}

std::string failure(World& world) {
  try {
    world.train();
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kDiverged);
    return error.message;
  }
  return "nothing was thrown";
}

TEST_CASE("a loss that is not finite names the step and the operation, and the last checkpoint is a good one") {
  for (const char* more : {"", "accumulate = 2", "ema = 0.9"}) {
    World world(2, with(more, wild("1000.0")));
    const std::string message = failure(world);
    CAPTURE(message);
    CHECK(message.find(" at step ") != std::string::npos);
    CHECK(message.find("was the first to become non-finite, at step ") != std::string::npos);
    CHECK(message.find(" (") != std::string::npos);
    const registry::Run run = registry::runs(*world.repository)[0];
    CHECK(run.status == registry::RunStatus::kFailed);
    CHECK(registry::versions(*world.repository, "clf").empty());
    if (registry::checkpoints(*world.repository, run.id).empty()) continue;
    const auto state = load_checkpoint(*world.repository, run.id, run.key);
    REQUIRE(state);
    CHECK(graph::first_not_finite(state->tensors).empty());
  }
}

}  // namespace
}  // namespace mlx::train::test
