// PNG by libpng: every colour type and depth, interlaced or not. Transparency is dropped, of 16 bits the upper eight
// stay.
//
// The library leaves by longjmp: nothing in these frames has a destructor.
#include <png.h>

#include <cstdlib>

#include "data/images/codecs/codec.h"

namespace mlx::data {
namespace {

constexpr double kDeflateRatio = 1032;  // the most that deflate compresses to one byte

struct Decoder {
  PictureRequest* request;
  png_structp png;
  png_infop info;
  std::size_t at;
  png_bytep* rows;
};

const png_byte kTextChunks[] = "tEXt\0zTXt\0iTXt";

void on_error(png_structp png, png_const_charp message) {
  refuse(static_cast<PictureRequest*>(png_get_error_ptr(png)), PictureProblem::kDamaged, "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, std::size_t count) {
  Decoder& decoder = *static_cast<Decoder*>(png_get_io_ptr(png));
  if (count > decoder.request->size - decoder.at) png_error(png, "the file is cut off");
  std::memcpy(to, decoder.request->file + decoder.at, count);
  decoder.at += count;
}

void read_exif(Decoder& decoder) {
  png_bytep exif = nullptr;
  png_uint_32 size = 0;
  if (png_get_eXIf_1(decoder.png, decoder.info, &size, &exif) != 0)
    decoder.request->orientation = exif_orientation(exif, size);
}

bool read_header(Decoder& decoder) {
  const png_structp png = decoder.png;
  png_set_read_fn(png, &decoder, on_read);
  png_set_user_limits(png, 0x7FFFFFFF, 0x7FFFFFFF);  // take_size() has limits of its own
  // Text says nothing about pixels, and can hold gigabytes.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kTextChunks, 3);
  png_set_chunk_cache_max(png, 64);
  png_set_chunk_malloc_max(png, 16 << 20);
  png_read_info(png, decoder.info);
  decoder.request->icc = png_get_valid(png, decoder.info, PNG_INFO_iCCP) != 0;
  read_exif(decoder);
  const std::int64_t height = png_get_image_height(png, decoder.info), width = png_get_image_width(png, decoder.info);
  const int bits = png_get_bit_depth(png, decoder.info) * png_get_channels(png, decoder.info);
  const bool colour = (png_get_color_type(png, decoder.info) & PNG_COLOR_MASK_COLOR) != 0;
  return take_size(decoder.request, height, width, colour ? 3 : 1,
                   static_cast<double>(height) * static_cast<double>(width) * bits / 8 / kDeflateRatio);
}

void read_pixels(Decoder& decoder) {
  const png_structp png = decoder.png;
  const std::int64_t height = decoder.request->height, row = decoder.request->width * decoder.request->channels;
  png_set_expand(png);  // palettes, less than 8 bits
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  if (png_get_rowbytes(png, decoder.info) != static_cast<std::size_t>(row)) png_error(png, "rows of an unknown layout");
  std::uint8_t* const pixels =
      allocate_pixels(decoder.request, height, decoder.request->width, decoder.request->channels);
  if (!pixels) return;
  decoder.rows = static_cast<png_bytep*>(std::malloc(static_cast<std::size_t>(height) * sizeof(png_bytep)));
  if (!decoder.rows) {
    refuse(decoder.request, PictureProblem::kNoMemory, "memory is short");
    return;
  }
  for (std::int64_t y = 0; y < height; ++y) decoder.rows[y] = pixels + y * row;
  png_read_image(png, decoder.rows);
  png_read_end(png, nullptr);  // checks the last sums
}

}  // namespace

void decode_png(PictureRequest* request) {
  Decoder decoder{};
  decoder.request = request;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, request, on_error, on_warning);
  if (decoder.png) decoder.info = png_create_info_struct(decoder.png);
  if (!decoder.info) {
    refuse(request, PictureProblem::kNoMemory, "memory is short");
  } else if (setjmp(png_jmpbuf(decoder.png)) == 0) {
    if (read_header(decoder) && !request->header_only) read_pixels(decoder);
  }
  png_destroy_read_struct(&decoder.png, &decoder.info, nullptr);
  std::free(decoder.rows);
}

}  // namespace mlx::data
