// The safetensors format: an 8-byte little-endian header length, a JSON header, then the tensors. Bytes in,
// structure out. Source: the format section of the safetensors project's README.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace mlx::formats {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", "I8", "U8", "I32", "I64" …
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // from the start of the file
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // by begin
  std::vector<std::pair<std::string, std::string>> metadata;
  std::uint64_t data_begin = 0;
};

// Length of the header in bytes (with its length field) from the first 8 bytes of a file of `file_size`; 0 if it is
// not a safetensors file.
std::uint64_t safetensors_header_size(ByteView first_bytes, std::uint64_t file_size);
// Strict: kCorrupt if tensors overlap, leave holes or lie outside of the file, or if a size does not match dtype and
// shape.
SafetensorsHeader parse_safetensors(ByteView head, std::uint64_t file_size);
// The header of a new file (padded to 8 bytes with spaces, tensors in the order given); `begin`/`end` are filled in.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;
Bytes encode_safetensors_header(std::vector<SafetensorsEntry>& tensors, const SafetensorsMetadata& metadata = {});

}  // namespace mlx::formats
