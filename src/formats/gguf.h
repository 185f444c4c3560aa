// The GGUF format of llama.cpp: metadata, then descriptions of tensors, then their data. Bytes in,
// structure out. Source: docs/gguf.md of the ggml project, versions 2 and 3 (little-endian).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
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
  std::uint64_t data_begin = 0, alignment = 0;
  std::vector<GgufTensor> tensors;  // by begin
};

bool is_gguf(ByteView head);
// kCorrupt if `head` does not hold the whole header, or if the header is wrong: tensors outside of the file,
// overlapping, or of impossible sizes.
GgufHeader parse_gguf(ByteView head, std::uint64_t file_size);
// The types of metadata values.
enum class GgufKind : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};
// A metadata value where it lies.
struct GgufValue {
  GgufKind kind{};  // of the elements, if it is an array
  bool array = false;
  std::uint64_t count = 1;  // elements
  ByteView bytes;           // of all of them; strings have a length of 8 bytes in front
};
using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;
// Of a header that parse_gguf takes. Views into `head`. kCorrupt if a key is there twice.
GgufMetadata read_gguf_metadata(ByteView head);
// Each fills `out` and returns true, or returns false if the value is of another kind, or out of the type's range.
bool gguf_integers(const GgufValue& value, std::vector<std::int64_t>& out);
bool gguf_numbers(const GgufValue& value, std::vector<double>& out);  // of integers too
bool gguf_strings(const GgufValue& value, std::vector<std::string_view>& out);

// Bytes of an element if they are whole bytes (F32: 4, BF16: 2), else 1.
int gguf_element_size(std::uint32_t type);

}  // namespace mlx::formats
