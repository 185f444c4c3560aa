// See run_status.h.
#include "registry/operations/run_status.h"

#include <algorithm>

namespace mlx::registry {

const char* name_of(RunStatus status) {
  switch (status) {
    case RunStatus::kRunning:
      return "running";
    case RunStatus::kDone:
      return "done";
    case RunStatus::kFailed:
      return "failed";
    case RunStatus::kInterrupted:
      return "interrupted";
    case RunStatus::kKilled:
      return "killed";
  }
  return "";
}

std::optional<RunStatus> parse_run_status(std::string_view name) {
  const auto* const found =
      std::ranges::find(kRunStatuses, name, [](RunStatus status) { return std::string_view(name_of(status)); });
  return found == kRunStatuses.end() ? std::nullopt : std::optional(*found);
}

bool is_recorded_end(RunStatus status) {
  return status == RunStatus::kDone || status == RunStatus::kFailed || status == RunStatus::kInterrupted;
}

}  // namespace mlx::registry
