// The whole program as a function; main.cpp calls it.
#pragma once

#include <string>
#include <vector>

namespace mlx::cmd {

int run_program(const std::vector<std::string>& args);  // without argv[0]; never throws

}  // namespace mlx::cmd
