// BMP: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits with or without masks; not run-length encoded.
// Offsets are those of Microsoft's BITMAPFILEHEADER and BITMAPINFOHEADER.

#include <cstdlib>

#include "data/images/codecs/codec.h"

namespace mlx::data {
namespace {

constexpr std::size_t kDibAt = 14, kMasksAt = 54;  // of the second header, and of the masks in or behind it
constexpr std::uint32_t kCoreSize = 12, kInfoSize = 40;

struct Bmp {
  std::int64_t height = 0, width = 0, row = 0;  // row: bytes, a multiple of four
  std::uint32_t bits = 0;
  bool top_down = false;
  std::size_t pixels = 0;  // offset
  std::uint8_t palette[256][3] = {};
  std::uint32_t masks[3] = {};
};

std::uint32_t number_at(const PictureRequest& request, std::size_t at, std::size_t bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | request.file[at + i];
  return value;
}

bool read_palette(PictureRequest* request, std::size_t at, std::size_t entry, std::uint32_t count, Bmp& bmp) {
  if (at + entry * count > request->size) return refuse(request, PictureProblem::kDamaged, "its palette is cut off");
  for (std::uint32_t i = 0; i < count; ++i)
    for (std::size_t c = 0; c < 3; ++c) bmp.palette[i][c] = request->file[at + entry * i + 2 - c];
  return true;
}

bool is_grey(const Bmp& bmp) {
  for (const auto& [red, green, blue] : bmp.palette)
    if (red != green || green != blue) return false;
  return bmp.bits <= 8;
}

bool read_masks(PictureRequest* request, std::uint32_t compression, Bmp& bmp) {
  if (compression == 0) {
    const bool small = bmp.bits == 16;
    for (std::uint32_t c = 0; c < 3; ++c) bmp.masks[c] = small ? 0x1Fu << (5 * (2 - c)) : 0xFFu << (8 * (2 - c));
    return true;
  }
  if (request->size < kMasksAt + 12) return refuse(request, PictureProblem::kDamaged, "its header is cut off");
  for (std::size_t c = 0; c < 3; ++c) bmp.masks[c] = number_at(*request, kMasksAt + 4 * c, 4);
  return true;
}

bool read_header(PictureRequest* request, Bmp& bmp) {
  if (request->size < kDibAt + kCoreSize) return refuse(request, PictureProblem::kDamaged, "its header is cut off");
  const std::uint32_t header = number_at(*request, kDibAt, 4);
  std::uint32_t compression = 0, used = 0;
  bmp.pixels = number_at(*request, 10, 4);
  if (header == kCoreSize) {
    bmp.width = number_at(*request, 18, 2);
    bmp.height = number_at(*request, 20, 2);
    bmp.bits = number_at(*request, 24, 2);
  } else {
    if (header < kInfoSize || request->size < kDibAt + kInfoSize)
      return refuse(request, PictureProblem::kDamaged, "its header is damaged or cut off");
    bmp.width = static_cast<std::int32_t>(number_at(*request, 18, 4));
    bmp.height = static_cast<std::int32_t>(number_at(*request, 22, 4));
    bmp.bits = number_at(*request, 28, 2);
    compression = number_at(*request, 30, 4);
    used = number_at(*request, 46, 4);
    bmp.top_down = bmp.height < 0;
    if (bmp.top_down) bmp.height = -bmp.height;
  }
  const std::uint32_t bits = bmp.bits;
  const bool palette = bits == 1 || bits == 4 || bits == 8, masks = bits == 16 || bits == 32;
  if (!palette && !masks && bits != 24)
    return refuse(request, PictureProblem::kUnsupported, "%u bits a pixel are not read", bits);
  if (compression != 0 && !(compression == 3 && masks))
    return refuse(request, PictureProblem::kUnsupported, "compression %u is not read", compression);
  if (palette) {
    const std::uint32_t most = 1u << bits;
    if (!read_palette(request, kDibAt + std::size_t{header}, header == kCoreSize ? 3 : 4,
                      used == 0 || used > most ? most : used, bmp))
      return false;
  }
  if (masks && !read_masks(request, compression, bmp)) return false;
  bmp.row = (bmp.width * bits + 31) / 32 * 4;
  return take_size(request, bmp.height, bmp.width, is_grey(bmp) ? 1 : 3,
                   static_cast<double>(bmp.pixels) + static_cast<double>(bmp.row) * static_cast<double>(bmp.height));
}

std::uint8_t masked(std::uint32_t pixel, std::uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = __builtin_ctz(mask);
  return static_cast<std::uint8_t>(std::uint64_t{(pixel & mask) >> shift} * 255 / (mask >> shift));
}

void colour_at(const Bmp& bmp, const std::uint8_t* row, std::int64_t x, std::uint8_t* to) {
  if (bmp.bits <= 8) {
    const auto at = static_cast<std::size_t>(x) * bmp.bits;
    const std::uint32_t index = row[at / 8] >> (8 - bmp.bits - at % 8) & ((1u << bmp.bits) - 1);
    std::memcpy(to, bmp.palette[index], 3);
  } else if (bmp.bits == 24) {
    for (int c = 0; c < 3; ++c) to[c] = row[3 * x + 2 - c];
  } else {
    std::uint32_t pixel = 0;
    std::memcpy(&pixel, row + x * (bmp.bits / 8), bmp.bits / 8);
    for (int c = 0; c < 3; ++c) to[c] = masked(pixel, bmp.masks[c]);
  }
}

}  // namespace

void decode_bmp(PictureRequest* request) {
  Bmp bmp;
  if (!read_header(request, bmp) || request->header_only) return;
  const std::int64_t channels = request->channels;
  std::uint8_t* to = allocate_pixels(request, bmp.height, bmp.width, channels);
  if (!to) return;
  for (std::int64_t y = 0; y < bmp.height; ++y) {
    const std::int64_t stored = bmp.top_down ? y : bmp.height - 1 - y;
    const std::uint8_t* const row = request->file + bmp.pixels + stored * bmp.row;
    for (std::int64_t x = 0; x < bmp.width; ++x, to += channels) {
      std::uint8_t colour[3];
      colour_at(bmp, row, x, colour);
      std::memcpy(to, colour, static_cast<std::size_t>(channels));
    }
  }
}

}  // namespace mlx::data
