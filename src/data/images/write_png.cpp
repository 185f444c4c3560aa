// Signature, header, one chunk of data compressed by zlib, end.

#include "data/images/write_png.h"

#include <zlib.h>

#include <string_view>

#include "base/error.h"

namespace mlx::data {
namespace {

void put_u32(Bytes& to, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) to.push_back(static_cast<std::uint8_t>(value >> shift));
}

void put_chunk(Bytes& to, std::string_view type, const Bytes& content) {
  put_u32(to, static_cast<std::uint32_t>(content.size()));
  const std::size_t begin = to.size();
  to.insert(to.end(), type.begin(), type.end());
  to.insert(to.end(), content.begin(), content.end());
  put_u32(to, static_cast<std::uint32_t>(crc32(0, to.data() + begin, static_cast<uInt>(to.size() - begin))));
}

}  // namespace

Bytes write_png(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t channels) {
  const std::int64_t shown = channels == 3 ? 3 : 1;
  Bytes plain;
  plain.reserve(static_cast<std::size_t>(height * (width * shown + 1)));
  for (std::int64_t y = 0; y < height; ++y) {
    plain.push_back(0);  // no filter
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t channel = 0; channel < shown; ++channel)
        plain.push_back(pixels[(y * width + x) * channels + channel]);
  }
  uLongf size = compressBound(plain.size());
  Bytes packed(size);
  CHECK(compress(packed.data(), &size, plain.data(), plain.size()) == Z_OK);
  packed.resize(size);

  Bytes header;
  put_u32(header, static_cast<std::uint32_t>(width)), put_u32(header, static_cast<std::uint32_t>(height));
  for (const int field : {8, shown == 3 ? 2 : 0, 0, 0, 0}) header.push_back(static_cast<std::uint8_t>(field));
  Bytes out = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  put_chunk(out, "IHDR", header);
  put_chunk(out, "IDAT", packed);
  put_chunk(out, "IEND", {});
  return out;
}

}  // namespace mlx::data
