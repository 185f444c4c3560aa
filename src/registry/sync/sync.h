// Exchanges operations, and the objects that they name, with remotes.
#pragma once

#include <string>
#include <vector>

#include "registry/operations/operation_stage.h"
#include "registry/repository.h"
#include "registry/settings/remotes.h"
#include "registry/versions/artifacts.h"

namespace mlx::registry {

struct SyncResult {
  std::uint64_t operations = 0, objects = 0, bytes = 0;  // bytes as stored
  std::vector<std::pair<std::string, Digest>> versions;  // artifact and digest of versions that were sent or fetched
  std::uint64_t saved = 0;                               // objects rescued from damaged packs (push with `repair`)
  std::vector<std::string> set_aside;                    // paths of the damaged packs
  std::vector<std::string> mended;                       // names of small files of the remote that were rewritten
  std::vector<Digest> met;                               // keys that this clone accepted on first contact (trust.h)
  std::vector<std::string> remarks;  // on fetched operations: those without effect, or that changed others' (remarks.h)
};
// Throws kRefused if [people] does not vouch for what would be published; kConflict if the remote has operations that
// are not here, or while a number or alias means two versions (a published number never changes its meaning). With
// `repair` the whole remote is checked: damaged packs of a remote in a folder are set aside, and everything that the
// remote has lost and this clone has is sent again. Throws kNotFound at the end if the remote lost a version that is
// not here.
SyncResult push(Repository& repository, const RemoteConfig& remote, Progress& progress, bool repair = false);
// What push would send; changes nothing. `without_missing`: as if missing_versions() had been given up.
SyncResult push_dry_run(Repository& repository, const RemoteConfig& remote, bool without_missing = false);
// The versions that block this push because their content is neither here nor on the remote. They can be given up
// (lost.h). With `repair` all versions are checked, as that push does.
std::vector<Version> missing_versions(Repository& repository, const RemoteConfig& remote, bool repair,
                                      Progress& progress);

// Which versions' content a fetch brings: those that the worktree's pointers name, all, or only the file lists of the
// pointers' versions (mlx clone --filter).
enum class FetchContent { kPointers, kEverything, kTrees };
struct FetchOptions {
  FetchContent content = FetchContent::kPointers;
  bool dry_run = false;          // changes nothing here; `objects` counts versions whose content would come
  bool allow_unrelated = false;  // join a history that has nothing in common with this clone's
};
// Throws kRefused, and records nothing, if an operation does not count here (trust.h), or belongs to a history that was
// never joined to this clone's (unrelated.h).
SyncResult fetch(Repository& repository, const RemoteConfig& remote, const FetchOptions& options, Progress& progress);
// A remote's heads, and the operations that they reach and this clone lacks; records nothing.
struct RemoteHistory {
  std::vector<Digest> heads;
  OperationStage unknown;  // settled
};
RemoteHistory remote_history(Repository& repository, const RemoteConfig& remote, Progress& progress);

}  // namespace mlx::registry
