// Exchange with remotes: operations as a graph, then the objects they name.
#pragma once

#include <string>
#include <vector>

#include "registry/operations/operation_stage.h"
#include "registry/repository.h"
#include "registry/settings/remotes.h"
#include "registry/versions/artifacts.h"

namespace mlx::registry {

struct SyncResult {
  std::uint64_t operations = 0, objects = 0, bytes = 0;  // bytes as they are stored
  std::vector<std::pair<std::string, Digest>> versions;  // artifact and digest of what the operations that went made
  std::uint64_t saved = 0;             // objects that were taken out of damaged packs (push with `repair`)
  std::vector<std::string> set_aside;  // paths of such packs
  std::vector<std::string> mended;     // names of small files of the remote that were written again
  std::vector<Digest> met;             // keys that this clone took on first contact (trust.h)
  std::vector<std::string> remarks;    // on what came: what had no effect, or changed what others had made (remarks.h)
};
// kRefused where [people] does not vouch for what would be published; kConflict where the remote has operations that
// are not here, and while a number or alias means two versions: what is published under a number keeps it. With
// `repair` not only what is new is looked at: damaged packs of a remote in a folder are set aside, and all that the
// remote has lost and this clone has is sent again; kNotFound at the end where it lost a version that is not here.
SyncResult push(Repository& repository, const RemoteConfig& remote, Progress& progress, bool repair = false);
// What push would send; nothing is made or changed. `without_missing`: as if missing_versions() were given up before.
SyncResult push_dry_run(Repository& repository, const RemoteConfig& remote, bool without_missing = false);
// The versions that keep this push from going, since their content is neither here nor on the remote. They can be given
// up (lost.h). With `repair` of all versions, as that looks at all.
std::vector<Version> missing_versions(Repository& repository, const RemoteConfig& remote, bool repair,
                                      Progress& progress);

// Of which versions the content comes with the operations: of those that pointers of the worktree name, of all, or of
// the pointers' but only what names their files (mlx clone --filter).
enum class FetchContent { kPointers, kEverything, kTrees };
struct FetchOptions {
  FetchContent content = FetchContent::kPointers;
  bool dry_run = false;  // nothing changes here; `objects` of the result counts versions whose content would come
  bool allow_unrelated = false;  // a history that has nothing in common with this clone's is joined to it
};
// kRefused, and nothing is recorded, where an operation does not count here (trust.h), or belongs to no history that
// this clone's was joined to (unrelated.h).
SyncResult fetch(Repository& repository, const RemoteConfig& remote, const FetchOptions& options, Progress& progress);
// A remote's heads, and the operations that they reach and this clone does not have; nothing is recorded.
struct RemoteHistory {
  std::vector<Digest> heads;
  OperationStage unknown;  // settled
};
RemoteHistory remote_history(Repository& repository, const RemoteConfig& remote, Progress& progress);

}  // namespace mlx::registry
