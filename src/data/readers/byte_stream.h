// A stored file as a stream of plain bytes: read in order from the store's packs, and decompressed if it is gzip (RFC
// 1952). Used by the readers; only a window is in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "store/pack/store.h"

struct ZSTD_DCtx_s;

namespace mlx::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads up to `count` bytes; fewer only at the end of the stream. Throws kCorrupt if compressed data is damaged,
  // truncated or followed by something else: file, offset in the stored file, what was expected.
  virtual std::size_t read(void* data, std::size_t count) = 0;
  bool compressed() const { return compressed_; }

 protected:
  bool compressed_ = false;
};

// The first bytes tell whether it is gzip (RFC 1952) or zstd (RFC 8878). `file` names it in messages; `blob` must
// outlive the stream.
std::unique_ptr<ByteStream> open_stream(const store::BlobReader& blob, const std::string& file);
// The same for bytes from elsewhere: (offset, to, count) → bytes read, fewer only at the end.
using ReadAt = std::function<std::size_t(std::uint64_t, void*, std::size_t)>;
std::unique_ptr<ByteStream> open_stream(ReadAt read_at, const std::string& file);
// The same for raw deflate data (RFC 1951), which has no mark; what follows its end is not read.
std::unique_ptr<ByteStream> open_deflated(ReadAt read_at, const std::string& file);
// Decompresses small zstd streams that are in memory, one after the other, without a stream for each.
class ZstdUnpacker {
 public:
  // False if the result has not exactly the size of `plain`, or if the data is damaged: a stream tells what is wrong.
  bool unpack(ByteView packed, std::span<std::uint8_t> plain);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* zstd) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> zstd_;  // made when it is needed
};
// By the first four bytes of a file.
bool is_compressed(ByteView head);
// A file's name without the ending of a compression (.gz, .zst).
std::string_view without_compression(std::string_view path);

}  // namespace mlx::data
