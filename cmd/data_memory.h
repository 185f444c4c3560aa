// --memory: what a command may take, and what of it the data that it loads may take. It changes no result.
#pragma once

#include <cstdint>
#include <string>

#include "cmd/cli/cli.h"
#include "data/spool.h"

namespace mlx::cmd {

// The bytes of --memory; 0 if it was not given. Throws kUsage for what is no size.
std::int64_t allowed_memory(const std::string& text);
// For data of at most so many bytes in memory; 0 means half of the machine's. What is beyond goes to a temporary file
// in TMPDIR, else in .mlx, which is on a disk that has room for data.
data::MemoryBudget data_memory(std::int64_t bytes, Context& context);
// The same for a training that may take `memory` bytes in all; 0: no limit.
data::MemoryBudget training_data_memory(std::int64_t memory, Context& context);
// The option of commands that only read data.
Option data_memory_option(std::string& memory);

}  // namespace mlx::cmd
