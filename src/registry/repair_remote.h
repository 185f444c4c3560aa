// What `mlx push --repair` mends before it pushes: the heads of a remote that has lost them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/sync.h"

namespace mlx::registry {

struct MendedHeads {
  std::uint64_t operations = 0;  // that the remote holds and this clone knows: the heads were worked out from them
  std::uint64_t unknown = 0;     // that it holds and this clone does not know: whoever does adds theirs with a push
};
// nullopt where the remote has its heads, or none of its operations can be seen. `mended`: names of its small files
// that opening it has written again.
std::optional<MendedHeads> mend_heads(Repository& repository, const RemoteConfig& remote,
                                      std::vector<std::string>& mended);

}  // namespace mlx::registry
