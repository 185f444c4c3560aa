// What the module hands out.
// libjpeg's header wants <cstdio> before it, which this one includes.
#include "data/images/codecs/codec.h"
// The libraries.
#include <jpeglib.h>
#include <png.h>
#include <tiffio.h>
#include <webp/decode.h>

namespace mlx::data {
namespace {

const char* library_versions() {
  static char text[160];
  const int webp = WebPGetDecoderVersion();
  const char* const tiff = TIFFGetVersion();  // "LIBTIFF, Version 4.5.0\nCopyright …"
  std::snprintf(text, sizeof text, "libjpeg %d, libpng %s, libwebp %d.%d.%d, %.*s", JPEG_LIB_VERSION,
                png_get_libpng_ver(nullptr), webp >> 16, webp >> 8 & 255, webp & 255,
                static_cast<int>(std::strcspn(tiff, "\n")), tiff);
  return text;
}

}  // namespace
}  // namespace mlx::data

extern "C" const mlx::data::ImagesModule* mlx_images_module() {
  using namespace mlx::data;
  static const ImagesModule module{kImagesModuleVersion, decode_jpeg, decode_png,
                                   decode_webp,          decode_tiff, library_versions()};
  return &module;
}
