// Ranks that hold the parts of one model train it like a rank that holds all of it, and leave whole checkpoints and
// models. Ranks are threads here.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "memory_sink.h"
#include "nn/model.h"
#include "registry/sync/open_repository.h"
#include "store/worktree/scan.h"
#include "tests/dist/ranks.h"
#include "train/loop/training_loop.h"
#include "train/prepared.h"
#include "world.h"

namespace mlx::train::test {
namespace {

const char* const kRhymeText = R"([data]
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

std::string text_config(const std::string& family, const std::string& optimizer = "sgd", const std::string& more = {}) {
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

  TempFolder folder;
  Pool pool;
  std::unique_ptr<store::Disk> disk;
  std::unique_ptr<registry::Repository> repository;
  Digest dataset;
};

struct RankRun {
  TrainingResult result{};
  MemorySink sink{};
};

// On `ranks` threads; sink and result are rank 0's. Goes on from the sink's last checkpoint.
void train_on(RhymeData& data, const std::string& config, int ranks, MemorySink& sink,
              const std::function<void(TrainingResult&)>& done, Progress* progress = nullptr) {
  dist::on_ranks(ranks, [&](dist::Communicator& own) {
    NoProgress silent;
    Pool pool(1);
    const kernels::Backend backend = kernels::best_backend();
    const train::Prepared prepared =
        train::prepare(data.repository->store(), data.dataset, config_of(config), nullptr, backend, silent);
    const bool first = own.rank() == 0;
    const TrainingData split =
        first ? load_training_data(data.repository->store(), data.dataset, prepared.config, silent)
              : load_training_split(data.repository->store(), data.dataset, prepared.config, silent);
    LoopOptions options;
    options.backend = backend;
    options.ranks = &own;
    options.verify_every = 3;
    options.resume = first && sink.last.has_value();
    options.keep_state = first;
    MemorySink nothing;
    TrainingResult result =
        run_training(prepared.config, prepared.built, split, options, first ? static_cast<RunSink&>(sink) : nothing,
                     pool, first && progress ? *progress : silent);
    if (first) done(result);
  });
}
void train_on(RhymeData& data, const std::string& config, int ranks, RankRun& out, Progress* progress = nullptr) {
  train_on(
      data, config, ranks, out.sink, [&](TrainingResult& result) { out.result = std::move(result); }, progress);
}
RankRun train_on(RhymeData& data, const std::string& config, int ranks) {
  RankRun out;
  train_on(data, config, ranks, out);
  return out;
}

// The largest difference of two tensors, in units of the largest element.
double largest_difference(const graph::Tensor& a, const graph::Tensor& b) {
  REQUIRE(a.shape == b.shape);
  double most = 0, apart = 0;
  for (std::size_t at = 0; at < a.data.size(); at += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, a.data.data() + at, sizeof x);
    std::memcpy(&y, b.data.data() + at, sizeof y);
    most = std::max(most, std::abs(double{x}));
    apart = std::max(apart, std::abs(double{x} - double{y}));
  }
  return most > 0 ? apart / most : apart;
}

void check_follows(const RankRun& parts, const RankRun& whole, double tolerance) {
  REQUIRE(parts.result.steps == whole.result.steps);
  for (const char* metric : {"train/loss", "train/gradient_norm", "valid/loss"}) {
    CAPTURE(metric);
    const auto &of_parts = parts.sink.metrics.at(metric), &of_whole = whole.sink.metrics.at(metric);
    REQUIRE(of_parts.size() == of_whole.size());
    for (const auto& [step, value] : of_whole) {
      CAPTURE(step);
      CHECK(std::abs(of_parts.at(step) / value - 1) < tolerance);
    }
  }
  REQUIRE(parts.result.tensors.size() == whole.result.tensors.size());
  for (const auto& [name, tensor] : whole.result.tensors) {
    CAPTURE(name);
    CHECK(largest_difference(tensor, parts.result.tensors.at(name)) < 10 * tolerance);
  }
}

}  // namespace

TEST_CASE("tensor parallel: two parts of a model follow the whole, with the same bits again") {
  RhymeData data;
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const std::string config = text_config(family);
    const RankRun whole = train_on(data, config, 1), parts = train_on(data, config + "tp = 2\n", 2);
    CHECK(whole.result.steps == 13);
    check_follows(parts, whole, 1e-5);
    CHECK(nn::encode_tensors(train_on(data, config + "tp = 2\n", 2).result.tensors) ==
          nn::encode_tensors(parts.result.tensors));
    CHECK(parts.sink.saved == whole.sink.saved);
    REQUIRE(parts.sink.last->tensors.size() == whole.sink.last->tensors.size());
    for (const auto& [name, tensor] : whole.sink.last->tensors)
      CHECK_MESSAGE(tensor.shape == parts.sink.last->tensors.at(name).shape, name);
  }
}

TEST_CASE("tensor parallel: with data parallel the bits do not depend on how many share a batch") {
  RhymeData data;
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const std::string config = text_config(family, "sgd", "accumulate = 2\nema = 0.9\n");
    const RankRun whole = train_on(data, config, 1), two = train_on(data, config + "tp = 2\n", 2),
                  four = train_on(data, config + "tp = 2\n", 4);
    check_follows(two, whole, 1e-5);
    CHECK(nn::encode_tensors(four.result.tensors) == nn::encode_tensors(two.result.tensors));
    CHECK(four.sink.metrics.at("train/gradient_norm") == two.sink.metrics.at("train/gradient_norm"));
    CHECK(nn::encode_tensors(four.sink.last->tensors) == nn::encode_tensors(two.sink.last->tensors));
  }
}

TEST_CASE("tensor parallel: any number of parts resumes a checkpoint") {
  RhymeData data;
  const std::string config = text_config("gpt2", "adamw");
  const auto of = [&](int parts) { return config + fmt::format("tp = {}\n", parts); };
  const RankRun whole = train_on(data, config, 1);
  for (const int parts : {1, 2, 4}) {
    CAPTURE(parts);
    StopAt tripwire(6);
    const std::int64_t last = parts == 1 ? 6 : 7;  // the others are told with a step's result
    RankRun stopped;
    CHECK_THROWS_WITH_AS(train_on(data, of(parts), parts, stopped, &tripwire),
                         fmt::format("interrupted after step {} of 13; a checkpoint is kept", last).c_str(), Error);
    REQUIRE(stopped.sink.last->step == last);
    for (const int again : {1, 2, 4}) {
      CAPTURE(again);
      RankRun resumed = stopped;
      train_on(data, of(again), again, resumed);
      CHECK(resumed.result.from == last);
      check_follows(resumed, whole, 1e-4);
      if (again == parts)
        CHECK(nn::encode_tensors(resumed.result.tensors) ==
              nn::encode_tensors(train_on(data, of(parts), parts).result.tensors));
    }
  }
}

TEST_CASE("tensor parallel: a checkpoint that cannot be stored, in the middle of its tensors, changes nothing") {
  struct FullSink final : MemorySink {
    void save_checkpoint(CheckpointState state, bool) override {
      saved.push_back(state.step);
      if (!state.late.shapes.empty()) (void)state.late.make(state.late.shapes.begin()->first);
    }
  };
  RhymeData data;
  const std::string config = text_config("gpt2") + "tp = 2\n";
  const RankRun whole = train_on(data, config, 2);
  FullSink full;
  graph::Tensors tensors;
  train_on(data, config, 2, full, [&](TrainingResult& result) { tensors = std::move(result.tensors); });
  CHECK(full.saved == whole.sink.saved);
  CHECK(nn::encode_tensors(tensors) == nn::encode_tensors(whole.result.tensors));
}

TEST_CASE("tensor parallel: what cannot be divided is refused") {
  RhymeData data;
  const auto refusal = [&](const std::string& config, int ranks) {
    try {
      train_on(data, config, ranks);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUsage);
      return error.message.substr(error.message.find("[train]"));
    }
    return std::string();
  };
  const std::string gpt2 = text_config("gpt2");
  CHECK(refusal(gpt2 + "tp = 3\n", 3) == "[train] tp = 3: 'block0.attention' has 4 heads, which 3 ranks do not divide");
  CHECK(refusal(text_config("llama") + "tp = 4\n", 4) ==
        "[train] tp = 4: 'block0.attention.rope' has 2 heads of keys and values, which 4 ranks do not divide");
  CHECK(refusal(gpt2 + "tp = 2\n", 3) == "[train] tp = 2: the number of ranks, 3, is no multiple of it");
  CHECK(refusal(text_config("gpt2", "muon") + "tp = 2\n", 2) == "[train] tp = 2: muon works on whole matrices");
}

}  // namespace mlx::train::test
