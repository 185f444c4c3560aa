// The operations of one clone in the journal and the database, and the projection made from them. Used by
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

const std::vector<const char*>& projected_tables();  // every table made from operations, among them the two of metrics
std::string journal_path(const std::string& mlx_folder);
std::uint64_t journal_size(const std::string& path);  // in bytes; 0 if it is missing

// Opens meta.db of this folder; makes it if it is missing.
store::Database open_metadata(const std::string& mlx_folder, store::Disk& disk);
// Call for a new database before the journal is applied to it and its torn end is cut off. If the journal is damaged or
// torn, or is empty although there are packs, the earlier history is unknown; this is recorded in the database.
void note_whether_history_lost(store::Database& db, const std::string& mlx_folder, store::Disk& disk);
bool is_history_lost(store::Database& db);
inline constexpr const char* kHistoryLost =
    "meta.db: was lost together with the journal or its end: the earlier history is unknown";
void note_history_found(store::Database& db);
// Call if the lost history is nowhere to be found. Recording then starts anew; gc still removes nothing.
void give_up_history(store::Database& db);
bool is_history_given_up(store::Database& db);
// Operations in packs that are neither recorded nor among `arriving`, and whose ancestors are all known.
std::vector<Operation> unrecorded_in_packs(store::Database& db, const store::Store& store, OperationStage& arriving);

std::vector<Digest> select_heads(store::Database& db);  // sorted
bool is_recorded(store::Database& db, const Digest& id);
std::optional<std::int64_t> place_of(store::Database& db,
                                     const Digest& id);  // in the fixed order; nullopt if not recorded
// The operations at places `of` and their ancestors, as one bit per place up to the last. Only places from `from` on
// are set.
std::vector<bool> places_before(store::Database& db, std::vector<std::int64_t> of, std::int64_t from = 1);
std::vector<Digest> recorded_operations(store::Database& db);  // the ids of all operations
std::vector<Digest> select_parents(store::Database& db, const Digest& id);
// Visits all operations in the fixed order, one at a time, each verified against its id.
void visit_operations(store::Database& db, const OperationStage::Visit& visit);
// The same without decoding, which takes ten times as long.
void visit_encoded(store::Database& db,
                   const std::function<void(const Digest& id, const std::string& kind, ByteView bytes)>& visit);
// Visits the operations at the wanted places.
void visit_operations_where(store::Database& db, const std::function<bool(std::int64_t place)>& wanted,
                            const OperationStage::Visit& visit);
std::vector<Operation> select_operations(store::Database& db);  // all operations in the fixed order, at once
// Visits the operations of one kind, unverified.
void visit_operations_of(store::Database& db, const std::string& kind, const OperationStage::Visit& visit);
// Visits the operations of every kind that has digests in this role.
void visit_operations_naming(store::Database& db, const Kinds& kinds, Role role, const OperationStage::Visit& visit);
// True if the journal is not in the state that the database last agreed with.
bool journal_differs(store::Database& db, const std::string& path);
void note_journal_size(store::Database& db, const std::string& path);

// Applies operations that the database lacks: appends them if the fixed order allows it, else rebuilds the projection.
// Their parents must be recorded or among them (kCorrupt). `unknown` is settled.
void adopt(store::Database& db, const store::Store& store, const Kinds& kinds, OperationStage& unknown,
           Progress& progress);
// The same for one operation whose parents are the present heads.
void adopt(store::Database& db, const store::Store& store, const Kinds& kinds, const Operation& newest);

// Empties every projected table and applies all operations (settled). Keeps the metrics of running runs, because no
// operation holds them yet.
void rebuild_projection(store::Database& db, const store::Store& store, const Kinds& kinds, OperationStage& all,
                        Progress& progress);

// True if an older mlx made the tables by other rules; they are then made again.
bool is_outdated(store::Database& db);
void project_anew_where_outdated(store::Database& db, const store::Store& store, const Kinds& kinds);

// Recovers from a crash: applies operations of the journal that were never applied, and appends again operations that
// the journal lost.
void catch_up(store::Database& db, const store::Store& store, const Kinds& kinds, store::Disk& disk,
              const std::string& mlx_folder);

}  // namespace mlx::registry
