// Runs another program without a shell.
#pragma once

#include <string>
#include <vector>

namespace mlx {

struct ProcessResult {
  int exit_code = 0;  // 128 + signal where it was killed; 127 where it could not be started
  std::string out, err;
};

// argv[0] is looked up in PATH. `input` is written to its stdin, which is then closed.
ProcessResult run_process(const std::vector<std::string>& argv, const std::string& input = {},
                          const std::string& folder = {});

}  // namespace mlx
