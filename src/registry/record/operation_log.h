// The record as people read it: what was done, newest first. Used by `mlx audit log`.
#pragma once

#include <cstdint>
#include <functional>

#include "registry/repository.h"

namespace mlx::registry {

struct LogEntry {
  Operation operation;
  bool undone = false;
  std::uint64_t checkpoints = 1;  // that it stands for
};
struct LogQuery {
  std::function<bool(const Operation&)> matches = {};  // empty: all do
  bool fold = false;                                   // the checkpoints of a run are one entry: that of the last one
  std::int64_t most = INT64_MAX;
};
// Newest first; the number of entries. While they are shown no lock of the database is held, and memory holds one.
std::uint64_t visit_log(Repository& repository, const LogQuery& query,
                        const std::function<void(const LogEntry&)>& visit);

}  // namespace mlx::registry
