// Objects on their way between a store and a remote: what is known by plain ids here goes as stored objects under
// storage ids there. Used by the registry's sync.
#pragma once

#include <vector>

#include "base/progress.h"
#include "store/remote.h"

namespace mlx::store {

// Those of `objects` that the remote lacks, each once, in the order given.
std::vector<ObjectRef> missing_objects(Remote& remote, const std::vector<ObjectRef>& objects);
// Sends what the remote lacks of `objects`, with the bases of deltas among them; the stored bytes that went. kNotFound
// where `from` lacks one: what went before stays there, and is no longer missing.
std::uint64_t send_objects(const Store& from, Remote& remote, const std::vector<ObjectRef>& objects,
                           Progress& progress);
// Brings what `to` lacks of `objects`, with the bases of deltas among them: verified, read back, durable and visible
// when it returns; the stored bytes that came. kNotFound where the remote lacks one: nothing is published then.
std::uint64_t receive_objects(Remote& remote, Store& to, const std::vector<ObjectRef>& objects, Progress& progress);

// The bytes that these take in packs.
std::uint64_t stored_bytes(const Store& store, const std::vector<ObjectRef>& objects);

// For remotes that are stores themselves.
std::vector<ObjectKey> lacking(const Store& store, const std::vector<ObjectKey>& keys);
// Adds stored objects to `to`, `read` by all cores, verified, in slices that are published one by one.
void add_stored_objects(Store& to, const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress);

}  // namespace mlx::store
