// Adds objects to a store: gathers them in packs and publishes the packs in order. Made by Store::begin.
//
// Nothing is visible before commit(). A batch that is dropped without commit leaves nothing behind but temporary files,
// which the next writer removes. It belongs to one caller, and uses all cores inside.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/interruption.h"
#include "base/parallel.h"
#include "store/format/manifest.h"
#include "store/format/pack_format.h"
#include "store/pack/pack_writer.h"
#include "store/pack/received_packs.h"
#include "store/temporary.h"

namespace mlx::store {

struct DomainKey;
class KeyRing;
struct StoreState;

class Batch {
 public:
  explicit Batch(StoreState& store);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  Digest add(ObjectKind kind, ByteView bytes);  // one object as it is
  // A file's content from memory, chunked. `base` is an earlier version of the file.
  Digest add_blob(ByteView bytes, const Digest* base = nullptr);
  // A file's content from `read`, which returns 0 at the end. `size_hint` is its size, if known.
  Digest add_stream(const std::function<std::size_t(void*, std::size_t)>& read, std::uint64_t size_hint);
  // Earlier versions of the files that are added from now on: a tensor may be stored as its difference from the tensor
  // of the same name there (mlx-format-pack(5), "Delta").
  void use_bases(const std::vector<Entry>& before);
  ManifestSummary add_manifest(std::vector<Entry> entries);  // in any order; kUsage if a path occurs twice
  void commit();                                             // pack → fsync → index

  // The rest is for this layer.

  // Thread-safe. Encodes and adds the object unless the store or this batch has it. A chunk list has its file's id. A
  // chunk of a tensor has elements of `width` bytes, and may be stored as a delta against the chunk `base` (plain id,
  // of the same size) if that is in the store.
  void put(ObjectKind kind, const Digest& id, ByteView plain, int width = 1, const Digest* base = nullptr);
  // Adds the object under the domain's current key unless it is stored under that one.
  void put_under_current_key(ObjectKind kind, const Digest& id, ByteView plain);
  // Thread-safe. Adds an object as another store keeps it. It is verified here, and read back from the new pack before
  // commit publishes it (received_packs.h). kCorrupt then if a delta's base is absent, and for a chunk list that does
  // not make its file: its chunks must be in this batch or in the store.
  void add_stored(const StoredObject& object);
  Pool& pool();
  const StoreState& store() const { return store_; }
  const Interruption& interruption() const;
  // The base for deltas of a file with this path and size, or nullptr: the earlier file of the same path, else the last
  // one beside it with the same ending and about the same size (step-1000.safetensors, step-2000 …).
  const Digest* base_file(const std::string& stored_as, std::uint64_t size) const;

 private:
  // The key under which an object is stored; `with` is nullptr if the store is plain.
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
  std::vector<ReceivedPack> new_packs() const;
  void pin_new_packs();
  void publish(const ReceivedPack& sealed);
  void merge_indexes();

  StoreState& store_;
  std::shared_ptr<const KeyRing> ring_;  // nullptr if the store is plain
  std::string domain_;
  TemporaryFiles temporaries_;
  std::mutex mutex_;
  std::unordered_set<ObjectKey, ObjectKeyHash> pending_;
  std::unique_ptr<PackWriter> writer_;
  std::vector<StoredObject> meta_;  // objects that name others: written behind them
  std::size_t meta_bytes_ = 0;
  std::vector<std::shared_ptr<ReceivedPack>> data_packs_, meta_packs_;  // ids are set once sealing_ is done
  std::unique_ptr<Background> sealing_, writing_;
  bool received_ = false;  // objects came from elsewhere: packs are read back before they are published
  std::vector<ReceivedList> received_lists_;
  std::map<std::string, Entry> bases_;
  bool broken_ = false;  // an object was claimed and not written
};

}  // namespace mlx::store
