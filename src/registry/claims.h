// What operations say of a version's files and bytes, and what its list of files says: figures that are shown and sent
// before the list is here have to be true. Used where operations and trees arrive, and by fsck.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "registry/repository.h"
#include "store/manifest.h"
#include "store/remote.h"

namespace mlx::registry {

// What the operation, which made this version, says of it and is not so; "" where nothing is.
std::string false_claim(const Operation& operation, const store::ManifestSummary& tree);
// kRefused, with operation, signer and figures, where one of `arriving` says what is not so of a version that is here,
// or that is among `wanted` and on the remote.
void require_true_claims(Repository& repository, const std::vector<Operation>& arriving, store::Remote& remote,
                         const std::vector<Digest>& wanted, Progress& progress);
// The same of the recorded operations that made a version, when its tree arrives.
std::function<void(const store::ManifestSummary&)> tree_check(Repository& repository);
// A line for each recorded operation that says what is not so of a version that is here.
std::vector<std::string> false_claims(Repository& repository);

}  // namespace mlx::registry
