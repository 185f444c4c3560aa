// A small text to train on: for tests of ranks that hold parts of a model.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/path.h"
#include "rank_run.h"
#include "registry/sync/open_repository.h"
#include "store/worktree/scan.h"
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

  operator RankData() const { return {repository.get(), dataset}; }

  TempFolder folder;
  Pool pool;
  std::unique_ptr<store::Disk> disk;
  std::unique_ptr<registry::Repository> repository;
  Digest dataset;
};

}  // namespace mlx::train::test
