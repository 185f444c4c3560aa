// Histories that have nothing in common. A signature says who made an operation and not for which project, so that what
// somebody signed in another one could be put beside this one's: operations that lead to none that is known here are
// taken where somebody who counts has joined the two, or where the user says so.
#pragma once

#include "registry/operations/operation_stage.h"
#include "registry/repository.h"
#include "registry/settings/remotes.h"

namespace mlx::registry {

// Whether each of these settled operations, whose parents are recorded or stand among them, belongs to a history that
// one of them joins to what is recorded.
bool all_joined(OperationStage& arriving);

// kRefused, with how many and whose, where some of these settled operations belong to histories that no one of them
// joins to what is recorded. Their parents are recorded here or stand among them. A clone without operations has
// nothing to be joined to.
void require_related(Repository& repository, const RemoteConfig& remote, OperationStage& arriving);

// kRefused where there are any and this clone's person may not record that they belong here.
void require_may_join(Repository& repository, OperationStage& arriving);

// Where what is recorded here falls into parts that have nothing in common: records that they belong to one project.
void join_histories(Repository& repository);

}  // namespace mlx::registry
