// Where the ranks of a training run: --hosts and hostfiles. Used by cmd/hosts.cpp.
#pragma once

#include <string>
#include <vector>

namespace mlx::dist {

inline constexpr const char* kThisHost = "localhost";

struct Host {
  std::string name;  // kThisHost, or a name that ssh knows
  int ranks = 1;     // that train
  bool here() const { return name == kThisHost; }
};

// "localhost,b:2": b has two ranks. This machine, which has the repository, comes first in the result: with no rank if
// it is not named. Throws kUsage for a name that no host has, a host twice, a number of ranks that is none.
std::vector<Host> parse_hosts(const std::string& text);
// A host a line, as "b:2" or in Open MPI's form "b slots=2"; '#' begins a comment. Messages name `file` and the line.
std::vector<Host> parse_hostfile(const std::string& text, const std::string& file);

int ranks_on(const std::vector<Host>& hosts);

}  // namespace mlx::dist
