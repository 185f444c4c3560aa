// The table of commands: a new one is a file with its add_ function, a row here, a man page's prose and a test.
#pragma once

#include <vector>

#include "cmd/cli/cli.h"

namespace mlx::cmd {

enum Needs : unsigned { kNothing = 0, kNeedsRepo = 1 };

struct CommandRow {
  const char* name;
  Command (*add)();
  unsigned needs;
};

extern const std::vector<CommandRow> kCommands;

}  // namespace mlx::cmd
