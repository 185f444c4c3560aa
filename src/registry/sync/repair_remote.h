// What `mlx push --repair` mends beyond the remote's own repair: lost heads, and objects that do not match their ids.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/sync/sync.h"
#include "store/maintenance/repair.h"
#include "store/remote/remote.h"

namespace mlx::registry {

struct MendedHeads {
  std::uint64_t operations = 0;  // on the remote and known to this clone: the heads were derived from them
  std::uint64_t unknown = 0;     // on the remote and unknown here: a clone that knows them adds its heads with a push
};
// nullopt if the remote has its heads, or if none of its operations can be seen. `mended`: names of small files of the
// remote that were rewritten when it was opened.
std::optional<MendedHeads> mend_heads(Repository& repository, const RemoteConfig& remote,
                                      std::vector<std::string>& mended);

// Removes those of `objects` (this clone's content) from the remote that do not match their ids: chunk lists of other
// files, and invalid file lists. They can then be sent again. Returns how many. Does not check chunks: receivers verify
// them, and they are too many to fetch for this. Warns if the remote cannot remove objects.
std::size_t drop_poisoned(Repository& repository, store::Remote& remote, const std::vector<store::ObjectRef>& objects,
                          store::RepairReport& report, Progress& progress);

}  // namespace mlx::registry
