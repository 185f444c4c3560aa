// Splits elements of a fixed width into planes: all first bytes, all second bytes and so on. In a tensor of floats the
// bytes with the exponents are alike and those with the last bits of the mantissa are not; apart they compress better.
// Used by the codec; pure functions.
#pragma once

#include "base/bytes.h"

namespace mlx::store {

inline constexpr int kMaxWidth = 8;
inline bool is_width(int width) {
  return width == 1 || width == 2 || width == 4 || width == 8;
}

// `elements` and `planes` have the same size, a multiple of `width`.
void split_planes(ByteView elements, int width, Bytes& planes);
void join_planes(ByteView planes, int width, Bytes& elements);
// The difference `to` - `base` of elements as unsigned little-endian integers, modulo 2^(8 width), and back. The sign
// is the lowest bit, so that small differences of either sign are small numbers. Floats of one sign are ordered as
// their bits are, so that a small step gives a small number. Both have the same size, a multiple of `width`.
void subtract(Bytes& to, ByteView base, int width);
void add(Bytes& to, ByteView base, int width);

}  // namespace mlx::store
