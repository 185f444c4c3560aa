// What pull and clone share: bringing the datasets of a repository to its worktree.
#pragma once

#include "base/json_fwd.h"
#include "cmd/cli/cli.h"
#include "registry/repository.h"

namespace mlx::cmd {

// Every dataset as its pointer says, models named; an entry for each. A lazy clone only brings what stands in the
// worktree already. kNotFound where a pointer's version is nowhere.
Json check_out_pointers(registry::Repository& repository, bool force, Context& context);

// Sets up git for this clone; says what could not be set up.
void set_up_git_clone(registry::Repository& repository, Context& context);

}  // namespace mlx::cmd
