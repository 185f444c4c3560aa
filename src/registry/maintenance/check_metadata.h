// Checks that database, journal, packs and pointers agree. Used by `mlx fsck` and by gc.
#pragma once

#include <string>
#include <vector>

#include "registry/repository.h"

namespace mlx::registry {

// One line for each difference between the journal, the database and the operations that both are made of, and for each
// pointer in the worktree that is damaged or does not match its version.
struct MetadataCheck {
  std::vector<std::string> problems;
  bool rebuild = false;  // rebuild_database can repair some of them
};
MetadataCheck check_metadata(Repository& repository);

// One line for each damaged file of this clone's own: its id, and what it has seen at remotes. With `mend` they are
// removed: the next operation makes a new id, and the next contact with a remote records its state again.
std::vector<std::string> check_own_files(Repository& repository, bool mend);

// Operations that packs hold and meta.db lacks, each with the reason if it is known, and one line if the whole earlier
// history is lost. Empty if every operation ever recorded here is known.
std::vector<std::string> unknown_history(Repository& repository);

}  // namespace mlx::registry
