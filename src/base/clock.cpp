// Time through std::chrono and gmtime_r.

#include "base/clock.h"

#include <fmt/core.h>

#include <chrono>
#include <ctime>

namespace mlx {

std::int64_t unix_micros() {
  // Not std::chrono::system_clock: it counts nanoseconds, and wraps in 2262.
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string iso_time(std::int64_t unix_micros) {
  constexpr std::int64_t kMicros = 1'000'000;
  std::int64_t seconds = unix_micros / kMicros;
  if (unix_micros % kMicros < 0) --seconds;  // rounds down before 1970 too
  const std::time_t time = seconds;
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) return fmt::format("@{}", seconds);  // beyond what a calendar year can hold
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace mlx
