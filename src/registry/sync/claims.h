// What operations say of a version's files and bytes, and what its list of files says: figures that are shown and sent
// before the list is here have to be true. Used where operations and trees arrive, and by fsck.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "registry/operations/kinds.h"
#include "registry/operations/operation_stage.h"
#include "registry/repository.h"
#include "store/pack/manifest.h"
#include "store/remote/remote.h"

namespace mlx::registry {

// What the operation, which made this version, says of it and is not so; "" where nothing is.
std::string false_claim(const Kinds& kinds, const Operation& operation, const store::ManifestSummary& tree);
// kRefused, with operation, signer and figures, where one of `arriving` says what is not so of a
// version whose list of files is here or on the remote: asked before anything is recorded. A warning where somebody
// else has signed what stands behind it: that is history, and nobody could clone it otherwise.
void require_true_claims(Repository& repository, OperationStage& arriving, store::Remote& remote, Progress& progress);
// Where a recorded operation says what is not so, and nobody else has built on it: makes the version again with the
// true figures, so that others can take both in. Each is warned of.
void restate_false_claims(Repository& repository, store::Remote& remote, Progress& progress);
// Warns of recorded operations that say what is not so of a version whose tree arrives.
std::function<void(const store::ManifestSummary&)> tree_check(Repository& repository, Progress& progress);
// A line for each of those that made this version.
std::vector<std::string> false_claims_of(Repository& repository, const store::ManifestSummary& tree);
// A line for each recorded operation that says what is not so of a version that is here, unless another one that made
// it has put that right.
std::vector<std::string> false_claims(Repository& repository);

}  // namespace mlx::registry
