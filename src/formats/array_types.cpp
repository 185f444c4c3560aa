// The table of types.
#include "formats/array_types.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mlx::formats {
namespace {

constexpr std::array<ArrayType, 13> kArrayTypes{{
    {"BOOL", "|b1", 1, ArrayElement::kBool},
    {"I8", "|i1", 1, ArrayElement::kI8},
    {"U8", "|u1", 1, ArrayElement::kU8},
    {"I16", "<i2", 2, ArrayElement::kI16},
    {"U16", "<u2", 2, ArrayElement::kU16},
    {"I32", "<i4", 4, ArrayElement::kI32},
    {"U32", "<u4", 4, ArrayElement::kU32},
    {"I64", "<i8", 8, ArrayElement::kI64},
    {"U64", "<u8", 8, ArrayElement::kU64},
    {"F16", "<f2", 2, ArrayElement::kF16},
    {"BF16", "", 2, ArrayElement::kBF16},
    {"F32", "<f4", 4, ArrayElement::kF32},
    {"F64", "<f8", 8, ArrayElement::kF64},
}};

const ArrayType* array_type_with(std::string_view ArrayType::*name, std::string_view value) {
  const auto* const found = std::ranges::find(kArrayTypes, value, name);
  return value.empty() || found == kArrayTypes.end() ? nullptr : found;
}

}  // namespace

Half::operator double() const {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}

const ArrayType* array_type_of_dtype(std::string_view dtype) {
  return array_type_with(&ArrayType::dtype, dtype);
}

const ArrayType* array_type_of_descr(std::string_view descr) {
  return array_type_with(&ArrayType::descr, descr);
}

}  // namespace mlx::formats
