// WebP by libwebp, lossy and lossless; one picture, no animation. Transparency is dropped.
#include <webp/decode.h>

#include "data/images/codecs/codec.h"

namespace mlx::data {
namespace {

std::size_t little_endian(const std::uint8_t* at) {
  return at[0] | std::size_t{at[1]} << 8 | std::size_t{at[2]} << 16 | std::size_t{at[3]} << 24;
}

// Orientation and profile from the chunks of the container (RIFF: name, size, bytes, padded to even sizes).
void read_chunks(PictureRequest* request) {
  const std::uint8_t* const file = request->file;
  for (std::size_t at = 12; at + 8 <= request->size;) {
    const std::size_t size = little_endian(file + at + 4), left = request->size - at - 8;
    if (size > left) return;
    if (std::memcmp(file + at, "EXIF", 4) == 0) request->orientation = exif_orientation(file + at + 8, size);
    if (std::memcmp(file + at, "ICCP", 4) == 0) request->icc = true;
    at += 8 + size + size % 2;
  }
}

}  // namespace

void decode_webp(PictureRequest* request) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(request->file, request->size, &features) != VP8_STATUS_OK) {
    refuse(request, PictureProblem::kDamaged, "its header is damaged or cut off");
    return;
  }
  if (features.has_animation) {
    refuse(request, PictureProblem::kUnsupported, "animations are not read");
    return;
  }
  read_chunks(request);
  if (!take_size(request, features.height, features.width, 3, 0) || request->header_only) return;
  std::uint8_t* const pixels = allocate_pixels(request, features.height, features.width, 3);
  if (!pixels) return;
  const auto row = 3 * std::int64_t{features.width};
  if (!WebPDecodeRGBInto(request->file, request->size, pixels, static_cast<std::size_t>(row * features.height),
                         static_cast<int>(row)))
    refuse(request, PictureProblem::kDamaged, "it is damaged or cut off");
}

}  // namespace mlx::data
