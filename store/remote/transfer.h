// Objects on their way between a store and a remote: what is known by plain ids here goes as stored objects under
// storage ids there. Used by the registry's sync.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "store/remote/remote.h"

namespace mlx::store {

// Those of `objects` that the remote lacks, each once, in the order given.
std::vector<ObjectRef> missing_objects(Remote& remote, const std::vector<ObjectRef>& objects);
// Sends what the remote lacks of `objects`, with the bases of deltas among them; the stored bytes that went. kNotFound
// where `from` lacks one: what went before stays there, and is no longer missing.
std::uint64_t send_objects(const Store& from, Remote& remote, const std::vector<ObjectRef>& objects,
                           Progress& progress);
// Brings what `to` lacks of `objects`, with the bases of deltas among them: verified, read back, durable and visible
// when it returns; the stored bytes that came. kNotFound where the remote lacks one: what came before stays. Of chunk
// lists every chunk has to be here or among the objects; receive_files() sees to that.
std::uint64_t receive_objects(Remote& remote, Store& to, const std::vector<ObjectRef>& objects, Progress& progress);
// The same of operations, by the ids that the remote lists: as many as there may be.
std::uint64_t receive_operations(Remote& remote, Store& to, const std::vector<Digest>& ids, Progress& progress);
// The same of objects that name others, so few that they wait in memory: `bring_parts` is given their plain bytes, and
// they are published behind what it brings. Whatever kills it, none is here without its parts.
std::uint64_t receive_behind_parts(Remote& remote, Store& to, const std::vector<ObjectRef>& objects,
                                   const std::function<void(const std::vector<Bytes>&)>& bring_parts,
                                   Progress& progress);

struct FileRef {
  Digest id;
  std::optional<std::uint64_t> size;  // as a version says it
};
struct Received {
  std::uint64_t objects = 0, bytes = 0;
};
// Brings files that the remote holds as chunk lists: the lists are held in memory until every chunk that they name is
// here, and stored once they are seen to make the files. So a list in `to` is a whole file, whenever this is cut short.
// kCorrupt for a list that makes another file, or one of another size.
Received receive_files(Remote& remote, Store& to, const std::vector<FileRef>& files, Progress& progress);

// Whether the object is encrypted with a key that this store has not got; false where it is not there.
bool is_sealed(const Store& store, ObjectKind kind, const Digest& id);

// The bytes that these take in packs.
std::uint64_t stored_bytes(const Store& store, const std::vector<ObjectRef>& objects);

// For remotes that are stores themselves.
std::vector<ObjectKey> lacking(const Store& store, const std::vector<ObjectKey>& keys);
// Adds stored objects to `to`, `read` by all cores, verified, in slices that are published one by one.
void add_stored_objects(Store& to, const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress);

}  // namespace mlx::store
