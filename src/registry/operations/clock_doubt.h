// Whether this machine's clock can be right, by what it is to be written into. Order is the graph's affair: a wrong
// time misleads people, and nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "store/sqlite.h"

namespace mlx::registry {

// The time that an operation recorded now bears, unix microseconds: none is before 1970. kIo where the clock says a
// year that no operation can bear.
std::int64_t recordable_time(std::int64_t now);

// One line where `now` is years after `before`, what was known of the time until then; "" where it is not.
std::string far_ahead(std::int64_t now, std::int64_t before);

// The same of the last operation and of git's HEAD, whichever is later; "" where there is neither.
std::string doubt_of_clock(store::Database& db, const std::string& root, std::int64_t now);

// Whether the last that this clone took in before this time, by its own clock, or git's HEAD says that a clock which
// says `now` is wrong: then nobody knows how long ago anything was.
bool is_age_unknown(store::Database& db, const std::string& root, std::int64_t now, std::int64_t before);

}  // namespace mlx::registry
