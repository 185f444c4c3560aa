// Chunk lists: which chunks a file is made of, in one or two levels (mlx-format-pack(5), "Chunk list").
#pragma once

#include <functional>
#include <vector>

#include "base/hash.h"
#include "base/parallel.h"

namespace mlx::store {

inline constexpr std::size_t kItemsPerList = 65536;
inline constexpr std::size_t kMaxListSize = 24 + kItemsPerList * 40;  // bytes of an encoded list

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
// kCorrupt if counts or sizes do not add up; `what` names the list in it.
ChunkList decode_chunk_list(ByteView bytes, const std::string& what);
// The list that an item of a level-1 list names, from its bytes; kCorrupt if it does not match the item.
ChunkList decode_page(ByteView bytes, const ChunkItem& item, const std::string& what);

// Reads the plain bytes of a chunk; called by several threads at once. It need not verify them.
using ReadChunk = std::function<void(const Digest& chunk, Bytes& plain)>;
// The id of the file that a list makes: only the content shows whether a list is the right one. Reads every chunk with
// all cores; kCorrupt if a chunk has another size than the list says.
Digest hash_whole(const ChunkList& list, const ReadChunk& read, Pool& pool, const std::string& what);

}  // namespace mlx::store
