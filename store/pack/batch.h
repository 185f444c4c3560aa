// The inside of Batch: gathers encoded objects into packs and publishes them in order. Made by Store::begin; remotes
// use add_stored to copy objects without compressing them again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/parallel.h"
#include "store/pack/pack_writer.h"
#include "store/pack/store_state.h"
#include "store/temporary.h"
#include "store/worktree/walk.h"

namespace mlx::store {

class PackBatch final : public Batch {
 public:
  explicit PackBatch(Store::State& store);
  ~PackBatch() override;

  Digest add(ObjectKind kind, ByteView bytes) override;
  Digest add_blob(ByteView bytes, const Digest* base) override;
  Digest add_stream(const std::function<std::size_t(void*, std::size_t)>& read, std::uint64_t size_hint) override;
  Entry add_file(const std::string& path, const std::string& stored_as) override;
  std::vector<Entry> add_files(const std::vector<std::pair<std::string, std::string>>& path_and_stored_as,
                               Progress& progress) override;
  // The files of a walk with these numbers, as add_files does it, into the same places of `entries`. Not 0 for those
  // that are known to have stood just as walked when they were read.
  std::vector<char> add_walked(const Walk& walk, const std::string& folder, const std::vector<std::size_t>& numbers,
                               std::vector<Entry>& entries, Progress& progress);
  ManifestSummary add_manifest(std::vector<Entry> entries) override;
  void use_bases(const std::vector<Entry>& before) override;
  void commit() override;

  // Thread-safe. Encodes and adds unless the store or this batch has it. For chunk lists `id` is the file's; a chunk of
  // a tensor has elements of `width` bytes, and may be stored as a delta against the chunk `base` (plain id, of the
  // same size) where that chunk is in the store.
  void put(ObjectKind kind, const Digest& id, ByteView plain, int width = 1, const Digest* base = nullptr);
  // Adds it under the domain's current key where it does not stand under that one.
  void put_under_current_key(ObjectKind kind, const Digest& id, ByteView plain);
  // Thread-safe. An object as another store keeps it; verified here (a delta only once its base can be read), and read
  // back from the new pack before commit publishes it. kCorrupt then where a delta's base is nowhere, and for a chunk
  // list that does not make its file: its chunks have to be in this batch or in the store.
  void add_stored(const StoredObject& object);
  Pool& pool() { return store_.pool; }
  const Store::State& store() const { return store_; }
  // The blob that a file of this path and size may be stored as deltas against, or nullptr: the file of the same path,
  // else the last one beside it with the same ending and about the same size (step-1000.safetensors, step-2000 …).
  const Digest* base_file(const std::string& stored_as, std::uint64_t size) const;

 private:
  struct Sealed {
    std::string temporary;
    Digest id;
  };
  // What an object goes under: `with` is nullptr where the store is plain.
  struct Target {
    ObjectKey key;
    const DomainKey* with = nullptr;
  };
  Target target_of(ObjectKind kind, const Digest& id, const std::string& domain) const;
  bool claim(const ObjectKey& key);
  void append(StoredObject object);
  void append_to_pack(const StoredObject& object);  // with mutex_ held
  void close_pack();                                // with mutex_ held; seals in the background
  void flush_meta();                                // with mutex_ held
  std::optional<StoredObject> encode_delta(const Target& target, const Digest& id, ByteView plain, int width,
                                           const Digest& base, std::size_t limit);
  void verify_received();
  void pin_new_packs();
  void publish(const Sealed& sealed);
  void merge_indexes();

  Store::State& store_;
  std::shared_ptr<const KeyRing> ring_;  // nullptr where the store is plain
  std::string domain_;
  TemporaryFiles temporaries_;
  std::mutex mutex_;
  std::unordered_set<ObjectKey, ObjectKeyHash> pending_;
  std::unique_ptr<PackWriter> writer_;
  std::vector<StoredObject> meta_;  // what names other objects: goes behind them
  std::size_t meta_bytes_ = 0;
  std::vector<std::shared_ptr<Sealed>> data_packs_, meta_packs_;  // ids are there once sealing_ is done
  std::unique_ptr<Background> sealing_, writing_;
  bool received_ = false;  // objects came from elsewhere: packs are read back before they are published
  std::vector<std::pair<Digest, ObjectKey>> received_lists_;  // of files by id, and what packs call them
  std::map<std::string, Entry> bases_;
  bool broken_ = false;  // an object was claimed and not written
};

std::unique_ptr<Batch> make_batch(Store::State& store);

// add_stream and its kin (blob_writer.cpp): cuts, hashes, compresses and adds one file's content. `size_hint` is its
// size where that is known: it sizes buffers, and formats with tensors are recognised by it. `base` (or nullptr) is an
// earlier version of the file. `advance` is told of bytes as they go in.
struct BlobSummary {
  Digest id;
  std::uint64_t size = 0;
};
BlobSummary write_blob(PackBatch& batch, const std::function<std::size_t(void*, std::size_t)>& read,
                       std::uint64_t size_hint, const Digest* base, const std::function<void(std::uint64_t)>& advance);

}  // namespace mlx::store
