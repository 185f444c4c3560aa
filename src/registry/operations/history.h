// The operations of one clone in its two places, journal and database, and the projection made from them. Used by
// repository.cpp and rebuild.cpp.
//
// Every function that changes something runs inside the caller's transaction (the write lock of meta.db).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "registry/operations/kinds.h"
#include "registry/operations/operation.h"
#include "registry/operations/operation_stage.h"
#include "store/disk.h"
#include "store/journal.h"
#include "store/pack/store.h"
#include "store/sqlite.h"

namespace mlx::registry {

const std::vector<const char*>& projected_tables();  // all that operations make; metrics are two of them
std::string journal_path(const std::string& mlx_folder);
std::uint64_t journal_size(const std::string& path);  // bytes; 0 where it is missing

// meta.db of this folder, made where it is missing.
store::Database open_metadata(const std::string& mlx_folder, store::Disk& disk);
// Of a database that was made anew, before the journal is applied to it and loses its torn end: where the journal is
// damaged or torn, or empty although packs are there, what was recorded before is not known, and that is noted.
void note_whether_history_lost(store::Database& db, const std::string& mlx_folder, store::Disk& disk);
bool is_history_lost(store::Database& db);
inline constexpr const char* kHistoryLost =
    "meta.db: was lost together with the journal or its end: what was recorded before is not known";
void note_history_found(store::Database& db);
// It is nowhere to be had: what is recorded from now on begins anew. gc still removes nothing.
void give_up_history(store::Database& db);
bool is_history_given_up(store::Database& db);
// Operations of packs that are neither recorded nor among `arriving`, and have all that is before them.
std::vector<Operation> unrecorded_in_packs(store::Database& db, const store::Store& store, OperationStage& arriving);

std::vector<Digest> select_heads(store::Database& db);  // sorted
bool is_recorded(store::Database& db, const Digest& id);
std::optional<std::int64_t> place_of(store::Database& db,
                                     const Digest& id);  // in the fixed order; nullopt: not recorded
// Of those before the recorded operations with these places, these included: a bit for each place up to the last, of
// what stands at `from` or later.
std::vector<bool> places_before(store::Database& db, std::vector<std::int64_t> of, std::int64_t from = 1);
std::vector<Digest> recorded_operations(store::Database& db);  // the ids of all
std::vector<Digest> select_parents(store::Database& db, const Digest& id);
// All operations in the fixed order, one at a time, each verified against its id.
void visit_operations(store::Database& db, const OperationStage::Visit& visit);
// The same, not decoded: to decode takes ten times as long.
void visit_encoded(store::Database& db,
                   const std::function<void(const Digest& id, const std::string& kind, ByteView bytes)>& visit);
// Of those at the places that are wanted.
void visit_operations_where(store::Database& db, const std::function<bool(std::int64_t place)>& wanted,
                            const OperationStage::Visit& visit);
std::vector<Operation> select_operations(store::Database& db);  // the same, all at once
// Those of one kind, unverified.
void visit_operations_of(store::Database& db, const std::string& kind, const OperationStage::Visit& visit);
// Those of all kinds that have digests in this role.
void visit_operations_naming(store::Database& db, const Kinds& kinds, Role role, const OperationStage::Visit& visit);
bool journal_differs(store::Database& db, const std::string& path);  // from what the database last agreed with
void note_journal_size(store::Database& db, const std::string& path);

// Applies operations that the database does not have: behind the others where the fixed order puts them there, else by
// rebuilding the projection. Their parents must be recorded or among them (kCorrupt). `unknown` is settled.
void adopt(store::Database& db, const store::Store& store, const Kinds& kinds, OperationStage& unknown,
           Progress& progress);
// The same of one whose parents are all heads.
void adopt(store::Database& db, const store::Store& store, const Kinds& kinds, const Operation& newest);

// Empties every projected table and applies all operations, settled. Metrics of runs that are still going on are kept:
// they stand in no operation yet.
void rebuild_projection(store::Database& db, const store::Store& store, const Kinds& kinds, OperationStage& all,
                        Progress& progress);

// Tables that an older mlx made of the operations, by other rules: made again.
bool is_outdated(store::Database& db);
void project_anew_where_outdated(store::Database& db, const store::Store& store, const Kinds& kinds);

// What a crash left: operations of the journal that were never applied are, and operations that the journal lost are
// appended to it again.
void catch_up(store::Database& db, const store::Store& store, const Kinds& kinds, store::Disk& disk,
              const std::string& mlx_folder);

}  // namespace mlx::registry
