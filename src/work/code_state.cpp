// Reads git's state through libgit2.
#include "work/code_state.h"

#include "base/git.h"
#include "base/json.h"
#include "store/crypto/keys.h"

namespace mlx::work {

std::string code_state(registry::Repository& repository) {
  const std::optional<GitState> git = read_git_state(repository.root(), true);
  if (!git) return "{}";
  Json out = {{"branch", git->branch}, {"dirty", git->dirty}, {"head", git->head}};
  if (!git->diff.empty()) {
    repository.store().use_domain(store::kHistoryDomain);
    const std::unique_ptr<store::Batch> batch = repository.store().begin();
    out["diff"] = batch->add_blob(as_bytes(git->diff)).text();
    batch->commit();
  }
  return canonical(out);
}

}  // namespace mlx::work
