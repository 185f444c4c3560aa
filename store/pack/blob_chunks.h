// Which chunks a stored file is made of, without reading them: equal chunks of two files are equal bytes. Used where
// two versions are compared.
#pragma once

#include <vector>

#include "store/pack/chunk_list.h"
#include "store/pack/store.h"

namespace mlx::store {

class BlobChunks {
 public:
  // kNotFound where the file is not in the store, kCorrupt where its list is damaged.
  BlobChunks(const Store& store, const Digest& blob);
  // The ids of the chunks that make up exactly [begin, end); empty where no cuts stand at both ends.
  std::vector<Digest> covering(std::uint64_t begin, std::uint64_t end) const;

 private:
  std::vector<ChunkItem> items_;
  std::vector<std::uint64_t> begins_;
};

}  // namespace mlx::store
