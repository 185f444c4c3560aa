// One file's content on its way into a batch: cut, hashed, compressed and added. Used by Batch, and by whoever adds
// files from disk.
#pragma once

#include <cstdint>
#include <functional>

#include "base/hash.h"

namespace mlx::store {

class Batch;

struct BlobSummary {
  Digest id;
  std::uint64_t size = 0;
};
// `read` returns 0 at the end. `size_hint` is the file's size, if known: buffers are sized by it, and formats with
// tensors are recognised by it. `base` (or nullptr) is an earlier version of the file. `advance` is told how many bytes
// went in.
BlobSummary write_blob(Batch& batch, const std::function<std::size_t(void*, std::size_t)>& read,
                       std::uint64_t size_hint, const Digest* base, const std::function<void(std::uint64_t)>& advance);

}  // namespace mlx::store
