// Objects of the store on their way to and from a remote (key_sync.h opens those). Used by what syncs.
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
  // What is asked before a tree that arrived is stored: throws where it is not what operations say (claims.h).
  std::function<void(const store::ManifestSummary&)> check_tree = {};
};

// Sends those of `objects` that the remote lacks; doubles are fine.
void send_missing(Transfer& transfer, std::vector<store::ObjectRef> objects);

// Brings the whole trees of `manifests` here: roots, shards, chunk lists, chunks, each level in one exchange. Checks
// every object that is here already, since an interrupted fetch leaves trees without all of their leaves. kNotFound
// where the remote lacks one.
void receive_manifests(Transfer& transfer, const std::vector<Digest>& manifests);
// The same without their files: what names files and sizes, and none of the content.
void receive_trees(Transfer& transfer, const std::vector<Digest>& manifests);
// Those of `objects` that are not here. kNotFound where the remote lacks one.
void receive_objects(Transfer& transfer, std::vector<store::ObjectRef> objects);
// Files with the chunks that they are made of. kCorrupt for one that has another size than is said of it; those that
// the remote does not have either are kNotFound, or skipped where not `required`.
void receive_files(Transfer& transfer, const std::vector<store::FileRef>& files, bool required);
// The same of blobs whose size nobody says. Those that the remote does not have either are kNotFound, or skipped where
// not `required`.
void receive_blobs(Transfer& transfer, const std::vector<Digest>& blobs, bool required);

}  // namespace mlx::registry
