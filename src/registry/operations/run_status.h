// How far a run has come. Operations, the database and --json write it as a word.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace mlx::registry {

enum class RunStatus {
  kRunning,
  kDone,
  kFailed,
  kInterrupted,
  kKilled,  // its process has gone without ending it; no operation says so
};
inline constexpr std::array kRunStatuses = {RunStatus::kRunning, RunStatus::kDone, RunStatus::kFailed,
                                            RunStatus::kInterrupted, RunStatus::kKilled};

const char* name_of(RunStatus status);  // "running", "done" …
std::optional<RunStatus> parse_run_status(std::string_view name);
// Whether an operation can end a run with it: done, failed or interrupted.
bool is_recorded_end(RunStatus status);

}  // namespace mlx::registry
