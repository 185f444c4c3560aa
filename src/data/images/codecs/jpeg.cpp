// JPEG by libjpeg-turbo: scaled decoding, greyscale, CMYK and YCCK. A file that the library has to guess at is damaged.
//
// The library leaves by longjmp: nothing in these frames has a destructor.
#include <cstdio>
#include <cstdlib>
// libjpeg's header wants those two.
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>

#include "data/images/codecs/codec.h"

namespace mlx::data {
namespace {

constexpr int kMaxScans = 100;               // a progressive file of a few KB can have thousands, each a pass over it
constexpr double kMaxPixelsPerByte = 4096;   // a block of 64 pixels takes a bit or more; arithmetic coding less
constexpr std::int64_t kMemoryPerPixel = 8;  // coefficients of a progressive file: at most 3 channels of 2 bytes

struct Decoder {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf leave;
  PictureRequest* request;
  std::uint8_t* row;  // of a CMYK picture
};

Decoder& decoder_of(j_common_ptr info) {
  return *static_cast<Decoder*>(info->client_data);
}

void leave_with_error(j_common_ptr info) {
  char message[JMSG_LENGTH_MAX];
  info->err->format_message(info, message);
  const bool memory = info->err->msg_code == JERR_OUT_OF_MEMORY || info->err->msg_code == JERR_NO_BACKING_STORE;
  refuse(decoder_of(info).request, memory ? PictureProblem::kNoMemory : PictureProblem::kDamaged, "%s", message);
  std::longjmp(decoder_of(info).leave, 1);
}

// Level -1 is a warning: the library goes on with made-up pixels. These are none of that.
bool is_harmless(int code) {
  return code == JWRN_ADOBE_XFORM || code == JWRN_BOGUS_ICC || code == JWRN_BOGUS_PROGRESSION ||
         code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && !is_harmless(info->err->msg_code)) leave_with_error(info);
}

void on_output(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  refuse(decoder_of(info).request, PictureProblem::kUnsupported, "it has more than %d scans", kMaxScans);
  std::longjmp(decoder_of(info).leave, 1);
}

void set_up(Decoder& decoder) {
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = leave_with_error;
  decoder.errors.emit_message = on_message;
  decoder.errors.output_message = on_output;
  decoder.info.client_data = &decoder;
}

void read_markers(Decoder& decoder) {
  for (jpeg_saved_marker_ptr marker = decoder.info.marker_list; marker; marker = marker->next) {
    if (marker->marker == JPEG_APP0 + 1 && marker->data_length > 6 && std::memcmp(marker->data, "Exif", 5) == 0)
      decoder.request->orientation = exif_orientation(marker->data, marker->data_length);
    if (marker->marker == JPEG_APP0 + 2 && marker->data_length >= 12 &&
        std::memcmp(marker->data, "ICC_PROFILE", 12) == 0)
      decoder.request->icc = true;
  }
}

bool read_header(Decoder& decoder) {
  jpeg_decompress_struct& info = decoder.info;
  jpeg_create_decompress(&info);
  info.mem->max_memory_to_use = static_cast<long>(kMemoryPerPixel * decoder.request->max_pixels);
  decoder.progress.progress_monitor = on_progress;
  info.progress = &decoder.progress;
  jpeg_mem_src(&info, decoder.request->file, decoder.request->size);
  jpeg_save_markers(&info, JPEG_APP0 + 1, 0xFFFF);
  jpeg_save_markers(&info, JPEG_APP0 + 2, 0xFFFF);
  jpeg_read_header(&info, TRUE);
  read_markers(decoder);
  const std::int64_t height = info.image_height, width = info.image_width;
  return take_size(decoder.request, height, width, info.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3,
                   static_cast<double>(height) * static_cast<double>(width) / kMaxPixelsPerByte);
}

// An eighth, a quarter or a half, where that is still enough for the part that is wanted.
void choose_scale(Decoder& decoder) {
  const PictureRequest& request = *decoder.request;
  if (request.enough_height <= 0 || request.enough_width <= 0) return;
  const bool turned = request.orientation >= 5, whole = request.part_height == 0;
  const std::int64_t height = whole ? (turned ? request.width : request.height) : request.part_height,
                     width = whole ? (turned ? request.height : request.width) : request.part_width;
  const std::int64_t rounding = whole ? 7 : 0;  // the library rounds the size of the whole up
  decoder.info.scale_denom = 8;
  for (decoder.info.scale_num = 1; decoder.info.scale_num < 8; decoder.info.scale_num *= 2) {
    const std::int64_t eighths = decoder.info.scale_num;
    if ((height * eighths + rounding) / 8 >= request.enough_height &&
        (width * eighths + rounding) / 8 >= request.enough_width)
      return;
  }
}

int times_255th(int a, int b) {
  const int product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

// Naive CMYK, as Pillow's. Files with Adobe's marker have inverted inks.
void cmyk_to_rgb(const std::uint8_t* from, std::int64_t width, bool inverted, std::uint8_t* to) {
  const int flip = inverted ? 255 : 0;
  for (std::int64_t x = 0; x < width; ++x, from += 4, to += 3) {
    const int light = 255 - (from[3] ^ flip);
    for (int c = 0; c < 3; ++c) {
      const int value = light - times_255th(from[c] ^ flip, light);
      to[c] = static_cast<std::uint8_t>(value < 0 ? 0 : value);
    }
  }
}

// The rows and columns to decode, at the scale of the result.
struct Window {
  std::int64_t top, left, height, width;
};

// What the wanted part covers, and two pixels around it, from which the colours of its border are interpolated.
Window window_of(const Decoder& decoder) {
  constexpr std::int64_t kAround = 2;
  const PictureRequest& request = *decoder.request;
  const std::int64_t height = decoder.info.output_height, width = decoder.info.output_width;
  if (request.part_height == 0 || request.orientation != 1) return {0, 0, height, width};
  const std::int64_t eighths = request.eighths;
  const auto first = [eighths](std::int64_t begin) {
    const std::int64_t at = begin * eighths / 8 - kAround;
    return at < 0 ? 0 : at;
  };
  const auto end = [eighths](std::int64_t stop, std::int64_t scaled) {
    const std::int64_t at = (stop * eighths + 7) / 8 + kAround;
    return at > scaled ? scaled : at;
  };
  const std::int64_t top = first(request.part_top), left = first(request.part_left);
  return {top, left, end(request.part_top + request.part_height, height) - top,
          end(request.part_left + request.part_width, width) - left};
}

// Tells the library to leave out what lies outside of the window, whose left side moves to a whole block.
Window open_window(Decoder& decoder) {
  jpeg_decompress_struct& info = decoder.info;
  PictureRequest& request = *decoder.request;
  request.eighths = 8 * info.scale_num / info.scale_denom;
  Window window = window_of(decoder);
  if (window.width < std::int64_t{info.output_width}) {
    auto left = static_cast<JDIMENSION>(window.left), width = static_cast<JDIMENSION>(window.width);
    jpeg_crop_scanline(&info, &left, &width);
    window.left = left, window.width = width;
  }
  if (window.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(window.top));
  request.first_row = window.top, request.first_column = window.left;
  return window;
}

void read_cmyk(Decoder& decoder, const Window& window, std::uint8_t* to) {
  const std::int64_t width = window.width;
  decoder.row = static_cast<std::uint8_t*>(std::malloc(static_cast<std::size_t>(4 * width)));
  if (!decoder.row) {
    refuse(decoder.request, PictureProblem::kNoMemory, "memory is short");
    return;
  }
  for (std::int64_t y = 0; y < window.height; ++y, to += 3 * width) {
    jpeg_read_scanlines(&decoder.info, &decoder.row, 1);
    cmyk_to_rgb(decoder.row, width, decoder.info.saw_Adobe_marker, to);
  }
}

void read_rows(Decoder& decoder, const Window& window, std::uint8_t* to, std::int64_t row) {
  for (std::int64_t y = 0; y < window.height;) {
    JSAMPROW rows[8];
    for (int i = 0; i < 8; ++i) rows[i] = to + (y + i) * row;
    const std::int64_t left = window.height - y;
    y += jpeg_read_scanlines(&decoder.info, rows, left < 8 ? static_cast<JDIMENSION>(left) : 8);
  }
}

void read_pixels(Decoder& decoder) {
  jpeg_decompress_struct& info = decoder.info;
  const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  const bool grey = decoder.request->channels == 1 || (!cmyk && decoder.request->wanted_channels == 1);
  info.out_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  choose_scale(decoder);
  jpeg_start_decompress(&info);
  const Window window = open_window(decoder);
  const std::int64_t channels = grey ? 1 : 3;
  std::uint8_t* const pixels = allocate_pixels(decoder.request, window.height, window.width, channels);
  if (!pixels) return;
  if (cmyk)
    read_cmyk(decoder, window, pixels);
  else
    read_rows(decoder, window, pixels, window.width * channels);
}

}  // namespace

void decode_jpeg(PictureRequest* request) {
  Decoder decoder{};
  decoder.request = request;
  set_up(decoder);
  if (setjmp(decoder.leave) == 0) {
    if (read_header(decoder) && !request->header_only) read_pixels(decoder);
  }
  jpeg_destroy_decompress(&decoder.info);
  std::free(decoder.row);
}

}  // namespace mlx::data
