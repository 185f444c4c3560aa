// The front of a GGUF file: metadata and where each tensor lies. Used by gguf_writer.cpp and gguf_tokenizer_writer.cpp.
// Source: docs/gguf.md of the ggml project, version 3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "formats/gguf.h"

namespace mlx::convert {

class GgufHeader {
 public:
  static constexpr std::uint64_t kAlignment = 32;  // of each tensor

  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<std::int32_t>& values);
  void add(std::string_view key, const std::vector<float>& values);
  // The next tensor, behind the one before and its padding. `shape`: outermost first.
  void add_tensor(std::string_view name, const std::vector<std::int64_t>& shape, std::uint32_t type,
                  std::uint64_t bytes);
  // Whole, with the padding before the first tensor.
  Bytes finish() const;

  static std::uint64_t padded(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

 private:
  void begin(std::string_view key, formats::GgufKind kind);
  void begin_array(std::string_view key, formats::GgufKind kind, std::size_t count);

  ByteWriter metadata_, tensors_;
  std::uint64_t keys_ = 0, count_ = 0, data_ = 0;
};

}  // namespace mlx::convert
