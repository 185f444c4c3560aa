#include "store/pack/tensor_base.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::store {

namespace {

ChunkList read_list(const StoreState& store, ObjectKind kind, const Digest& id) {
  Bytes bytes;
  store.read(kind, id, bytes);
  return decode_chunk_list(bytes, fmt::format("chunk list of {}", id.brief()));
}

std::vector<ChunkItem> all_chunks(const StoreState& store, const Digest& blob) {
  ChunkList list = read_list(store, ObjectKind::kChunkList, blob);
  if (list.level == 0) return std::move(list.items);
  std::vector<ChunkItem> chunks;
  for (const ChunkItem& page : list.items) {
    ChunkList part = read_list(store, ObjectKind::kChunk, page.id);
    chunks.insert(chunks.end(), part.items.begin(), part.items.end());
  }
  return chunks;
}

Bytes read_head(const StoreState& store, const std::vector<ChunkItem>& chunks, std::uint64_t size) {
  Bytes head, chunk;
  for (const ChunkItem& item : chunks) {
    if (!head.empty() && head.size() >= header_room(head, size)) break;
    store.read(ObjectKind::kChunk, item.id, chunk);
    head.insert(head.end(), chunk.begin(), chunk.end());
  }
  return head;
}

}  // namespace

TensorBase::TensorBase(const StoreState& store, const Digest& blob) {
  try {
    if (!store.index()->find(store.key_of(ObjectKind::kChunkList, blob))) return;
    chunks_ = all_chunks(store, blob);
    std::uint64_t size = 0;
    for (const ChunkItem& chunk : chunks_) {
      offsets_.push_back(size);
      size += chunk.size;
    }
    for (const Stretch& stretch : cut_points(read_head(store, chunks_, size), size)) {
      begins_.emplace(stretch.name, stretch.begin);
    }
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kCorrupt) throw;
    begins_.clear();  // a base only saves space: fsck reports what is wrong with it
  }
}

const Digest* TensorBase::find(const std::string& tensor, std::uint64_t offset, std::size_t size) const {
  auto begin = begins_.find(tensor);
  if (begin == begins_.end()) return nullptr;
  auto at = std::ranges::lower_bound(offsets_, begin->second + offset);
  if (at == offsets_.end() || *at != begin->second + offset) return nullptr;
  const ChunkItem& chunk = chunks_[static_cast<std::size_t>(at - offsets_.begin())];
  return chunk.size == size ? &chunk.id : nullptr;
}

}  // namespace mlx::store
