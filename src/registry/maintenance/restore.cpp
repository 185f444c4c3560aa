// Restores content in the usual ways: hashed if it comes from the worktree, verified if it comes from a remote.
#include "registry/maintenance/restore.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "base/error.h"
#include "base/path.h"
#include "registry/maintenance/damaged_versions.h"
#include "registry/sync/claims.h"
#include "registry/sync/key_sync.h"
#include "registry/sync/transfer.h"
#include "registry/versions/pointers.h"
#include "store/remote/transfer.h"
#include "store/worktree/add_files.h"
#include "store/worktree/scan.h"

namespace mlx::registry {
namespace {

using DigestSet = std::unordered_set<Digest, DigestHash>;

// Restores from one dataset's folder: the wanted files, or all files if their list is wanted, and that list if it
// matches the pointer.
std::uint64_t restore_folder(Repository& repository, const Pointer& pointer, const DigestSet& wanted,
                             Progress& progress) {
  const std::string folder = join_path(repository.root(), pointer.artifact);
  if (!path_exists(folder)) return 0;
  const std::vector<store::Entry> entries = store::scan(folder, &repository.stat_cache(), repository.pool(), progress);
  std::vector<std::pair<std::string, std::string>> files;
  std::uint64_t size = 0;
  for (const store::Entry& entry : entries) {
    size += entry.size;
    if (wanted.contains(entry.content) || wanted.contains(pointer.digest)) {
      files.emplace_back(is_folder(folder) ? join_path(folder, entry.path) : folder, entry.path);
    }
  }
  const bool same = entries.size() == pointer.files && size == pointer.size;
  if (files.empty() && !same) return 0;
  const auto batch = repository.store().begin();
  store::add_files(*batch, files, progress);
  if (same) batch->add_manifest(entries);
  batch->commit();
  return files.size();
}

std::uint64_t restore_from_remote(Repository& repository, const std::vector<DamagedFile>& hits,
                                  std::vector<store::ObjectRef> lost, const RemoteConfig& config, Progress& progress) {
  const auto remote = open_remote(repository, config, Direction::kFetch);
  SyncResult result;
  Transfer transfer{repository.store(), *remote, progress, result, tree_check(repository, progress)};
  std::ranges::sort(lost);
  std::vector<store::ObjectRef> nowhere = store::missing_objects(*remote, lost), there;
  std::ranges::sort(nowhere);
  std::ranges::set_difference(lost, nowhere, std::back_inserter(there));
  // A chunk list is fetched with all that it names.
  std::vector<Digest> files;
  for (const store::ObjectRef& object : there) {
    if (object.first == store::ObjectKind::kChunkList) files.push_back(object.second);
  }
  std::erase_if(there, [](const store::ObjectRef& object) { return object.first == store::ObjectKind::kChunkList; });
  store::receive_objects(*remote, repository.store(), there, progress);
  std::vector<Digest> manifests;
  manifests.reserve(hits.size());
  for (const DamagedFile& hit : hits) manifests.push_back(hit.manifest);
  std::ranges::sort(manifests);
  manifests.erase(std::unique(manifests.begin(), manifests.end()), manifests.end());
  const auto try_each = [](const std::vector<Digest>& ids, const std::function<void(const Digest&)>& receive) {
    for (const Digest& id : ids) {
      try {
        receive(id);
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kCorrupt) throw;  // another may have it
      }
    }
  };
  try_each(files, [&](const Digest& file) { receive_blobs(transfer, {file}, true); });
  try_each(manifests, [&](const Digest& manifest) { receive_manifests(transfer, {manifest}); });
  return there.size() + result.objects;
}

}  // namespace

Restored restore(Repository& repository, const std::vector<DamagedFile>& hits,
                 const std::vector<store::ObjectRef>& lost, const std::vector<RemoteConfig>& remotes,
                 Progress& progress) {
  Restored restored;
  DigestSet wanted;
  for (const DamagedFile& hit : hits) wanted.insert(hit.path.empty() ? hit.manifest : hit.content);
  for (const store::ObjectRef& object : lost) wanted.insert(object.second);
  for (const Pointer& pointer : readable_pointers(repository)) {
    if (pointer.kind != ArtifactKind::kDataset) continue;
    restored.files += restore_folder(repository, pointer, wanted, progress);
  }
  for (const RemoteConfig& remote : remotes) {
    try {
      restored.objects += restore_from_remote(repository, hits, lost, remote, progress);
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kInterrupted) throw;
      restored.unreached.push_back(fmt::format("'{}' could not be asked: {}", remote.name, error.message));
    }
  }
  return restored;
}

}  // namespace mlx::registry
