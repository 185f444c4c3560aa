// A chunk list with its pages, laid flat.
#include "store/pack/blob_chunks.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::store {

BlobChunks::BlobChunks(const Store& store, const Digest& blob) {
  const std::string name = fmt::format("chunk list of {}", blob.brief());
  if (store.has(ObjectKind::kChunk, blob)) {
    items_ = {{blob, store.read(ObjectKind::kChunk, blob).size()}};
  } else {
    ChunkList list = decode_chunk_list(store.read(ObjectKind::kChunkList, blob), name);
    if (list.level == 0) items_ = std::move(list.items);
    if (list.level == 1) {
      for (const ChunkItem& page : list.items) {
        const ChunkList part = decode_chunk_list(store.read(ObjectKind::kChunk, page.id), name);
        if (part.level != 0 || part.size != page.size) fail(ErrorKind::kCorrupt, "{}: a page does not fit in", name);
        items_.insert(items_.end(), part.items.begin(), part.items.end());
      }
    }
  }
  std::uint64_t at = 0;
  for (const ChunkItem& item : items_) {
    begins_.push_back(at);
    at += item.size;
  }
}

std::vector<Digest> BlobChunks::covering(std::uint64_t begin, std::uint64_t end) const {
  std::vector<Digest> found;
  auto place = std::ranges::lower_bound(begins_, begin);
  for (; place != begins_.end() && *place == begin && begin < end; ++place) {
    const ChunkItem& item = items_[static_cast<std::size_t>(place - begins_.begin())];
    found.push_back(item.id);
    begin += item.size;
  }
  if (begin != end) found.clear();
  return found;
}

}  // namespace mlx::store
