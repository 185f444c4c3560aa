// Standard input: all of it for the operand `-`, or piece by piece.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/interruption.h"

namespace mlx::cmd {

// kUsage for more than `most` bytes, kIo if it cannot be read.
std::string read_standard_input(std::size_t most, const Interruption& interruption);
std::vector<std::string> lines_of_standard_input(const Interruption& interruption);  // without empty ones
// What can be read at once, at least one byte; 0 at the end. Ends with kInterrupted while it waits.
std::size_t read_some_input(void* data, std::size_t count, const Interruption& interruption);

}  // namespace mlx::cmd
