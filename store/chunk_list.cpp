// Encoding and strict decoding of chunk lists.
#include "store/chunk_list.h"

#include "base/error.h"

namespace mlx::store {

namespace {
constexpr std::string_view kListMagic = "MLXL";
constexpr std::uint16_t kListVersion = 1;
constexpr std::uint8_t kSha256 = 1;
constexpr std::size_t kItemSize = 40;
}  // namespace

Bytes encode_chunk_list(const ChunkList& list) {
  ByteWriter out;
  out.raw(as_bytes(kListMagic));
  out.u16(kListVersion);
  out.u8(kSha256);
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
  if (in.u8() != kSha256) in.corrupt("unknown hash algorithm");
  ChunkList list;
  list.level = in.u8();
  if (list.level > 1) in.corrupt(fmt::format("unknown level {}", list.level));
  list.size = in.u64();
  std::uint64_t count = in.u32();
  if (in.u32() != 0) in.corrupt("reserved bytes are not 0");
  if (count != in.left() / kItemSize) in.corrupt("number of items does not fit its size");
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

}  // namespace mlx::store
