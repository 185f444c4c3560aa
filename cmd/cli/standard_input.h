// All of standard input, for the operand `-`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mlx::cmd {

// kUsage for more than `most` bytes, kIo if it cannot be read.
std::string read_standard_input(std::size_t most);
std::vector<std::string> lines_of_standard_input();  // without empty ones

}  // namespace mlx::cmd
