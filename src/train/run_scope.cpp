// Code state and bad ends of runs.

#include "train/run_scope.h"

#include "base/git.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "base/progress.h"
#include "store/crypto/keys.h"

namespace mlx::train {

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

void require_repository(const registry::Repository& repository) {
  if (path_exists(join_path(repository.mlx_folder(), "meta.db"))) return;
  throw Error(ErrorKind::kNotFound, fmt::format("{} was removed while the run went on", repository.mlx_folder()),
              "what was not stored before is lost; bring the folder back or make a new repository with `mlx init`");
}

void end_badly(registry::Repository& repository, const std::string& run, const Error& error) noexcept {
  const int signal = g_interrupted.exchange(0);  // or the store would stop for it in the middle of the last blob
  try {
    const char* status = error.kind == ErrorKind::kInterrupted ? "interrupted" : "failed";
    registry::end_run(repository, run, status, {}, Json::object(), error.message);
  } catch (const std::exception& again) {
    log("run:{} could not be ended: {}", run, again.what());
  }
  if (signal != 0) g_interrupted = signal;
}

}  // namespace mlx::train
