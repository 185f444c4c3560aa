#include "registry/sync/fetch_on_demand.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "registry/record/lost.h"
#include "registry/settings/settings.h"
#include "registry/sync/claims.h"
#include "registry/sync/key_sync.h"
#include "registry/sync/transfer.h"
#include "registry/versions/pointers.h"
#include "store/remote/remote.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;

struct Source {
  std::unique_ptr<store::Remote> remote;
  SyncResult result;
};

Source open_source(Repository& repository) {
  const Settings settings({repository.environment(), repository.root()});
  return {open_remote(repository, pick_remote(repository.root(), settings.text("remote.default")), Direction::kFetch),
          {}};
}

void receive_tree(Repository& repository, const Digest& manifest, Progress& progress) {
  Source source = open_source(repository);
  Transfer transfer{repository.store(), *source.remote, progress, source.result, tree_check(repository, progress)};
  receive_trees(transfer, {manifest});
}

void receive_content(Repository& repository, const std::vector<store::FileRef>& files, Progress& progress) {
  Source source = open_source(repository);
  Transfer transfer{repository.store(), *source.remote, progress, source.result, tree_check(repository, progress)};
  receive_files(transfer, files, true);
}

std::vector<store::FileRef> absent_of(Repository& repository, const std::vector<store::Entry>& entries) {
  std::vector<store::FileRef> absent;
  for (const store::Entry& entry : entries) {
    if (!repository.store().has_whole_blob(entry.content)) absent.push_back({entry.content, entry.size});
  }
  return absent;
}

// False if there is no remote, it cannot be reached, or it lacks what `fetch` wants.
bool had(const std::function<void()>& fetch) {
  try {
    fetch();
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kIo) throw;
    return false;
  }
}

}  // namespace

bool is_lazy(Repository& repository) {
  return Settings({repository.environment(), repository.root()}).text("fetch.filter") != "none";
}

void fetch_on_demand(Repository& repository, const std::vector<store::Entry>& wanted, Progress& progress) {
  const std::vector<store::FileRef> absent = absent_of(repository, wanted);
  if (!absent.empty() && is_lazy(repository)) receive_content(repository, absent, progress);
}

void fetch_on_demand(Repository& repository, const Digest& manifest, Progress& progress) {
  if (!repository.store().has(ObjectKind::kManifest, manifest)) {
    if (!is_lazy(repository)) return;  // the caller reports what is missing
    receive_tree(repository, manifest, progress);
  }
  fetch_on_demand(repository, repository.store().entries(manifest), progress);
}

bool fetch_files_of(Repository& repository, const Digest& manifest) {
  NoProgress quiet(repository.interruption());
  return had([&] { receive_tree(repository, manifest, quiet); });
}

bool fetch_content_of(Repository& repository, const Digest& manifest, Progress& progress) {
  if (is_lazy(repository)) return true;
  return had([&] {
    if (!repository.store().has(ObjectKind::kManifest, manifest)) receive_tree(repository, manifest, progress);
    const std::vector<store::FileRef> absent = absent_of(repository, repository.store().entries(manifest));
    if (!absent.empty()) receive_content(repository, absent, progress);
  });
}

void need_files_of(Repository& repository, const std::string& name, const Digest& manifest) {
  try {
    (void)repository.store().shards(manifest);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    if (const std::optional<Loss> loss = loss_of(repository, manifest)) {
      throw Error(ErrorKind::kNotFound, fmt::format("{}: {}", name, loss_text(repository, *loss)),
                  "if somebody still has it, `mlx push --repair` there restores it");
    }
    const std::vector<Pointer> pointers = all_pointers(repository);
    const bool pointed = std::ranges::find(pointers, manifest, &Pointer::digest) != pointers.end();
    throw Error(ErrorKind::kNotFound, fmt::format("{}: its content is not in this repository", name),
                pointed ? "`mlx pull` fetches it" : "`mlx fetch --all` fetches the content of every version");
  }
}

bool fetch_missing(Repository& repository, const std::vector<store::Store::Missing>& objects) {
  if (!is_lazy(repository)) return false;
  Source source = open_source(repository);
  NoProgress quiet(repository.interruption());
  Transfer transfer{repository.store(), *source.remote, quiet, source.result, tree_check(repository, quiet)};
  std::vector<Digest> trees;
  std::vector<store::FileRef> files;
  std::vector<store::ObjectRef> shards;
  for (const auto& [kind, id, size] : objects) {
    if (kind == ObjectKind::kManifest) trees.push_back(id);
    if (kind == ObjectKind::kShard) shards.emplace_back(kind, id);
    if (kind == ObjectKind::kChunk || kind == ObjectKind::kChunkList) files.push_back({id, size});
  }
  try {
    receive_trees(transfer, trees);
    receive_objects(transfer, shards);
    receive_files(transfer, files, true);
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kNotFound) return false;
    throw;
  }
  return true;
}

}  // namespace mlx::registry
