// The wire format of protobuf: fields of one message, one after the other. Used by sentencepiece.h.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mlx::data::subword {

struct ProtobufField {
  std::uint32_t number = 0;
  std::uint64_t integer = 0;  // of varints and fixed numbers
  std::string_view bytes;     // of strings, bytes and messages

  float real() const { return std::bit_cast<float>(static_cast<std::uint32_t>(integer)); }
};

class ProtobufReader {
 public:
  ProtobufReader(std::string_view bytes, const std::string& what) : rest_(bytes), what_(what) {}
  // False at the end. Throws kCorrupt.
  bool next(ProtobufField& field) {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) damaged();
    field = {static_cast<std::uint32_t>(tag >> 3), 0, {}};
    switch (tag & 7) {
      case 0:
        field.integer = varint();
        return true;
      case 1:
        field.integer = fixed(8);
        return true;
      case 2:
        field.bytes = take(varint());
        return true;
      case 5:
        field.integer = fixed(4);
        return true;
      default:
        damaged();
    }
  }

 private:
  [[noreturn]] void damaged() const {
    fail(ErrorKind::kCorrupt, "{}: no model of SentencePiece, or a damaged one", what_);
  }
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) damaged();
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint64_t fixed(std::size_t count) {
    std::uint64_t value = 0;
    std::memcpy(&value, take(count).data(), count);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    damaged();
  }

  std::string_view rest_;
  const std::string& what_;
};

}  // namespace mlx::data::subword
