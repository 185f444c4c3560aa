// Unrelated histories. A signature tells who made an operation, but not for which project, so operations signed for
// another project could be slipped into this one. Operations that descend from none that is known here are accepted
// only if a trusted person has joined the two histories, or if the user asks for it.
#pragma once

#include "registry/operations/operation_stage.h"
#include "registry/repository.h"
#include "registry/settings/remotes.h"

namespace mlx::registry {

// True if each of these settled operations belongs to a history that one of them joins to the recorded one. Their
// parents are recorded or among them.
bool all_joined(OperationStage& arriving);

// Throws kRefused, with how many and whose, if some of these settled operations belong to a history that none of them
// joins to the recorded one. Their parents are recorded here or among them. A clone without operations accepts any
// history.
void require_related(Repository& repository, const RemoteConfig& remote, OperationStage& arriving);

// Throws kRefused if there are unrelated histories and this clone's person may not record that they belong here.
void require_may_join(Repository& repository, OperationStage& arriving);

// If the recorded history has parts with nothing in common, records that they belong to one project.
void join_histories(Repository& repository);

}  // namespace mlx::registry
