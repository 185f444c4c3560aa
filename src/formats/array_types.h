// The types of numbers in stored arrays, as safetensors and npy name them: little-endian, one row each. Used by the
// readers of tables and by differences of tensors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes.h"

namespace mlx::formats {

// IEEE 754's binary16, and the upper half of a binary32.
struct Half {
  std::uint16_t bits = 0;
  explicit operator double() const;
};
struct Bfloat {
  std::uint16_t bits = 0;
  explicit operator double() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};
// A byte, of which all but 0 are true.
struct Bool {
  std::uint8_t byte = 0;
  explicit operator double() const { return byte; }
};

enum class ArrayElement : std::uint8_t { kBool, kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kF16, kBF16, kF32, kF64 };

struct ArrayType {
  std::string_view dtype;  // of safetensors
  std::string_view descr;  // of npy; "" if it has none
  std::size_t size = 0;    // bytes
  ArrayElement element = ArrayElement::kBool;
};
// Null for all other types, such as F8_E4M3 or big-endian numbers.
const ArrayType* array_type_of_dtype(std::string_view dtype);
const ArrayType* array_type_of_descr(std::string_view descr);

// Returns `visit.template operator()<T>()`, T being what an element is in memory.
template <typename Visit>
auto with_element(ArrayElement element, Visit&& visit) {
  switch (element) {
    case ArrayElement::kBool:
      return visit.template operator()<Bool>();
    case ArrayElement::kI8:
      return visit.template operator()<std::int8_t>();
    case ArrayElement::kU8:
      return visit.template operator()<std::uint8_t>();
    case ArrayElement::kI16:
      return visit.template operator()<std::int16_t>();
    case ArrayElement::kU16:
      return visit.template operator()<std::uint16_t>();
    case ArrayElement::kI32:
      return visit.template operator()<std::int32_t>();
    case ArrayElement::kU32:
      return visit.template operator()<std::uint32_t>();
    case ArrayElement::kI64:
      return visit.template operator()<std::int64_t>();
    case ArrayElement::kU64:
      return visit.template operator()<std::uint64_t>();
    case ArrayElement::kF16:
      return visit.template operator()<Half>();
    case ArrayElement::kBF16:
      return visit.template operator()<Bfloat>();
    case ArrayElement::kF32:
      return visit.template operator()<float>();
    case ArrayElement::kF64:
      break;
  }
  return visit.template operator()<double>();
}

// The element that stands at `at`, which need not be aligned.
template <typename T>
T load_element(const std::uint8_t* at) {
  static_assert(std::endian::native == std::endian::little, "elements are stored little-endian and read as they stand");
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace mlx::formats
