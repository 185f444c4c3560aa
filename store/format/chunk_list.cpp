// Encoding and strict decoding of chunk lists, and hashing the file that a list makes.
#include "store/format/chunk_list.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/progress.h"

namespace mlx::store {

namespace {
constexpr std::string_view kListMagic = "MLXL";
constexpr std::uint16_t kListVersion = 1;
constexpr std::size_t kItemSize = 40;
constexpr std::size_t kSlice = 32;  // chunks that are read together, while those before are hashed

// The hash of a file whose chunks come slice by slice.
class WholeHash {
 public:
  WholeHash(const ReadChunk& read, Pool& pool, const std::string& what) : read_(read), pool_(pool), what_(what) {}

  void add(std::span<const ChunkItem> items) {
    for (std::size_t at = 0; at < items.size(); at += kSlice)
      step(items.subspan(at, std::min(kSlice, items.size() - at)));
  }
  Digest finish() {
    step({});
    return hash_.finish();
  }

 private:
  // Reads these while the ones before are hashed.
  void step(std::span<const ChunkItem> items) {
    next_.resize(items.size());
    pool_.run(static_cast<std::int64_t>(items.size()) + 1, [&](std::int64_t task) {
      if (task == 0) {
        for (const Bytes& chunk : loaded_) hash_.update(chunk);
        return;
      }
      const auto i = static_cast<std::size_t>(task - 1);
      read_(items[i].id, next_[i]);
      if (next_[i].size() == items[i].size) return;
      fail(ErrorKind::kCorrupt, "{}: chunk {} has {} bytes, the list says {}", what_, items[i].id.brief(),
           next_[i].size(), items[i].size);
    });
    std::swap(loaded_, next_);
  }
  const ReadChunk& read_;
  Pool& pool_;
  const std::string& what_;
  std::vector<Bytes> loaded_, next_;
  Sha256 hash_;
};

}  // namespace

Bytes encode_chunk_list(const ChunkList& list) {
  ByteWriter out;
  out.raw(as_bytes(kListMagic));
  out.u16(kListVersion);
  out.u8(kSha256Number);
  out.u8(static_cast<std::uint8_t>(list.level));
  out.u64(list.size);
  out.u32(static_cast<std::uint32_t>(list.items.size()));
  out.u32(0);
  for (const ChunkItem& item : list.items) {
    out.raw(item.id.bytes);
    out.u64(item.size);
  }
  return out.take();
}

ChunkList decode_chunk_list(ByteView bytes, const std::string& what) {
  ByteReader in(bytes, what);
  if (as_text(in.take(4)) != kListMagic) in.corrupt("wrong magic");
  if (std::uint16_t version = in.u16(); version != kListVersion) in.corrupt(fmt::format("unknown version {}", version));
  if (in.u8() != kSha256Number) in.corrupt("unknown hash algorithm");
  ChunkList list;
  list.level = in.u8();
  if (list.level > 1) in.corrupt(fmt::format("unknown level {}", list.level));
  list.size = in.u64();
  std::uint64_t count = in.u32();
  if (in.u32() != 0) in.corrupt("reserved bytes are not 0");
  if (count != in.left() / kItemSize) in.corrupt("number of items does not fit its size");
  if (count > kItemsPerList) in.corrupt(fmt::format("more than {} items", kItemsPerList));
  list.items.reserve(count);
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    ChunkItem item;
    item.id = Digest::from(in.take(32));
    item.size = in.u64();
    if (item.size == 0 || __builtin_add_overflow(total, item.size, &total)) in.corrupt("sizes of items do not add up");
    list.items.push_back(item);
  }
  if (total != list.size) in.corrupt("sizes of items do not add up");
  in.expect_end();
  return list;
}

ChunkList decode_page(ByteView bytes, const ChunkItem& item, const std::string& what) {
  ChunkList page = decode_chunk_list(bytes, what);
  if (page.level != 0 || page.size != item.size)
    fail(ErrorKind::kCorrupt, "{}: page {} does not fit in", what, item.id.brief());
  return page;
}

Digest hash_whole(const ChunkList& list, const ReadChunk& read, Pool& pool, const std::string& what) {
  WholeHash whole(read, pool, what);
  if (list.level == 0) whole.add(list.items);
  if (list.level == 1) {
    Bytes bytes;
    for (const ChunkItem& item : list.items) {
      read(item.id, bytes);
      whole.add(decode_page(bytes, item, what).items);
    }
  }
  return whole.finish();
}

}  // namespace mlx::store
