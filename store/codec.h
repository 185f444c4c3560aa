// Between plain objects and stored ones: compression, and verification on the way back. A Codec keeps zstd's contexts
// and is used by one thread at a time; a CodecPool lends them out.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "store/pack_format.h"

namespace mlx::store {

class Codec {
 public:
  Codec();
  ~Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  // zstd where it saves at least a sixteenth, else raw. `id` is the object's id; kUsage above kMaxPlainSize.
  StoredObject encode(ObjectKind kind, const Digest& id, ByteView plain);
  // Checks the stored bytes' checksum (for what is not raw and plain), decodes, and checks the plain bytes against the
  // id. `where` names the pack in kCorrupt.
  void decode(const PackRecord& record, ByteView stored, Bytes& plain, const std::string& where);

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

}  // namespace mlx::store
