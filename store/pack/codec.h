// Between plain objects and stored ones: compression, and verification on the way back. A Codec keeps zstd's contexts
// and is used by one thread at a time; a CodecPool lends them out.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "store/pack/pack_format.h"

namespace mlx::store {

// The plain bytes of a delta's base, verified.
using ReadBase = std::function<Bytes(const Digest& id)>;

struct DeltaBase {
  Digest id;      // plain
  ObjectKey key;  // as the store of the delta knows it
  ByteView plain;
};

// The base that the stored bytes of a delta name, by plain id; kCorrupt where they are too short.
Digest delta_base(ByteView stored, const std::string& where);

class Codec {
 public:
  Codec();
  ~Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  // Compressed where that saves at least a sixteenth, else raw. `id` is the object's id; `width` is the size of the
  // elements where `plain` is a piece of a tensor (then it is compressed by byte planes), else 1. kUsage above
  // kMaxPlainSize.
  StoredObject encode(const ObjectKey& key, const Digest& id, ByteView plain, int width = 1);
  // As a delta against `base`, a chunk of the same size that is itself stored whole; nullopt where that does not come
  // below `limit` bytes.
  std::optional<StoredObject> encode_delta(const ObjectKey& key, ByteView plain, int width, const DeltaBase& base,
                                           std::size_t limit);
  // Checks the stored bytes' checksum (for what is not raw and plain), decodes, and checks the plain bytes against the
  // id. `where` names the pack in kCorrupt. The base of a delta is asked of `read_base`; without it a delta is
  // kCorrupt.
  void decode(const PackRecord& record, ByteView stored, Bytes& plain, const std::string& where,
              const ReadBase& read_base = {});

  // The same without the comparison of the plain bytes with the id, for what was encrypted: its id is compared by who
  // decrypts. `record.key` only names the object in errors.
  void decode_unidentified(const PackRecord& record, ByteView stored, Bytes& plain, const std::string& where,
                           const ReadBase& read_base = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Only that the stored bytes are those that were written; needs no key.
void check_stored(const PackRecord& record, ByteView stored, const std::string& where);

class CodecPool {
 public:
  // Gives the codec back when it goes.
  class Lease {
   public:
    Lease(CodecPool& pool, std::unique_ptr<Codec> codec) : pool_(pool), codec_(std::move(codec)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_.put(std::move(codec_)); }
    Codec* get() { return codec_.get(); }
    Codec* operator->() { return codec_.get(); }

   private:
    CodecPool& pool_;
    std::unique_ptr<Codec> codec_;
  };
  Lease lend();

 private:
  void put(std::unique_ptr<Codec> codec);
  std::mutex mutex_;
  std::vector<std::unique_ptr<Codec>> idle_;
};

// What a receiver checks without keys: the checksum, and of what can be read as it stands the id. kCorrupt.
void check_received(const StoredObject& object, CodecPool& codecs);

}  // namespace mlx::store
