// The IDX format of the MNIST family: a magic number with type and rank, big-endian sizes, then the elements. Bytes in,
// structure out; src/data streams the elements. Source: "The IDX file format" on the MNIST database's page (LeCun,
// Cortes, Burges).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace mlx::formats {

enum class IdxType : std::uint8_t { kU8 = 0x08, kS8 = 0x09, kS16 = 0x0B, kS32 = 0x0C, kF32 = 0x0D, kF64 = 0x0E };
std::size_t size_of(IdxType type);
const char* name_of(IdxType type);  // "u8", "s32", …

inline constexpr std::size_t kIdxMagicSize = 4;

struct IdxHeader {
  IdxType type = IdxType::kU8;
  std::vector<std::uint64_t> dims;  // at least one
  std::uint64_t header_bytes = 0;   // where the elements begin
  std::uint64_t data_bytes = 0;     // the size by the header; the data itself is not checked
};

// Length of the whole header from its first four bytes. kCorrupt "WHAT: offset 0: …" if these are not an IDX magic
// number.
std::size_t idx_header_size(ByteView magic, std::string_view what);
// kCorrupt also if the header is cut off or its sizes overflow 64 bits.
IdxHeader parse_idx_header(ByteView head, std::string_view what);
// The header of a new file.
Bytes encode_idx_header(IdxType type, const std::vector<std::uint32_t>& dims);

}  // namespace mlx::formats
