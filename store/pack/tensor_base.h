// A file of an earlier version as a source of bases for deltas: which of its chunks stands at the same place of the
// tensor of the same name. Used by write_blob.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "store/pack/chunk_list.h"
#include "store/pack/chunker.h"
#include "store/pack/store_state.h"

namespace mlx::store {

class TensorBase {
 public:
  // Empty where `blob` is not whole in the store, or is no file of tensors.
  TensorBase(const Store::State& store, const Digest& blob);
  // The chunk of `size` bytes that begins `offset` bytes into the tensor, or nullptr.
  const Digest* find(const std::string& tensor, std::uint64_t offset, std::size_t size) const;

 private:
  std::unordered_map<std::string, std::uint64_t> begins_;  // of tensors in the file
  std::vector<ChunkItem> chunks_;
  std::vector<std::uint64_t> offsets_;  // of chunks in the file
};

}  // namespace mlx::store
