// Whether database, journal, packs and pointers agree. Used by `mlx fsck` and by gc.
#pragma once

#include <string>
#include <vector>

#include "registry/repository.h"

namespace mlx::registry {

// A line for each difference between the journal, the database and the operations that both are made of, and for each
// pointer in the worktree that is damaged or does not fit its version.
struct MetadataCheck {
  std::vector<std::string> problems;
  bool rebuild = false;  // rebuild_database mends some of it
};
MetadataCheck check_metadata(Repository& repository);

// A line for each of this clone's own small files that is damaged: its id, and what it has seen at remotes. With `mend`
// they go: a new id is made with the next operation, and what was seen is seen again.
std::vector<std::string> check_own_files(Repository& repository, bool mend);

// Operations that packs hold and meta.db does not, each with why where that is seen; and a line where all that was
// recorded before is lost. Empty where everything is known that was ever recorded here.
std::vector<std::string> unknown_history(Repository& repository);

}  // namespace mlx::registry
