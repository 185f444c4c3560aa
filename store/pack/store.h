// The content-addressed store: everything above reads and writes through it. Objects (chunks, chunk lists, manifests,
// operations) live in packs; identity is SHA-256 of plain content whatever the chunking, compression or encryption.
//
// Threading: a Store may be read by many threads at once. A Batch belongs to one caller but parallelises inside.
// Durability: what a Batch added can be read by others, and survives power loss, once commit() has returned.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "store/disk.h"
#include "store/format/manifest.h"
#include "store/pack/batch.h"
#include "store/pack/blob_reader.h"
#include "store/pack/fsck.h"

namespace mlx::store {

struct StoreStat {
  std::uint64_t packs = 0, objects = 0, stored_bytes = 0;
};

class KeySource;
struct StoreState;

struct StoreOptions {
  std::uint64_t pack_size = std::uint64_t{64} << 20;  // a pack is closed once it is this large
  std::shared_ptr<KeySource> keys = nullptr;          // of an encrypted store
  // Ends long reading and writing, also where a call takes no Progress.
  const Interruption* interruption = &Interruption::never();
};

class Store {
 public:
  // `folder` is .mlx (or a folder remote's root). Both create what is missing below it with create(), and refuse an
  // unknown layout.
  // With `encrypted` everything in its packs is encrypted, under the keys that it is opened with.
  static void create(const std::string& folder, Disk& disk, bool encrypted = false);
  // kNotFound if there is none, kCorrupt if its layout is not known.
  Store(const std::string& folder, Disk& disk, Pool& pool, StoreOptions options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& folder() const;
  bool encrypted() const;
  const Interruption& interruption() const;
  Disk& disk() const;  // those it was opened with
  Pool& pool() const;
  // From now on, what is added is encrypted under this domain's key ("main" by default); operations always go under the
  // history's. Nothing is shared between domains. Without effect in a plain store.
  void use_domain(const std::string& domain);
  const std::string& domain() const;  // the one in use
  // Every storage id that an object may have: its id and, in an encrypted store, one for each key.
  std::vector<Digest> storage_ids(const Digest& id) const;
  bool has(ObjectKind kind, const Digest& id) const;
  bool has_blob(const Digest& id) const;  // a file's content: as one chunk or as a chunk list
  // The same with every chunk: false for a file that an interrupted fetch has left incomplete.
  bool has_whole_blob(const Digest& id) const;
  // The plain bytes of one object, verified. kNotFound / kCorrupt.
  Bytes read(ObjectKind kind, const Digest& id) const;
  BlobReader open_blob(const Digest& id) const;
  Bytes read_blob(const Digest& id) const;  // whole; for small things
  // Visits a manifest and everything below it: shards, files' chunk lists and chunks.
  void visit_reachable_manifest(const Digest& manifest,
                                const std::function<void(ObjectKind, const Digest&)>& visit) const;
  // The same for one blob (a sealed metric series, an attachment): its chunk, or its chunk list and every chunk of it.
  void visit_reachable_blob(const Digest& blob, const std::function<void(ObjectKind, const Digest&)>& visit) const;

  std::vector<ShardRef> shards(const Digest& manifest) const;
  std::vector<Entry> entries(const Digest& manifest) const;  // all, sorted
  // The same for a manifest that is not stored yet but whose shards are.
  std::vector<Entry> entries_of(const Digest& manifest, const std::vector<ShardRef>& shards) const;
  ManifestSummary summarize(const Digest& manifest) const;
  std::optional<Entry> find(const Digest& manifest, const std::string& path) const;  // reads one shard

  // From now on, until this store is closed, a gc in another process keeps what has() and the like find. For callers
  // that will refer to objects that are there already; begin() implies it.
  void keep_found();
  // Ends keep_found(): from now on this store only reads, which needs no room on the disk.
  void stop_keeping();
  std::unique_ptr<Batch> begin();
  std::vector<Digest> operations() const;     // ids of all operation objects in packs
  FsckReport fsck(Progress& progress) const;  // reads and verifies every byte
  StoreStat stat() const;
  // Versions that must not be read, with the error for each. Replaces those of the last call.
  void refuse(std::unordered_map<Digest, Error, DigestHash> manifests);
  void reload();  // sees packs that others have added since
  // `fetch` is called for absent objects (a file's content by its chunk list), and returns whether they may be here
  // now. Any reading thread may call it, one at a time.
  struct Missing {
    ObjectKind kind = ObjectKind::kChunkList;
    Digest id;
    std::optional<std::uint64_t> size = {};  // of a file's content, if a version says it
  };
  using Fetch = std::function<bool(const std::vector<Missing>& objects)>;
  void on_missing(Fetch fetch);
  // Announces that these files will be read: absent ones are fetched at once, if on_missing() is set.
  void want(const std::vector<Entry>& files) const;

 private:
  friend struct StoreAccess;
  std::unique_ptr<StoreState> state_;  // store_state.h
};

}  // namespace mlx::store
