// What `mlx push --repair` mends besides what the remote mends itself: heads that were lost, objects that are not what
// their ids say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/sync/sync.h"
#include "store/pack/repair.h"
#include "store/remote/remote.h"

namespace mlx::registry {

struct MendedHeads {
  std::uint64_t operations = 0;  // that the remote holds and this clone knows: the heads were worked out from them
  std::uint64_t unknown = 0;     // that it holds and this clone does not know: whoever does adds theirs with a push
};
// nullopt where the remote has its heads, or none of its operations can be seen. `mended`: names of its small files
// that opening it has written again.
std::optional<MendedHeads> mend_heads(Repository& repository, const RemoteConfig& remote,
                                      std::vector<std::string>& mended);

// Takes those of `objects` (this clone's content) out of the remote that are there and are not what their ids say:
// chunk lists of other files, lists of files that are none. What is taken out can be sent again. The number of them;
// chunks are verified by whoever receives them, and are too many to be fetched for this. A warning where the remote
// cannot.
std::size_t drop_poisoned(Repository& repository, store::Remote& remote, const std::vector<store::ObjectRef>& objects,
                          store::RepairReport& report, Progress& progress);

}  // namespace mlx::registry
