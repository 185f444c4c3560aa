// A stored file as a stream of plain bytes: read in order out of the store's packs, and inflated where it is gzip (RFC
// 1952). Used by the readers; nothing is ever held but a window.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "store/pack/store.h"

namespace mlx::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Up to `count` bytes; fewer only at the end of the stream. kCorrupt where compressed data is damaged, cut off or
  // followed by something else: file, offset in the stored file, what was expected.
  virtual std::size_t read(void* data, std::size_t count) = 0;
  bool compressed() const { return compressed_; }

 protected:
  bool compressed_ = false;
};

// Told apart by the first two bytes. `file` names it in messages; `blob` outlives the stream.
std::unique_ptr<ByteStream> open_stream(const store::BlobReader& blob, const std::string& file);
// The same over bytes that stand elsewhere: (offset, to, count) → bytes read, fewer only at the end.
using ReadAt = std::function<std::size_t(std::uint64_t, void*, std::size_t)>;
std::unique_ptr<ByteStream> open_stream(ReadAt read_at, const std::string& file);

}  // namespace mlx::data
