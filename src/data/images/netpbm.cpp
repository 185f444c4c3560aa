// PGM and PPM, parsed by formats/netpbm.h.

#include <algorithm>

#include "base/error.h"
#include "data/images/codecs/codec.h"
#include "formats/netpbm.h"

namespace mlx::data {

void decode_netpbm(PictureRequest* request) {
  try {
    const formats::NetpbmImage image = formats::parse_netpbm({request->file, request->size}, "its header");
    if (!take_size(request, image.height, image.width, image.channels, 0) || request->header_only) return;
    std::uint8_t* const pixels = allocate_pixels(request, image.height, image.width, image.channels);
    if (pixels) std::ranges::copy(image.pixels, pixels);
  } catch (const Error& error) {
    const bool damaged = error.kind == ErrorKind::kCorrupt;
    refuse(request, damaged ? PictureProblem::kDamaged : PictureProblem::kUnsupported, "%s", error.message.c_str());
  }
}

}  // namespace mlx::data
