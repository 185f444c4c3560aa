// Ranks whose batch norms are over the micro-batches of all train like one rank with the whole batch. Ranks are threads
// here.
#include "rank_run.h"
#include "train/loop/memory.h"
#include "world.h"

namespace mlx::train::test {
namespace {

const char* const kNormConfig = R"([data]
dataset = "data/bars"
hold_out = 44
augment = { shift = 1 }
[model]
name = "clf"
MODEL
[train]
epochs = 1
batch = 64
seed = 5
learning_rate = 0.01
)";
// With norms on the input, fused with an activation, and after a linear layer.
const char* const kNormed = R"(family = "cnn"
layers = [
  { norm = "batch", activation = "none" },
  { conv = 8, kernel = 3, norm = "batch", activation = "relu6" },
  { pool = "max", size = 2 },
  { conv = 16, kernel = 3, norm = "batch", activation = "relu" },
  { pool = "global" },
  { dense = 32, norm = "batch", activation = "relu" },
])";

std::string norm_config(const std::string& model, const std::string& more = {}) {
  return replaced(kNormConfig, "MODEL", model) + more;
}

std::string on_ranks_of(const std::string& config, int ranks) {
  return config + fmt::format("accumulate = {}\nbatch_norm = \"synchronised\"\n", ranks);
}

RankData bars_of(World& world) {
  return {world.repository.get(), registry::resolve(*world.repository, "data/bars").digest};
}

void check_norms_follow(const RankRun& parts, const RankRun& whole) {
  REQUIRE(whole.result.steps == 4);
  const auto &of_parts = parts.sink.metrics.at("train/loss"), &of_whole = whole.sink.metrics.at("train/loss");
  for (const auto& each : of_whole) {
    CAPTURE(each.first);
    CHECK(std::abs(of_parts.at(each.first) / each.second - 1) < 1e-5 * static_cast<double>(each.first));
  }
  REQUIRE(parts.result.tensors.size() == whole.result.tensors.size());
  for (const auto& each : whole.result.tensors) {
    CAPTURE(each.first);
    CHECK(largest_difference(each.second, parts.result.tensors.at(each.first)) < 4e-5);
  }
}

}  // namespace

TEST_CASE("synchronised norms: ranks follow one rank with the whole batch, with the same bits again") {
  World world;
  const RankData data = bars_of(world);
  const std::string resnet = "family = \"resnet\"\ndepth = 20\nwidth = 0.25";
  for (const std::string& model : {std::string(kNormed), resnet}) {
    CAPTURE(model);
    const std::string config = norm_config(model);
    const RankRun whole = train_on(data, config, 1);
    for (const int ranks : {2, 4}) {
      CAPTURE(ranks);
      const RankRun parts = train_on(data, on_ranks_of(config, ranks), ranks);
      check_norms_follow(parts, whole);
      CHECK(nn::encode_tensors(train_on(data, on_ranks_of(config, ranks), ranks).result.tensors) ==
            nn::encode_tensors(parts.result.tensors));
    }
  }
}

// In 16 blocks of relu6 some activation is so near to 0 that its rounding decides whether a gradient passes. So only
// one step is compared, in units of what norms give.
TEST_CASE("synchronised norms: ranks follow one rank through a step of mobilenet_v2") {
  World world;
  const RankData data = bars_of(world);
  const std::string model = "family = \"mobilenet_v2\"\nwidth = 0.25\nhalvings = 1\ndropout = 0";
  const std::string config = replaced(norm_config(model), "batch = 64", "batch = 256");
  const RankRun whole = train_on(data, config, 1);
  REQUIRE(whole.result.steps == 1);
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    const RankRun parts = train_on(data, on_ranks_of(config, ranks), ranks);
    CHECK(std::abs(parts.sink.metrics.at("train/loss").at(1) / whole.sink.metrics.at("train/loss").at(1) - 1) < 1e-5);
    for (const auto& each : whole.result.tensors) {
      CAPTURE(each.first);
      const graph::Tensor& tensor = each.second;
      double most = 0;
      for (std::size_t at = 0; at < tensor.data.size(); at += sizeof(float)) {
        float element = 0;
        std::memcpy(&element, tensor.data.data() + at, sizeof element);
        most = std::max(most, std::abs(double{element}));
      }
      const double apart = most * largest_difference(tensor, parts.result.tensors.at(each.first));
      CHECK(apart < 4e-5 * std::max(1.0, most));
    }
  }
}

TEST_CASE("synchronised norms: three ranks, and with other options of a training") {
  World world;
  const RankData data = bars_of(world);
  const std::string config = replaced(norm_config(kNormed), "batch = 64", "batch = 60");
  for (const char* more : {"clip = 0.05\nema = 0.9\noptimizer = \"adamw\"\n", "optimizer = \"adamw\"\n"}) {
    CAPTURE(more);
    const std::string of_ranks = on_ranks_of(config + more, 3);
    const RankRun whole = train_on(data, config + more, 1), parts = train_on(data, of_ranks, 3);
    check_norms_follow(parts, whole);
    CHECK(nn::encode_tensors(train_on(data, of_ranks + "zero = 1\n", 3).result.tensors) ==
          nn::encode_tensors(parts.result.tensors));
  }
  // Rounded gradients are far from those of one rank, and the same each time.
  const std::string half = on_ranks_of(config, 3) + "wire = \"bf16\"\n";
  CHECK(nn::encode_tensors(train_on(data, half, 3).result.tensors) ==
        nn::encode_tensors(train_on(data, half, 3).result.tensors));
}

TEST_CASE("synchronised norms: each micro-batch by itself has other statistics") {
  World world;
  const RankData data = bars_of(world);
  const std::string config = norm_config(kNormed);
  const RankRun whole = train_on(data, config, 1), apart = train_on(data, config + "accumulate = 4\n", 4);
  const std::string variance = "conv2.norm.running_var";
  REQUIRE(whole.result.tensors.contains(variance));
  CHECK(largest_difference(whole.result.tensors.at(variance), apart.result.tensors.at(variance)) > 1e-4);
}

TEST_CASE("synchronised norms: a rank whose loss is not finite ends all in the same step") {
  World world;
  const RankData data = bars_of(world);
  const std::string config = replaced(on_ranks_of(norm_config(kNormed, "weight_decay = 1\n"), 2), "0.01", "1000");
  CHECK_THROWS_WITH_AS(train_on(data, config, 2), doctest::Contains(" at step "), Error);
}

TEST_CASE("synchronised norms: what is sent for them is forecast, and what they exclude refused") {
  World world;
  const RankData data = bars_of(world);
  NoProgress silent;
  const auto traffic = [&](const std::string& config) {
    const train::Prepared prepared = train::prepare(data.repository->store(), data.dataset, config_of(config), nullptr,
                                                    kernels::best_backend(), silent);
    return least_memory(prepared.built, prepared.config, prepared.data, 4, false, kernels::best_backend())
        .at(0)
        .traffic;
  };
  const std::string config = norm_config(kNormed);
  const dist::Traffic apart = traffic(config + "accumulate = 4\n"), together = traffic(on_ranks_of(config, 4));
  // Two floats a channel of 8, 16 and 32 to three ranks, forward and backward; of 1 forward only: no weights below.
  CHECK(together.messages - apart.messages == 3 * 7);
  CHECK(together.bytes - apart.bytes == 3 * 2 * 4 * (2 * (8 + 16 + 32) + 1));
  CHECK(refusal(data, norm_config("family = \"mlp\"\nhidden = [8]") + "batch_norm = \"synchronised\"\n", 1) ==
        "[train] batch_norm = \"synchronised\": the model trains no batch norm");
  CHECK(refusal(data, config + "batch_norm = \"synchronised\"\nsync_every = 2\nworkers = 2\n", 2) ==
        "[train] batch_norm = \"synchronised\": the workers of local SGD do not wait for each other in a step");
  CHECK_THROWS_WITH_AS(config_of(config + "batch_norm = \"both\"\n"), doctest::Contains("batch_norm"), Error);
}

}  // namespace mlx::train::test
