// Language models through a real repository: gpt2 and llama learn a text, threads and a stop in between change no bit,
// and what they learned is written again.
#include <doctest/doctest.h>

#include <csignal>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "nn/model.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/pointers.h"
#include "store/worktree/scan.h"
#include "train/trainer.h"
#include "world.h"

namespace mlx {
namespace {

const char* const kConfig = R"([data]
dataset = "data/rhyme"
tokenizer = "chars"
hold_out = 100
[model]
name = "lm"
family = "FAMILY"
layers = 2
width = 32
heads = 4
context = 16
dropout = 0.05
EXTRA
[train]
epochs = 4
batch = 4
seed = 5
optimizer = "adamw"
learning_rate = 0.01
checkpoint_every = 0.5
)";

constexpr int kSteps = 4 * 13;  // 860 characters in windows of 16, four at a time

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string rhyme_config(const std::string& family) {
  return replaced(replaced(kConfig, "FAMILY", family), "EXTRA", family == "llama" ? "kv_heads = 2\ntie = true" : "");
}

struct RhymeWorld {
  RhymeWorld(int threads, const std::string& family) : pool(threads), disk(store::real_disk()) {
    registry::Repository::init(folder.path(), *disk);
    const std::string data = join_path(folder.path(), "data/rhyme");
    make_folders(data);
    std::string text;
    for (int i = 0; i < 20; ++i) text += "the cat sat on the mat.\nthe dog sat on the log.\n";
    write_file_atomically(join_path(data, "train.txt"), text);
    write_file_atomically(join_path(folder.path(), "train.toml"), rhyme_config(family));
    repository = std::unique_ptr<registry::Repository>(
        new registry::Repository(registry::open_repository(folder.path(), *disk, pool)));
    NoProgress silent;
    registry::NewVersion version;
    version.artifact = "data/rhyme";
    version.manifest = store::add_folder(repository->store(), data, nullptr, &repository->stat_cache(), pool, silent);
    version.message = "rhyme";
    registry::create_version(*repository, version);
    registry::write_pointer(*repository, {"data/rhyme", registry::ArtifactKind::kDataset, version.manifest.id,
                                          version.manifest.files, version.manifest.bytes});
  }

  train::TrainOutcome train(Progress& progress, const std::string& resume = {}) {
    train::TrainOptions options;
    options.resume = resume;
    options.backend = kernels::best_backend();
    return train::train(*repository, train::read_train_config(join_path(folder.path(), "train.toml")), options,
                        progress);
  }

  TempFolder folder;
  Pool pool;
  std::unique_ptr<store::Disk> disk;
  std::unique_ptr<registry::Repository> repository;
};

}  // namespace

TEST_CASE("language models: the same bits with any number of threads, and stopped and resumed" *
          doctest::test_suite("long")) {
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    NoProgress silent;
    RhymeWorld one(1, family), two(2, family), three(3, family);
    const train::TrainOutcome whole = one.train(silent);
    CHECK(three.train(silent).version.digest == whole.version.digest);
    train::test::StopAt interrupt(17);
    CHECK_THROWS_AS(two.train(interrupt), Error);
    const std::vector<registry::Run> runs = registry::runs(*two.repository);
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].status == registry::RunStatus::kInterrupted);
    CHECK(two.train(silent, "run:" + runs[0].id).version.digest == whole.version.digest);
    CHECK(registry::metrics(*two.repository, runs[0].id, "train/loss").size() == static_cast<std::size_t>(kSteps));
    CHECK(nn::load_model(one.repository->store(), whole.version.digest).preprocessing.tokenizer->kind() == "chars");
  }
}

}  // namespace mlx
