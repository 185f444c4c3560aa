// Whether the data of pointers is on a remote. Behind `mlx push --check` and git's pre-push hook.
#pragma once

#include <string>
#include <vector>

#include "registry/pointers.h"
#include "registry/sync.h"

namespace mlx::registry {

// Those of `pointers` whose versions are on none of `remotes`; a remote that does not exist yet holds nothing.
std::vector<Pointer> on_no_remote(Repository& repository, const std::vector<Pointer>& pointers,
                                  const std::vector<RemoteConfig>& remotes);

// The pointers in the commits that git is about to push, each digest once. `lines` is what a pre-push hook reads from
// its standard input: "LOCAL-REF LOCAL-ID REMOTE-REF REMOTE-ID" a line, zeros for a ref that is deleted (githooks(5)).
std::vector<Pointer> pointers_in_push(const std::string& root, const std::string& lines);

}  // namespace mlx::registry
