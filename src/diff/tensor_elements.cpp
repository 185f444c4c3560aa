// One row for each dtype.
#include "diff/tensor_elements.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

namespace mlx::diff {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian and read as they stand");

double of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = 0;
  if (exponent == 31)
    value = fraction ? std::nan("") : HUGE_VAL;
  else
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

double of_bfloat(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(std::uint32_t{bits} << 16));
}

template <typename Stored, typename Convert>
void decode(ByteView bytes, double* out, Convert convert) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(Stored); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    out[i] = convert(stored);
  }
}

template <typename Stored>
void plain(ByteView bytes, double* out) {
  decode<Stored>(bytes, out, [](Stored value) { return static_cast<double>(value); });
}

struct Type {
  std::string_view name, npy;
  std::size_t size;
  void (*decode)(ByteView, double*);
};
constexpr std::array<Type, 13> kTypes{{
    {"F64", "<f8", 8, plain<double>},
    {"F32", "<f4", 4, plain<float>},
    {"F16", "<f2", 2, [](ByteView bytes, double* out) { decode<std::uint16_t>(bytes, out, of_half); }},
    {"BF16", "", 2, [](ByteView bytes, double* out) { decode<std::uint16_t>(bytes, out, of_bfloat); }},
    {"I64", "<i8", 8, plain<std::int64_t>},
    {"I32", "<i4", 4, plain<std::int32_t>},
    {"I16", "<i2", 2, plain<std::int16_t>},
    {"I8", "|i1", 1, plain<std::int8_t>},
    {"U64", "<u8", 8, plain<std::uint64_t>},
    {"U32", "<u4", 4, plain<std::uint32_t>},
    {"U16", "<u2", 2, plain<std::uint16_t>},
    {"U8", "|u1", 1, plain<std::uint8_t>},
    {"BOOL", "|b1", 1, plain<std::uint8_t>},
}};

}  // namespace

std::size_t element_size(std::string_view dtype) {
  for (const Type& type : kTypes)
    if (type.name == dtype) return type.size;
  return 0;
}

void decode_elements(std::string_view dtype, ByteView bytes, double* out) {
  for (const Type& type : kTypes)
    if (type.name == dtype) type.decode(bytes, out);
}

std::string dtype_of_npy(std::string_view descr) {
  for (const Type& type : kTypes)
    if (!type.npy.empty() && type.npy == descr) return std::string(type.name);
  return std::string(descr);
}

}  // namespace mlx::diff
