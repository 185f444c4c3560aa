// Moves objects between the store and a remote (opened by key_sync.h). Used by the rest of sync.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/progress.h"
#include "registry/sync/sync.h"
#include "store/pack/store.h"
#include "store/remote/remote.h"
#include "store/remote/transfer.h"

namespace mlx::registry {

struct Transfer {
  store::Store& store;
  store::Remote& remote;
  Progress& progress;
  SyncResult& result;
  // Called before an arriving tree is stored; throws if it contradicts what operations claim (claims.h).
  std::function<void(const store::ManifestSummary&)> check_tree = {};
};

// Sends those of `objects` that the remote lacks. Duplicates are allowed.
void send_missing(Transfer& transfer, std::vector<store::ObjectRef> objects);

// Fetches the whole trees of `manifests`: roots, shards, chunk lists, chunks, with one exchange per level. Also checks
// below objects that are present, because an interrupted fetch leaves incomplete trees. Throws kNotFound if the remote
// lacks an object.
void receive_manifests(Transfer& transfer, const std::vector<Digest>& manifests);
// The same without contents: only what names files and sizes.
void receive_trees(Transfer& transfer, const std::vector<Digest>& manifests);
// Fetches those of `objects` that are not here. Throws kNotFound if the remote lacks one.
void receive_objects(Transfer& transfer, std::vector<store::ObjectRef> objects);
// Fetches files with their chunks. Throws kCorrupt if a file has another size than declared. A file that the remote
// lacks is kNotFound, or is skipped unless `required`.
void receive_files(Transfer& transfer, const std::vector<store::FileRef>& files, bool required);
// The same for blobs of unknown size. A blob that the remote lacks is kNotFound, or is skipped unless `required`.
void receive_blobs(Transfer& transfer, const std::vector<Digest>& blobs, bool required);

}  // namespace mlx::registry
