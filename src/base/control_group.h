// What the control groups of this process allow it: how a container, a systemd unit or a batch system limits its
// processes. cgroups(7), version 1 and version 2. Used by parallel.cpp and process_use.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mlx {

struct GroupLimits {
  std::optional<double> cpus;          // seconds of all CPUs in a second
  std::optional<std::int64_t> memory;  // bytes
};

// The least that the process's groups allow, from its own up to the root. What cannot be read limits nothing. `proc`
// names the process; the folders of groups are looked up below `root` (for tests; "" is the system's own).
GroupLimits group_limits(const std::string& proc = "/proc/self", const std::string& root = "");

}  // namespace mlx
