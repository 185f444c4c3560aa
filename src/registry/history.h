// The operations of one clone in its two places, journal and database, and the projection made from them. Used by
// repository.cpp and rebuild.cpp.
//
// Every function that changes something runs inside the caller's transaction (the write lock of meta.db).
#pragma once

#include <string>
#include <vector>

#include "registry/operation.h"
#include "store/disk.h"
#include "store/journal.h"
#include "store/sqlite.h"
#include "store/store.h"

namespace mlx::registry {

const std::vector<const char*>& projected_tables();  // all that operations make; metrics are two of them
std::string journal_path(const std::string& mlx_folder);
std::uint64_t journal_size(const std::string& path);  // bytes; 0 where it is missing

// meta.db of this folder, made where it is missing. Where it is made although packs are there and no journal is, that
// is noted: what was recorded before is not known.
store::Database open_metadata(const std::string& mlx_folder);
bool is_history_lost(store::Database& db);
void note_history_found(store::Database& db);

std::vector<Digest> select_heads(store::Database& db);  // sorted
bool is_recorded(store::Database& db, const Digest& id);
std::vector<Digest> select_parents(store::Database& db, const Digest& id);
std::vector<Operation> select_operations(store::Database& db);       // in the fixed order; each verified against its id
bool journal_differs(store::Database& db, const std::string& path);  // from what the database last agreed with
void note_journal_size(store::Database& db, const std::string& path);

// Applies operations that the database does not have: behind the others where the fixed order puts them there, else by
// rebuilding the projection. Their parents must be recorded or among them (kCorrupt).
void adopt(store::Database& db, const store::Store& store, std::vector<Operation> unknown);
void adopt(store::Database& db, const store::Store& store, std::vector<Operation> unknown, Progress& progress);

// Empties every projected table and applies `ordered` (the fixed order of all operations). Metrics of runs that are
// still going on are kept: they stand in no operation yet.
void rebuild_projection(store::Database& db, const store::Store& store, const std::vector<Operation>& ordered,
                        Progress& progress);

// Tables that an older mlx made of the operations, by other rules: made again.
bool is_outdated(store::Database& db);
void project_anew_where_outdated(store::Database& db, const store::Store& store);

// What a crash left: operations of the journal that were never applied are, and operations that the journal lost are
// appended to it again.
void catch_up(store::Database& db, const store::Store& store, store::Disk& disk, const std::string& mlx_folder);

}  // namespace mlx::registry
