// Reading a SQLite database that this process cannot write into memory. Used by sqlite.cpp alone. The database and
// its WAL stay as they are; where the folder takes new files, SQLite may leave its own empty ones beside them.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"

struct sqlite3;

namespace mlx::store {

// What keeps this process from writing a database that stands at `path`, as far as a look tells (kIo): a read-only
// disk, permissions. nullopt where nothing does, where no file stands there, and for a database in memory.
std::optional<Error> obstacle_to_writing(const std::string& path);

// Fills `into`, a new database in memory, with one picture of what is committed in the one at `path`, its WAL included.
// SQLite's result code; SQLITE_CANTOPEN where there is no way to read it.
int copy_database(const std::string& path, sqlite3* into);

}  // namespace mlx::store
