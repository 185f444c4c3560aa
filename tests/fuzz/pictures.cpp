// Decoders of pictures and sounds: whatever a file says, its pixels fit what it told in the header, and can be scaled.
#include "data/images/decode.h"
#include "data/images/photo.h"
#include "data/images/resize.h"
#include "fuzz.h"

using namespace mlx;
using namespace mlx::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView file(data, size);
  DecodeOptions options;
  options.channels = size % 2 == 0 ? 3 : 1;
  options.enough_height = options.enough_width = size % 3 == 0 ? 5 : 0;
  options.max_pixels = 1 << 20;
  fuzz::errors_are_fine([&] {
    const Picture picture = decode_picture(file, "file", options);
    fuzz::require(picture.channels == options.channels, "channels are those asked for");
    fuzz::require(picture.pixels.size() == static_cast<std::size_t>(picture.height * picture.width * picture.channels),
                  "pixels fill the picture");
    const PictureHeader header = read_picture_header(file, "file");
    fuzz::require(picture.height <= header.height && picture.width <= header.width, "the header told the size");
    fuzz::require(options.enough_height > 0 || (picture.height == header.height && picture.width == header.width),
                  "the header told the size");
    fuzz::require(resize(picture, 3, 4).pixels.size() == static_cast<std::size_t>(12 * picture.channels), "it scales");
  });
  fuzz::errors_are_fine([&] {
    constexpr PhotoForm kForm{24, 9, 1, Fit::kSpectrogram};
    const Bytes pixels(static_cast<std::size_t>(kForm.bytes() + 1));
    Bytes heard = pixels;
    prepare_photo(file, "file", kForm, heard.data());
    fuzz::require(heard.back() == 0, "a spectrogram fills its form and no more");
  });
  return 0;
}
