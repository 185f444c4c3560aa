// The history as people read it: what was done, newest first. Used by `mlx audit log`.
#pragma once

#include <cstdint>
#include <functional>

#include "registry/repository.h"

namespace mlx::registry {

struct LogEntry {
  Operation operation;
  bool undone = false;
  std::uint64_t checkpoints = 1;  // the number of checkpoints that the entry stands for
};
struct LogQuery {
  std::function<bool(const Operation&)> matches = {};  // empty: all operations match
  bool fold = false;                                   // show only the last checkpoint of each run
  std::int64_t most = INT64_MAX;
};
// Visits entries, newest first; returns their number. Holds no database lock while an entry is shown, and keeps one
// entry in memory.
std::uint64_t visit_log(Repository& repository, const LogQuery& query,
                        const std::function<void(const LogEntry&)>& visit);

}  // namespace mlx::registry
