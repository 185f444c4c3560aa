// Moves objects between a store and a remote: plain ids here, stored objects under storage ids there. Used by the
// registry's sync.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "store/remote/remote.h"

namespace mlx::store {

// Those of `objects` that the remote lacks, each once, in the order given.
std::vector<ObjectRef> missing_objects(Remote& remote, const std::vector<ObjectRef>& objects);
// Sends those of `objects` that the remote lacks, with the bases of deltas among them. Returns the stored bytes sent.
// kNotFound if `from` lacks one: what was sent before stays there, and is no longer missing.
std::uint64_t send_objects(const Store& from, Remote& remote, const std::vector<ObjectRef>& objects,
                           Progress& progress);
// Fetches those of `objects` that `to` lacks, with the bases of deltas among them. When it returns, they are verified,
// read back, durable and visible. Returns the stored bytes received. kNotFound if the remote lacks one: what came
// before stays. Every chunk of a chunk list must be here or among the objects; receive_files() takes care of that.
std::uint64_t receive_objects(Remote& remote, Store& to, const std::vector<ObjectRef>& objects, Progress& progress);
// The same for operations, by the ids that the remote lists, however many they are.
std::uint64_t receive_operations(Remote& remote, Store& to, const std::vector<Digest>& ids, Progress& progress);
// The same for a few objects that name others. They wait in memory: `bring_parts` gets their plain bytes and fetches
// what they name, and then they are published. Wherever this is cut short, none is here without its parts.
std::uint64_t receive_behind_parts(Remote& remote, Store& to, const std::vector<ObjectRef>& objects,
                                   const std::function<void(const std::vector<Bytes>&)>& bring_parts,
                                   Progress& progress);

struct FileRef {
  Digest id;
  std::optional<std::uint64_t> size;  // if a version says it
};
struct Received {
  std::uint64_t objects = 0, bytes = 0;
};
// Fetches files that the remote holds as chunk lists. The lists wait in memory until all their chunks are here, and are
// stored once they are verified to make the files. So every list in `to` is a whole file, wherever this is cut short.
// kCorrupt for a list that makes another file, or one of another size.
Received receive_files(Remote& remote, Store& to, const std::vector<FileRef>& files, Progress& progress);

// Whether the object is encrypted with a key that this store lacks; false if it is not there.
bool is_sealed(const Store& store, ObjectKind kind, const Digest& id);

// The bytes of these objects in packs.
std::uint64_t stored_bytes(const Store& store, const std::vector<ObjectRef>& objects);

// For remotes that are stores themselves.
std::vector<ObjectKey> lacking(const Store& store, const std::vector<ObjectKey>& keys);
// Adds stored objects to `to`, `read` by all cores, verified, in slices that are published one by one.
void add_stored_objects(Store& to, const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress);

}  // namespace mlx::store
