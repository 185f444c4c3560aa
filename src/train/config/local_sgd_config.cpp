// Keys and bounds of local SGD.
#include "train/config/local_sgd_config.h"

#include "base/json.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kMostSteps = 10000;  // each step's loss waits for the exchange
constexpr std::int64_t kMostWorkers = 4096;

}  // namespace

LocalSgdConfig read_local_sgd(TomlReader& train) {
  LocalSgdConfig out;
  out.sync_every = train.integer("sync_every", 1, kMostSteps, 0);
  if (!out.wanted()) {
    for (const char* key : {"workers", "outer_learning_rate", "outer_momentum"})
      if (train.has(key)) train.fail_at(key, "it is only for local SGD, which sync_every asks for");
    return out;
  }
  out.workers = train.integer("workers", 1, kMostWorkers, 1);
  out.learning_rate = train.number("outer_learning_rate", 0, 10, out.learning_rate);
  out.momentum = train.number("outer_momentum", 0, 0.9999, out.momentum);
  return out;
}

void write_local_sgd(const LocalSgdConfig& config, Json& train) {
  if (!config.wanted()) return;
  train["sync_every"] = config.sync_every;
  train["workers"] = config.workers;
  train["outer_learning_rate"] = config.learning_rate;
  train["outer_momentum"] = config.momentum;
}

}  // namespace mlx::train
