// Encodes plain objects as stored ones, by compression, and decodes and verifies them. A Codec keeps zstd's contexts
// and is used by one thread at a time; a CodecPool lends them out.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "store/format/pack_format.h"

namespace mlx::store {

// The plain bytes of a delta's base, verified.
using ReadBase = std::function<Bytes(const Digest& id)>;

struct DeltaBase {
  Digest id;      // plain
  ObjectKey key;  // in the store of the delta
  ByteView plain;
};

// The plain id of the base that the stored bytes of a delta name; kCorrupt if they are too short.
Digest delta_base(ByteView stored, const std::string& where);

class Codec {
 public:
  Codec();
  ~Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  // Compressed if that saves at least a sixteenth, else raw. `id` is the object's id. `width` is the size of an element
  // if `plain` is a piece of a tensor, which is compressed by byte planes; else 1. kUsage above kMaxPlainSize.
  StoredObject encode(const ObjectKey& key, const Digest& id, ByteView plain, int width = 1);
  // As a delta against `base`, a chunk of the same size that is stored whole; nullopt if the delta has `limit` bytes or
  // more.
  std::optional<StoredObject> encode_delta(const ObjectKey& key, ByteView plain, int width, const DeltaBase& base,
                                           std::size_t limit);
  // Verifies the stored bytes' checksum (unless they are raw and plain), decodes them, and verifies the plain bytes'
  // digest. `where` names the pack in kCorrupt. `read_base` reads the base of a delta; without it a delta is kCorrupt.
  void decode(const PackRecord& record, ByteView stored, Bytes& plain, const std::string& where,
              const ReadBase& read_base = {});

  // The same without verifying the digest, for objects that were encrypted: whoever decrypts them compares the id.
  // `record.key` only names the object in errors.
  void decode_unidentified(const PackRecord& record, ByteView stored, Bytes& plain, const std::string& where,
                           const ReadBase& read_base = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Verifies the checksum of the stored bytes alone; needs no key. kCorrupt.
void check_stored(const PackRecord& record, ByteView stored, const std::string& where);

class CodecPool {
 public:
  // Returns the codec when it is destroyed.
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

// What a receiver verifies without keys: the checksum and, if the object is not encrypted, the id. kCorrupt.
void check_received(const StoredObject& object, CodecPool& codecs);

}  // namespace mlx::store
