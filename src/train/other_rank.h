// What every rank but the first does in a training. It needs a store with the data and no repository: rank 0, which has
// the repository, tells it everything else.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/parallel.h"
#include "base/progress.h"
#include "data/spool.h"
#include "dist/communicator.h"
#include "kernels/backend.h"
#include "store/pack/store.h"

namespace mlx::train {

struct OtherRank {
  dist::Communicator& ranks;
  std::function<kernels::Backend(const std::string& device)> backend;  // on this kind of device
  // The budget of the data, for so many bytes that all of the training may take; 0: no limit.
  std::function<data::MemoryBudget(std::int64_t memory)> data_memory;
  std::function<void(const Digest& version)> uses;  // is told which versions it will read; may be empty
};

// Waits for what rank 0 says, reads the data and takes part in the steps, if there are any. Throws kConflict if this
// program or machine would not train the same model as rank 0's, kNotFound if the store lacks the data.
void take_part(const store::Store& store, Pool& pool, const OtherRank& rank, Progress& progress);

}  // namespace mlx::train
