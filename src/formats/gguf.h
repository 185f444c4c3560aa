// The GGUF format of llama.cpp: metadata, then descriptions of tensors, then their data. Bytes in,
// structure out. Source: docs/gguf.md of the ggml project, versions 2 and 3 (little-endian).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace mlx::formats {

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;            // ggml_type: 0 F32, 1 F16, 2 Q4_0 … 30 BF16
  std::vector<std::uint64_t> shape;  // innermost first
  std::uint64_t begin = 0,
                end = 0;  // from the start of the file; `end` of an unknown type is the next tensor's begin
};

struct GgufHeader {
  std::uint32_t version = 0;
  std::uint64_t data_begin = 0;
  std::vector<GgufTensor> tensors;  // by begin
};

bool is_gguf(ByteView head);
// kCorrupt if `head` does not hold the whole header, or if the header is wrong: tensors outside of the file,
// overlapping, or of impossible sizes.
GgufHeader parse_gguf(ByteView head, std::uint64_t file_size);
// Bytes of an element if they are whole bytes (F32: 4, BF16: 2), else 1.
int gguf_element_size(std::uint32_t type);

}  // namespace mlx::formats
