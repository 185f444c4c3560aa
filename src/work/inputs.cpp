// Resolves the references of work commands.

#include "work/inputs.h"

#include "base/error.h"
#include "base/path.h"
#include "base/text.h"
#include "registry/versions/references.h"
#include "store/worktree/scan.h"

namespace mlx::work {
namespace {

registry::Version resolve_kind(registry::Repository& repository, const std::string& reference,
                               registry::ArtifactKind kind) {
  registry::Version version = registry::resolve(repository, reference);
  if (version.kind != kind) {
    fail(ErrorKind::kUsage, "'{}' is a {}, expected a {}", reference, registry::kind_name(version.kind),
         registry::kind_name(kind));
  }
  return version;
}

// Work reads the pointer's version, so changes in the folder would be ignored silently.
void warn_where_folder_differs(registry::Repository& repository, const registry::Version& version, Progress& progress) {
  const std::string folder = join_path(repository.root(), version.artifact);
  if (!path_exists(folder)) return;
  NoProgress silent(progress.interruption());
  const std::vector<store::Entry> now = store::scan(folder, &repository.stat_cache(), repository.pool(), silent);
  if (store::compare(repository.store().entries(version.digest), now).empty()) return;
  progress.warn(fmt::format("{} differs from {}, which is used; `mlx add {}` stores the folder as it is",
                            version.artifact, version.name(), shell_quoted(version.artifact)));
}

}  // namespace

registry::Version resolve_dataset(registry::Repository& repository, const std::string& reference, Progress& progress) {
  registry::Version version = resolve_kind(repository, reference, registry::ArtifactKind::kDataset);
  if (registry::parse_reference(reference).selector.empty()) warn_where_folder_differs(repository, version, progress);
  return version;
}

registry::Version resolve_model(registry::Repository& repository, const std::string& reference) {
  return resolve_kind(repository, reference, registry::ArtifactKind::kModel);
}

}  // namespace mlx::work
