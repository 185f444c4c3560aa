// Wall and monotonic time, and time as text.
#pragma once

#include <cstdint>
#include <string>

namespace mlx {

std::int64_t unix_micros();                      // wall clock, microseconds since 1970
double seconds_now();                            // monotonic
std::string iso_time(std::int64_t unix_micros);  // "2026-01-31T12:00:00Z"

}  // namespace mlx
