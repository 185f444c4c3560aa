// Ranks that share the optimizer's state make the bits of one that has all of it, in the model and in checkpoints,
// whoever resumes them. Ranks are threads here.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "base/error.h"
#include "shared_training.h"
#include "world.h"

namespace mlx::train::test {
namespace {

// Its matrices are cut into several slices, its vectors are not.
const char* const kSharedConfig = R"([data]
dataset = "data/bars"
hold_out = 64
[model]
name = "clf"
family = "mlp"
hidden = [96, 96]
norm = "batch"
[train]
epochs = 2
batch = 24
accumulate = 12
seed = 5
learning_rate = 0.01
checkpoint_every = "7 steps"
)";

std::string shared_config(const std::string& more) {
  return kSharedConfig + more;
}

}  // namespace

TEST_CASE("zero: any number of ranks makes the bits of one, in the model and in its checkpoints") {
  World world;
  for (const char* more :
       {"optimizer = \"adamw\"\nclip = 0.5\nweight_decay = 0.1\n", "optimizer = \"sgd\"\nema = 0.9\n",
        "optimizer = \"lion\"\nclip = 0.01\nema = 0.9\n", "optimizer = \"adamw\"\nwire = \"bf16\"\nclip = 0.5\n"}) {
    CAPTURE(more);
    const SharedRun whole = train_shared(world, shared_config(more), 1);
    CHECK(whole.sink.saved.size() > 2);
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      check_same(train_shared(world, shared_config(more) + "zero = 1\n", ranks), whole);
    }
  }
}

TEST_CASE("zero: eight ranks, which sum in rounds, make the bits of one") {
  World world;
  const std::string eights = replaced(kSharedConfig, "accumulate = 12", "accumulate = 24");
  for (const char* more : {"optimizer = \"adamw\"\nclip = 0.5\n", "optimizer = \"adamw\"\nwire = \"bf16\"\n"}) {
    CAPTURE(more);
    const SharedRun whole = train_shared(world, eights + more, 1);
    check_same(train_shared(world, eights + more, 8), whole);
    check_same(train_shared(world, eights + more + "zero = 1\n", 8), whole);
  }
}

TEST_CASE("zero: a checkpoint is resumed by any number of ranks, with and without it") {
  World world;
  const std::string config = shared_config("optimizer = \"adamw\"\nclip = 0.5\nema = 0.9\n");
  const auto of = [&](int zero) { return config + fmt::format("zero = {}\n", zero); };
  const SharedRun whole = train_shared(world, config, 1);
  struct Change {
    int zero, ranks, zero_again, ranks_again;
  };
  for (const Change& change :
       {Change{1, 3, 0, 1}, Change{1, 2, 1, 4}, Change{0, 1, 1, 3}, Change{1, 4, 0, 2}, Change{0, 2, 1, 2}}) {
    CAPTURE(change.ranks);
    CAPTURE(change.ranks_again);
    StopAt tripwire(9);
    SharedRun stopped;
    CHECK_THROWS_AS(train_shared(world, of(change.zero), change.ranks, stopped.sink, stopped.result, &tripwire), Error);
    REQUIRE(stopped.sink.last->step >= 9);
    REQUIRE(stopped.sink.last->step < whole.result.steps);
    SharedRun resumed;
    resumed.sink.last = stopped.sink.last;
    train_shared(world, of(change.zero_again), change.ranks_again, resumed.sink, resumed.result);
    CHECK(resumed.result.from == stopped.sink.last->step);
    CHECK(nn::encode_tensors(resumed.result.tensors) == nn::encode_tensors(whole.result.tensors));
    CHECK(nn::encode_tensors(resumed.sink.last->tensors) == nn::encode_tensors(whole.sink.last->tensors));
  }
}

TEST_CASE("zero: a checkpoint that cannot be stored, in the middle of its tensors, changes nothing") {
  struct HalfSink final : MemorySink {
    void save_checkpoint(CheckpointState state, bool) override {
      saved.push_back(state.step);
      auto at = state.late.shapes.begin();
      for (int i = 0; i < 5; ++i, ++at) (void)state.late.make(at->first);
      if (saved.size() > 1) throw Error(ErrorKind::kIo, "the disk is full");
    }
  };
  World world;
  const std::string config = shared_config("optimizer = \"adamw\"\nzero = 1\n");
  HalfSink half;
  TrainingResult result;
  CHECK_THROWS_WITH(train_shared(world, config, 2, half, result), "the disk is full");
  CHECK(half.saved == std::vector<std::int64_t>{7, 14});
}

TEST_CASE("zero: state that is not finite on one rank ends all, by its name") {
  World world;
  const std::string config = shared_config("optimizer = \"adamw\"\n");
  SharedRun stopped;
  StopAt tripwire(9);
  CHECK_THROWS_AS(train_shared(world, config, 1, stopped.sink, stopped.result, &tripwire), Error);
  for (const auto& each : stopped.sink.last->tensors) {
    const std::string name = each.first;
    if (name.find("weight.v") == std::string::npos) continue;
    CAPTURE(name);
    SharedRun spoilt;
    spoilt.sink.last = stopped.sink.last;
    Bytes& bytes = spoilt.sink.last->tensors.at(name).data;
    constexpr float kInfinite = std::numeric_limits<float>::infinity();
    std::memcpy(bytes.data() + bytes.size() - sizeof kInfinite, &kInfinite, sizeof kInfinite);
    for (const int zero : {0, 1}) {
      CHECK_THROWS_WITH(train_shared(world, config + fmt::format("zero = {}\n", zero), 2, spoilt.sink, spoilt.result),
                        fmt::format("'{}' is not finite at step {}", name, stopped.sink.last->step + 1).c_str());
    }
  }
}

TEST_CASE("zero: the forecast of memory has a rank's share of the optimizer's state") {
  World world;
  const std::string config = shared_config("optimizer = \"adamw\"\n");
  const auto weights = [&](const std::string& text, int ranks) {
    return train_shared(world, text, ranks).result.memory.weights;
  };
  const SharedRun whole = train_shared(world, config, 1);
  std::int64_t state = 0;
  for (const auto& [name, tensor] : whole.sink.last->tensors)
    if (name.ends_with(".m") || name.ends_with(".v")) state += static_cast<std::int64_t>(tensor.data.size());
  CHECK(state > 100000);
  for (const int ranks : {2, 4}) {
    const std::int64_t saved = weights(config, ranks) - weights(config + "zero = 1\n", ranks);
    CHECK(saved < state);
    CHECK(saved > state * (ranks - 1) / ranks * 3 / 4);  // pieces end at slices of a norm
  }
  CHECK(weights(config + "zero = 1\n", 1) == whole.result.memory.weights);
}

TEST_CASE("zero: what it cannot be combined with is refused") {
  World world;
  const auto refusal = [&](const std::string& more) {
    try {
      train_shared(world, shared_config(more + "zero = 1\n"), 2);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kUsage);
      return error.message.substr(error.message.find("[train]"));
    }
    return std::string();
  };
  CHECK(refusal("optimizer = \"muon\"\n") == "[train] zero = 1: muon works on whole matrices");
  CHECK(refusal("sync_every = 4\nworkers = 2\n") ==
        "[train] zero = 1: each worker of local SGD has an optimizer of its own");
  CHECK_THROWS_WITH_AS(config_of(shared_config("zero = 2\n")), doctest::Contains("zero"), Error);
}

}  // namespace mlx::train::test
