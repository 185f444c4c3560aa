// The content-addressed store: what everything above reads and writes through. Objects (chunks, chunk lists, manifests,
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
#include "store/pack/manifest.h"

namespace mlx::store {

enum class ObjectKind : std::uint8_t { kChunk = 1, kChunkList = 2, kManifest = 3, kShard = 4, kOperation = 5 };

// Random access into one stored file; chunks are verified as they are read (kCorrupt names file and pack), and the
// whole file where it is read in order, before its last bytes are given out. Keeps the last chunk; not thread-safe
// (open one per thread). Outlived by its Store.
class BlobReader {
 public:
  ~BlobReader();
  BlobReader(BlobReader&&) noexcept;
  std::uint64_t size() const;
  const Digest& id() const;
  // Up to `count` bytes from `offset`; fewer only at the end.
  std::size_t read_at(std::uint64_t offset, void* data, std::size_t count) const;

 private:
  friend class Store;
  struct State;
  explicit BlobReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct DamagedObject {
  Digest pack;
  ObjectKind kind = ObjectKind::kChunk;
  Digest id;  // storage id
};

struct FsckReport {
  std::uint64_t packs = 0, objects = 0, bytes = 0;
  std::vector<std::string> problems;  // one line each: pack, offset, what
  std::vector<Digest> damaged;        // ids of objects that cannot be read in one pack at least
  std::vector<DamagedObject> damaged_objects;
  std::vector<Digest> damaged_packs;  // also those whose index is, so that their objects are not known
  bool multi_damaged = false;
  std::uint64_t locked = 0;  // encrypted, and no key for them: erased or not unlocked; checksums hold
};

struct StoreStat {
  std::uint64_t packs = 0, objects = 0, stored_bytes = 0;
};

class Batch;
class KeySource;

struct StoreOptions {
  std::uint64_t pack_size = std::uint64_t{64} << 20;  // a pack is closed once it is this large
  std::shared_ptr<KeySource> keys;                    // of an encrypted store
};

class Store {
 public:
  struct State;  // store_state.h: for the rest of this layer
  // `folder` is .mlx (or a folder remote's root). Both create what is missing below it with create(), and refuse an
  // unknown layout.
  // With `encrypted` everything in its packs is, under the keys that it is opened with.
  static void create(const std::string& folder, Disk& disk, bool encrypted = false);
  // kNotFound where there is none, kCorrupt where its layout is not known.
  Store(const std::string& folder, Disk& disk, Pool& pool, StoreOptions options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& folder() const;
  bool encrypted() const;
  // What is added from now on is encrypted under this domain's key ("main" until then); operations always go under the
  // history's. Nothing is shared between domains. Without effect where nothing is encrypted.
  void use_domain(const std::string& domain);
  const std::string& domain() const;  // the one in use
  // Every id that packs may know an object by: itself, or in an encrypted store one for each key.
  std::vector<Digest> storage_ids(const Digest& id) const;
  bool has(ObjectKind kind, const Digest& id) const;
  bool has_blob(const Digest& id) const;  // a file's content: as one chunk or as a chunk list
  // The same with every chunk: false for what an interrupted fetch has left in part.
  bool has_whole_blob(const Digest& id) const;
  // The plain bytes of one object, verified. kNotFound / kCorrupt.
  Bytes read(ObjectKind kind, const Digest& id) const;
  BlobReader open_blob(const Digest& id) const;
  Bytes read_blob(const Digest& id) const;  // whole; for small things
  // Every object that `kind`/`id` stands for, itself first: a manifest with its shards, files' lists and chunks.
  void visit_reachable_manifest(const Digest& manifest,
                                const std::function<void(ObjectKind, const Digest&)>& visit) const;
  // The same for one blob (a sealed metric series, an attachment): its chunk, or its chunk list and every chunk of it.
  void visit_reachable_blob(const Digest& blob, const std::function<void(ObjectKind, const Digest&)>& visit) const;

  std::vector<ShardRef> shards(const Digest& manifest) const;
  std::vector<Entry> entries(const Digest& manifest) const;  // all, sorted
  // The same of a manifest that is not stored yet, whose shards are.
  std::vector<Entry> entries_of(const Digest& manifest, const std::vector<ShardRef>& shards) const;
  ManifestSummary summarize(const Digest& manifest) const;
  std::optional<Entry> find(const Digest& manifest, const std::string& path) const;  // reads one shard

  // From now on, until this store is closed, what has() and its kin find stays: a gc in another process leaves it. For
  // whoever is going to refer to what is there already; begin() implies it.
  void keep_found();
  // Nothing will refer to it after all: from now on this store only reads, for which a disk needs no room.
  void stop_keeping();
  std::unique_ptr<Batch> begin();
  std::vector<Digest> operations() const;     // ids of all operation objects in packs
  FsckReport fsck(Progress& progress) const;  // reads and verifies every byte
  StoreStat stat() const;
  // Versions that are not to be read any more, with what to say of each; kept until the next call.
  void refuse(std::unordered_map<Digest, Error, DigestHash> manifests);
  void reload();  // sees packs that others have added since
  // What to do about objects (a file's content is asked for as its chunk list) that are not here: `fetch` says whether
  // they may be here now. Called by one thread at a time, by any of those that read.
  struct Missing {
    ObjectKind kind = ObjectKind::kChunkList;
    Digest id;
    std::optional<std::uint64_t> size = {};  // of a file's content, where a version says it
  };
  using Fetch = std::function<bool(const std::vector<Missing>& objects)>;
  void on_missing(Fetch fetch);
  // Says that the content of these files will be read: what is not here is fetched at once, where on_missing() is set.
  void want(const std::vector<Entry>& files) const;

 private:
  friend struct StoreAccess;
  std::unique_ptr<State> state_;
};

// Adds objects; nothing is visible before commit(). Dropping it without commit leaves no trace but temporary files that
// the next writer removes.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual Digest add(ObjectKind kind, ByteView bytes) = 0;  // one object as it is
  // A file's content from memory, chunked; `base` is an earlier version of the file (use_bases).
  virtual Digest add_blob(ByteView bytes, const Digest* base = nullptr) = 0;
  virtual Digest add_stream(const std::function<std::size_t(void*, std::size_t)>& read, std::uint64_t size_hint) = 0;
  // A regular file or symbolic link on disk. Detects a file that changes while it is read: retried, then kConflict.
  virtual Entry add_file(const std::string& path, const std::string& stored_as) = 0;
  // Thread-safe version of the above over many: parallel over files and inside large ones.
  virtual std::vector<Entry> add_files(const std::vector<std::pair<std::string, std::string>>& path_and_stored_as,
                                       Progress& progress) = 0;
  // Files that are added from now on under these paths come after these: their tensors may be stored as what differs
  // from the tensors of the same names (mlx-format-pack(5), "Delta").
  virtual void use_bases(const std::vector<Entry>& before) = 0;
  virtual ManifestSummary add_manifest(
      std::vector<Entry> entries) = 0;  // any order; sorted here; doubled paths are kUsage
  virtual void commit() = 0;            // pack → fsync → index
};

}  // namespace mlx::store
