// Shared by the decoders: how they refuse a file, check its size and find its orientation. No function here throws or
// allocates; libraries jump over the frames of the decoders.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "data/images/codecs/module.h"

namespace mlx::data {

void decode_jpeg(PictureRequest* request);
void decode_png(PictureRequest* request);
void decode_webp(PictureRequest* request);
void decode_tiff(PictureRequest* request);
void decode_bmp(PictureRequest* request);
void decode_netpbm(PictureRequest* request);
void decode_wav(PictureRequest* request);

// Always false, so that a decoder can return it. The first problem stays.
[[gnu::format(printf, 3, 4)]] inline bool refuse(PictureRequest* request, PictureProblem problem, const char* format,
                                                 ...) {
  if (request->problem != PictureProblem::kNone) return false;
  request->problem = problem;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(request->message, sizeof request->message, format, arguments);
  va_end(arguments);
  return false;
}

// Takes the size that a header tells. `bytes` is the least that so many pixels can take in the file, or 0 where the
// format has no such bound.
inline bool take_size(PictureRequest* request, std::int64_t height, std::int64_t width, std::int64_t channels,
                      double bytes) {
  if (height < 1 || width < 1) return refuse(request, PictureProblem::kDamaged, "it has no pixels");
  if (height > request->max_pixels / width) {
    return refuse(request, PictureProblem::kTooLarge, "%lld x %lld pixels are more than the %lld that are allowed",
                  static_cast<long long>(height), static_cast<long long>(width),
                  static_cast<long long>(request->max_pixels));
  }
  if (bytes > static_cast<double>(request->size)) {
    return refuse(request, PictureProblem::kDamaged, "it is cut off: %zu bytes cannot hold %lld x %lld pixels",
                  request->size, static_cast<long long>(height), static_cast<long long>(width));
  }
  request->height = height;
  request->width = width;
  request->channels = channels;
  return true;
}

inline std::uint8_t* allocate_pixels(PictureRequest* request, std::int64_t height, std::int64_t width,
                                     std::int64_t channels) {
  std::uint8_t* const pixels = request->allocate(request->user, height, width, channels);
  if (!pixels) refuse(request, PictureProblem::kNoMemory, "memory is short");
  return pixels;
}

// Orientation (tag 0x0112 of the first directory) from EXIF data, which is a small TIFF file; 1 if there is none or it
// makes no sense: as viewers do, a picture is not refused for it.
inline int exif_orientation(const std::uint8_t* exif, std::size_t size) {
  if (size >= 6 && std::memcmp(exif, "Exif\0\0", 6) == 0) exif += 6, size -= 6;
  if (size < 8) return 1;
  const bool little = exif[0] == 'I';
  const auto number = [&](std::size_t at, int bytes) {
    std::uint32_t value = 0;
    for (int i = 0; i < bytes; ++i)
      value = value << 8 | exif[at + static_cast<std::size_t>(little ? bytes - 1 - i : i)];
    return std::size_t{value};
  };
  if (std::memcmp(exif, "II*\0", 4) != 0 && std::memcmp(exif, "MM\0*", 4) != 0) return 1;
  const std::size_t directory = number(4, 4);
  if (directory > size - 2) return 1;
  const std::size_t count = number(directory, 2);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > size) return 1;
    if (number(entry, 2) != 0x0112 || number(entry + 2, 2) != 3) continue;
    const std::size_t value = number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace mlx::data
