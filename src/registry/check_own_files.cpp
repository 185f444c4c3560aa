// The small files of one clone that stand in no operation: its id and what it has seen at remotes.
#include <fmt/format.h>

#include "base/error.h"
#include "registry/fsck.h"
#include "registry/sync/seen_heads.h"

namespace mlx::registry {

std::vector<std::string> check_own_files(Repository& repository, bool mend) {
  std::vector<std::string> problems = damaged_seen(repository, mend);
  if (const std::string problem = repository.clone_id_problem(); !problem.empty()) {
    problems.push_back(problem);
    if (mend) repository.remove_clone_id();
  }
  return problems;
}

}  // namespace mlx::registry
