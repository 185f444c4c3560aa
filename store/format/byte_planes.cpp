#include "store/format/byte_planes.h"

#include <bit>
#include <cstring>

namespace mlx::store {

namespace {

template <int kWidth>
void split(const std::uint8_t* elements, std::uint8_t* planes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (int b = 0; b < kWidth; ++b) planes[static_cast<std::size_t>(b) * count + i] = elements[i * kWidth + b];
  }
}

template <int kWidth>
void join(const std::uint8_t* planes, std::uint8_t* elements, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    for (int b = 0; b < kWidth; ++b) elements[i * kWidth + b] = planes[static_cast<std::size_t>(b) * count + i];
  }
}

// Zigzag: 0, -1, 1, -2 … as 0, 1, 2, 3 …
template <typename T>
void subtract_as(Bytes& to, ByteView base) {
  for (std::size_t at = 0; at < to.size(); at += sizeof(T)) {
    T a = 0, b = 0;
    std::memcpy(&a, to.data() + at, sizeof(T));
    std::memcpy(&b, base.data() + at, sizeof(T));
    const T difference = static_cast<T>(a - b);
    const T sign = static_cast<T>(T{0} - static_cast<T>(difference >> (8 * sizeof(T) - 1)));
    const T out = static_cast<T>(static_cast<T>(difference << 1) ^ sign);
    std::memcpy(to.data() + at, &out, sizeof(T));
  }
}

template <typename T>
void add_as(Bytes& to, ByteView base) {
  for (std::size_t at = 0; at < to.size(); at += sizeof(T)) {
    T z = 0, b = 0;
    std::memcpy(&z, to.data() + at, sizeof(T));
    std::memcpy(&b, base.data() + at, sizeof(T));
    const T difference = static_cast<T>(static_cast<T>(z >> 1) ^ static_cast<T>(T{0} - static_cast<T>(z & 1)));
    const T out = static_cast<T>(b + difference);
    std::memcpy(to.data() + at, &out, sizeof(T));
  }
}

static_assert(std::endian::native == std::endian::little, "elements are read as they stand");

}  // namespace

void split_planes(ByteView elements, int width, Bytes& planes) {
  planes.resize(elements.size());
  std::size_t count = elements.size() / static_cast<std::size_t>(width);
  if (width == 1) split<1>(elements.data(), planes.data(), count);
  if (width == 2) split<2>(elements.data(), planes.data(), count);
  if (width == 4) split<4>(elements.data(), planes.data(), count);
  if (width == 8) split<8>(elements.data(), planes.data(), count);
}

void join_planes(ByteView planes, int width, Bytes& elements) {
  elements.resize(planes.size());
  std::size_t count = planes.size() / static_cast<std::size_t>(width);
  if (width == 1) join<1>(planes.data(), elements.data(), count);
  if (width == 2) join<2>(planes.data(), elements.data(), count);
  if (width == 4) join<4>(planes.data(), elements.data(), count);
  if (width == 8) join<8>(planes.data(), elements.data(), count);
}

void subtract(Bytes& to, ByteView base, int width) {
  if (width == 1) subtract_as<std::uint8_t>(to, base);
  if (width == 2) subtract_as<std::uint16_t>(to, base);
  if (width == 4) subtract_as<std::uint32_t>(to, base);
  if (width == 8) subtract_as<std::uint64_t>(to, base);
}

void add(Bytes& to, ByteView base, int width) {
  if (width == 1) add_as<std::uint8_t>(to, base);
  if (width == 2) add_as<std::uint16_t>(to, base);
  if (width == 4) add_as<std::uint32_t>(to, base);
  if (width == 8) add_as<std::uint64_t>(to, base);
}

}  // namespace mlx::store
