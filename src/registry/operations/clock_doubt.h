// Doubts about this machine's clock, judged by the history and git. The graph decides the order of operations: a wrong
// time misleads people, and nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "store/sqlite.h"

namespace mlx::registry {

// The time for an operation recorded now, in unix microseconds; at least 0 (1970). Throws kIo if the clock's year is
// beyond what an operation can record.
std::int64_t recordable_time(std::int64_t now);

// One line if `now` is years after `before`, the latest time known so far; else "".
std::string far_ahead(std::int64_t now, std::int64_t before);

// The same with the later of the last operation's time and git's HEAD; "" if there is neither.
std::string doubt_of_clock(store::Database& db, const std::string& root, std::int64_t now);

// True if `now` is years after the last operation that this clone accepted before `before` (by its own clock), and not
// close to git's HEAD either. The clock is then doubtful, and nobody knows how long ago anything was.
bool is_age_unknown(store::Database& db, const std::string& root, std::int64_t now, std::int64_t before);

}  // namespace mlx::registry
