#include "store/byte_planes.h"

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

void exclusive_or(Bytes& to, ByteView from) {
  std::uint8_t* out = to.data();
  const std::uint8_t* in = from.data();
  for (std::size_t i = 0; i < to.size(); ++i) out[i] = static_cast<std::uint8_t>(out[i] ^ in[i]);
}

}  // namespace mlx::store
