// The chunks of a stored file, without reading them: equal chunks of two files are equal bytes. Used to compare two
// versions.
#pragma once

#include <vector>

#include "store/format/chunk_list.h"
#include "store/pack/store.h"

namespace mlx::store {

class BlobChunks {
 public:
  // kNotFound if the file is not in the store, kCorrupt if its list is damaged.
  BlobChunks(const Store& store, const Digest& blob);
  // The ids of the chunks that make up exactly [begin, end); empty unless both ends are cuts.
  std::vector<Digest> covering(std::uint64_t begin, std::uint64_t end) const;

 private:
  std::vector<ChunkItem> items_;
  std::vector<std::uint64_t> begins_;
};

}  // namespace mlx::store
