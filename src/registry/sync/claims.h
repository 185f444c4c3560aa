// Checks what operations claim about a version's number of files and bytes against its file list. Commands show and
// send these figures before the list is here, so they have to be true. Used where operations and trees arrive, and by
// fsck.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "registry/operations/kinds.h"
#include "registry/operations/operation_stage.h"
#include "registry/repository.h"
#include "store/format/manifest.h"
#include "store/remote/remote.h"

namespace mlx::registry {

// The false claim in the operation that made this version; "" if its claims are true.
std::string false_claim(const Kinds& kinds, const Operation& operation, const store::ManifestSummary& tree);
// Throws kRefused, with operation, signer and figures, if one of `arriving` makes a false claim about a version whose
// file list is here or on the remote. Called before anything is recorded. Only warns if somebody else has signed
// operations that build on it: nobody could clone that history otherwise.
void require_true_claims(Repository& repository, OperationStage& arriving, store::Remote& remote, Progress& progress);
// If a recorded operation makes a false claim and nobody else has built on it, makes the version again with the true
// figures, so that others accept both. Warns about each.
void restate_false_claims(Repository& repository, store::Remote& remote, Progress& progress);
// Returns a check that warns about recorded operations with false claims about an arriving version.
std::function<void(const store::ManifestSummary&)> tree_check(Repository& repository, Progress& progress);
// One line for each false claim of the operations that made this version.
std::vector<std::string> false_claims_of(Repository& repository, const store::ManifestSummary& tree);
// One line for each recorded operation with a false claim about a version that is here, unless another operation that
// made the version has corrected it.
std::vector<std::string> false_claims(Repository& repository);

}  // namespace mlx::registry
