// Histories that have nothing in common. A signature says who made an operation and not for which project, so that what
// somebody signed in another one could be put beside this one's: operations that lead to none that is known here are
// taken where somebody who counts has joined the two, or where the user says so.
#pragma once

#include <vector>

#include "registry/sync.h"

namespace mlx::registry {

// Of operations in the fixed order whose parents are recorded or stand among them: those of histories that no one of
// them joins to what is recorded.
std::vector<Operation> not_joined(const std::vector<Operation>& arriving);
// The same of what arrives here. None for a clone without operations, which has nothing to be joined to.
std::vector<Operation> unrelated_operations(Repository& repository, const std::vector<Operation>& arriving);

// kRefused, with how many and whose, where there are any.
void require_related(Repository& repository, const RemoteConfig& remote, const std::vector<Operation>& arriving);

// kRefused where there are any and this clone's person may not record that they belong here.
void require_may_join(Repository& repository, const std::vector<Operation>& arriving);

// Where what is recorded here falls into parts that have nothing in common: records that they belong to one project.
void join_histories(Repository& repository);

}  // namespace mlx::registry
