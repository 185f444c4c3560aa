// The keys of [train] for local SGD (train/loop/local_sgd.h). The number of workers changes the result, so all of them
// are part of a run's key.
#pragma once

#include <cstdint>

#include "base/json_fwd.h"
#include "base/toml.h"

namespace mlx::train {

struct LocalSgdConfig {
  std::int64_t sync_every = 0;                 // steps between two exchanges of the workers; 0: no local SGD
  std::int64_t workers = 1;                    // each is a rank
  double learning_rate = 0.7, momentum = 0.9;  // of the outer step

  bool wanted() const { return sync_every > 0; }
};

LocalSgdConfig read_local_sgd(TomlReader& train);
void write_local_sgd(const LocalSgdConfig& config, Json& train);  // nothing unless it is wanted

}  // namespace mlx::train
