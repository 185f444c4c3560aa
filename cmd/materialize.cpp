// Folders go through store::checkout; a single file is checked out beside and renamed into place, so that its
// neighbours stay.
#include "cmd/materialize.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/path.h"
#include "registry/checkouts.h"
#include "registry/repository.h"

namespace mlx::cmd {

bool is_single_file(registry::Repository& repository, const Digest& manifest, const std::string& artifact) {
  if (repository.store().summarize(manifest).files != 1) return false;
  return repository.store().entries(manifest)[0].path == base_name(artifact);
}

namespace {

bool already_there(registry::Repository& repository, const std::string& path, const store::Entry& entry,
                   Context& context) {
  if (!path_exists(path) || is_folder(path)) return false;
  const std::vector<store::Entry> now =
      store::scan(path, &repository.stat_cache(), repository.pool(), context.progress());
  return now.size() == 1 && now[0].content == entry.content && now[0].mode == entry.mode;
}

void check_replaceable(registry::Repository& repository, const std::string& path, Context& context) {
  if (!path_exists(path)) return;
  if (!is_folder(path)) {
    const std::vector<store::Entry> now =
        store::scan(path, &repository.stat_cache(), repository.pool(), context.progress());
    if (now.size() == 1 && repository.store().has_blob(now[0].content)) return;
  }
  throw Error(ErrorKind::kConflict, fmt::format("{} has changes that are in no version", path),
              "`mlx add` stores them, --force discards them");
}

void place(registry::Repository& repository, const Digest& manifest, const std::string& artifact,
           const std::string& path, bool force, Context& context) {
  store::StatCache* cache = &repository.stat_cache();
  if (!is_single_file(repository, manifest, artifact)) {
    store::checkout(repository.store(), manifest, path, force, cache, repository.pool(), context.progress());
    return;
  }
  const store::Entry entry = repository.store().entries(manifest)[0];
  if (already_there(repository, path, entry, context)) return;
  if (!force) check_replaceable(repository, path, context);
  const std::string beside = fmt::format("{}.mlx-tmp-{}", path, getpid());
  remove_tree(beside);
  try {
    store::checkout(repository.store(), manifest, beside, true, nullptr, repository.pool(), context.progress());
    if (is_folder(path)) remove_tree(path);
    if (std::rename(join_path(beside, entry.path).c_str(), path.c_str()) != 0) fail_errno(errno, path, "write");
  } catch (...) {
    remove_tree(beside);
    throw;
  }
  remove_tree(beside);
}

}  // namespace

void materialize(registry::Repository& repository, const Digest& manifest, const std::string& artifact,
                 const std::string& path, bool force, Context& context) {
  place(repository, manifest, artifact, path, force, context);
  if (path == join_path(repository.root(), artifact)) registry::note_checked_out(repository, artifact, manifest);
}

}  // namespace mlx::cmd
