// Reads and writes IDX headers.

#include "formats/idx.h"

#include "base/error.h"

namespace mlx::formats {
namespace {

bool is_type(std::uint8_t code) {
  return code >= 0x08 && code <= 0x0E && code != 0x0A;
}

}  // namespace

std::size_t size_of(IdxType type) {
  switch (type) {
    case IdxType::kU8:
    case IdxType::kS8:
      return 1;
    case IdxType::kS16:
      return 2;
    case IdxType::kS32:
    case IdxType::kF32:
      return 4;
    case IdxType::kF64:
      return 8;
  }
  return 0;
}

const char* name_of(IdxType type) {
  switch (type) {
    case IdxType::kU8:
      return "u8";
    case IdxType::kS8:
      return "s8";
    case IdxType::kS16:
      return "s16";
    case IdxType::kS32:
      return "s32";
    case IdxType::kF32:
      return "f32";
    case IdxType::kF64:
      return "f64";
  }
  return "?";
}

std::size_t idx_header_size(ByteView magic, std::string_view what) {
  if (magic.size() < kIdxMagicSize) {
    fail(ErrorKind::kCorrupt, "{}: offset 0: expected the 4 bytes of an IDX magic number, found {}", what,
         magic.size());
  }
  if (magic[0] != 0 || magic[1] != 0 || !is_type(magic[2]) || magic[3] == 0) {
    fail(ErrorKind::kCorrupt,
         "{}: offset 0: expected an IDX magic number (00 00, type 08 to 0e, rank from 01), found {:02x} {:02x} {:02x} "
         "{:02x}",
         what, magic[0], magic[1], magic[2], magic[3]);
  }
  return kIdxMagicSize + 4 * std::size_t{magic[3]};
}

IdxHeader parse_idx_header(ByteView head, std::string_view what) {
  IdxHeader header;
  header.header_bytes = idx_header_size(head, what);
  if (head.size() < header.header_bytes) {
    fail(ErrorKind::kCorrupt, "{}: offset {}: the header has {} bytes, the file ends before", what, head.size(),
         header.header_bytes);
  }
  header.type = static_cast<IdxType>(head[2]);
  header.data_bytes = size_of(header.type);
  for (std::size_t at = kIdxMagicSize; at < header.header_bytes; at += 4) {
    std::uint64_t dim = 0;
    for (std::size_t i = 0; i < 4; ++i) dim = dim << 8 | head[at + i];
    header.dims.push_back(dim);
    if (__builtin_mul_overflow(header.data_bytes, dim, &header.data_bytes)) {
      fail(ErrorKind::kCorrupt, "{}: offset {}: the sizes multiply to more than 64 bits can count", what, at);
    }
  }
  return header;
}

Bytes encode_idx_header(IdxType type, const std::vector<std::uint32_t>& dims) {
  CHECK(!dims.empty() && dims.size() < 256);
  Bytes out{0, 0, static_cast<std::uint8_t>(type), static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(dim >> shift));
  }
  return out;
}

}  // namespace mlx::formats
