// A point in time as people type it, for --since and --until: "2026-01-31", "2026-01-31 12:00", "2026-01-31T12:00:05Z",
// "3 days", "90 minutes" (before now); and whether the time now can be right.
#pragma once

#include <cstdint>
#include <string>

namespace mlx::cmd {

// Unix microseconds; local time if no zone is given. kUsage naming `option`.
std::int64_t parse_moment(const std::string& text, const std::string& option);

// The problem of a clock that says this, or "": a wrong time in the record misleads people.
std::string clock_problem(std::int64_t unix_micros);

}  // namespace mlx::cmd
