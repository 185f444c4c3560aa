// Finds bases for deltas in a file of an earlier version: the chunk at the same place in the tensor of the same name.
// Used by write_blob.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "store/format/chunk_list.h"
#include "store/format/chunker.h"
#include "store/pack/store_state.h"

namespace mlx::store {

class TensorBase {
 public:
  // Empty if `blob` is not complete in the store, or not a file of tensors.
  TensorBase(const StoreState& store, const Digest& blob);
  // The chunk of `size` bytes that begins `offset` bytes into the tensor, or nullptr.
  const Digest* find(const std::string& tensor, std::uint64_t offset, std::size_t size) const;

 private:
  std::unordered_map<std::string, std::uint64_t> begins_;  // of tensors in the file
  std::vector<ChunkItem> chunks_;
  std::vector<std::uint64_t> offsets_;  // of chunks in the file
};

}  // namespace mlx::store
