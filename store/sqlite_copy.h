// Reads a SQLite database that this process cannot write into memory. Used by sqlite.cpp alone. The database and its
// WAL stay as they are; if the folder is writable, SQLite may leave empty files of its own beside them.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"

struct sqlite3;

namespace mlx::store {

// Why this process cannot write the database at `path`, as far as a look shows (kIo): a read-only disk, permissions.
// nullopt if nothing prevents it, if there is no such file, and for a database in memory.
std::optional<Error> obstacle_to_writing(const std::string& path);

// Fills `into`, a new database in memory, with one snapshot of the committed content of the one at `path`, its WAL
// included. Returns SQLite's result code; SQLITE_CANTOPEN if it cannot be read.
int copy_database(const std::string& path, sqlite3* into);

}  // namespace mlx::store
