// Cuts files: by content with a gear hash, and at the tensors of known formats (mlx-format-pack(5),
// "How files are cut"). Pure functions of the bytes; used by Batch.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"

namespace mlx::store {

inline constexpr std::size_t kMinChunk = 8 * 1024;
inline constexpr std::size_t kTargetChunk = 64 * 1024;
inline constexpr std::size_t kMaxChunk = 128 * 1024;

// The length of the chunk at the start of `data`, which has kMaxChunk bytes, or fewer if the file (or stretch) ends.
std::size_t cut_by_content(ByteView data);

// A part of a file that is cut every kTargetChunk bytes from its begin (a tensor). Bytes between are cut by content.
struct Stretch {
  std::uint64_t begin = 0, end = 0;
  std::string name;  // the tensor's; "" if the file has only one
  int width = 1;     // bytes of an element
};

// The tensors of a safetensors, GGUF or npy file of `size` bytes that begins with `head`, in order; empty for anything
// else, and for headers that are damaged or longer than `head`.
std::vector<Stretch> cut_points(ByteView head, std::uint64_t size);
// How many bytes from the start of a file cut_points needs to find its tensors, at most kLongestHeader; 0 for a file
// without tensors. `head` is the first 16 bytes or more.
inline constexpr std::size_t kLongestHeader = std::size_t{32} << 20;
std::size_t header_room(ByteView head, std::uint64_t size);

// Walks through a file: where the next chunk ends.
class Cutter {
 public:
  explicit Cutter(std::vector<Stretch> stretches) : stretches_(std::move(stretches)) {}
  // `data` holds the file's bytes from `offset` on, where the last chunk ended; `last` says that the file ends with it.
  // Returns 0 if it needs more bytes.
  std::size_t next(std::uint64_t offset, ByteView data, bool last);
  const std::vector<Stretch>& stretches() const { return stretches_; }

 private:
  std::vector<Stretch> stretches_;
  std::size_t current_ = 0;
};

}  // namespace mlx::store
