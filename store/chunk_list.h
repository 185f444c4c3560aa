// Chunk lists: which chunks a file is made of, in one or two levels (mlx-format-pack(5), "Chunk list").
#pragma once

#include <vector>

#include "base/hash.h"

namespace mlx::store {

inline constexpr std::size_t kItemsPerList = 65536;

struct ChunkItem {
  Digest id;
  std::uint64_t size = 0;  // bytes of the file in it
};

struct ChunkList {
  int level = 0;  // 0: items are chunks; 1: items are chunks that hold lists of level 0
  std::uint64_t size = 0;
  std::vector<ChunkItem> items;
};

Bytes encode_chunk_list(const ChunkList& list);
// kCorrupt where counts or sizes do not add up; `what` names the list in it.
ChunkList decode_chunk_list(ByteView bytes, const std::string& what);

}  // namespace mlx::store
