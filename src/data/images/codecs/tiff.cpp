// TIFF by libtiff, from memory: the first page, of all layouts and compressions that the library turns into RGB.
// Transparency is dropped, of 16 bits the upper eight stay.
#include <tiffio.h>

#include <cstdlib>

#include "data/images/codecs/codec.h"

namespace mlx::data {
namespace {

// Rows that are stored together are decoded together, at 4 bytes a pixel beside the picture itself.
constexpr std::int64_t kMostTogether = std::int64_t{1} << 26;

struct File {
  PictureRequest* request;
  std::uint64_t at;
};

tmsize_t on_read(thandle_t handle, void* to, tmsize_t count) {
  File& file = *static_cast<File*>(handle);
  const std::uint64_t left = file.at < file.request->size ? file.request->size - file.at : 0;
  const std::uint64_t part = static_cast<std::uint64_t>(count) < left ? static_cast<std::uint64_t>(count) : left;
  if (part > 0) std::memcpy(to, file.request->file + file.at, part);
  file.at += part;
  return static_cast<tmsize_t>(part);
}

tmsize_t on_write(thandle_t, void*, tmsize_t) {
  return 0;
}

toff_t on_seek(thandle_t handle, toff_t offset, int origin) {
  File& file = *static_cast<File*>(handle);
  file.at = (origin == SEEK_CUR ? file.at : origin == SEEK_END ? file.request->size : 0) + offset;
  return file.at;
}

int on_close(thandle_t) {
  return 0;
}

toff_t on_size(thandle_t handle) {
  return static_cast<File*>(handle)->request->size;
}

int on_map(thandle_t handle, void** begin, toff_t* size) {
  const PictureRequest& request = *static_cast<File*>(handle)->request;
  *begin = const_cast<std::uint8_t*>(request.file);  // opened for reading
  *size = request.size;
  return 1;
}

void on_unmap(thandle_t, void*, toff_t) {}

int on_error(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  auto* request = static_cast<PictureRequest*>(user);
  char message[sizeof request->message];
  std::vsnprintf(message, sizeof message, format, arguments);
  refuse(request, PictureProblem::kDamaged, "%s", message);
  return 1;  // nothing goes to stderr
}

int on_warning(TIFF*, void*, const char*, const char*, va_list) {
  return 1;
}

TIFF* open(File& file) {
  TIFFOpenOptions* const options = TIFFOpenOptionsAlloc();
  if (!options) return nullptr;
  TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, file.request);
  TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, file.request);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, static_cast<tmsize_t>(8 * file.request->max_pixels));
  TIFF* const tiff = TIFFClientOpenExt("picture", "r", &file, on_read, on_write, on_seek, on_close, on_size, on_map,
                                       on_unmap, options);
  TIFFOpenOptionsFree(options);
  return tiff;
}

bool read_header(TIFF* tiff, PictureRequest* request) {
  std::uint32_t height = 0, width = 0, profile_size = 0;
  std::uint16_t orientation = 1, samples = 1, photometric = PHOTOMETRIC_RGB;
  void* profile = nullptr;
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &orientation);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
  TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
  request->orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
  request->icc = TIFFGetField(tiff, TIFFTAG_ICCPROFILE, &profile_size, &profile) != 0;
  const bool grey = photometric == PHOTOMETRIC_MINISWHITE || photometric == PHOTOMETRIC_MINISBLACK;
  return take_size(request, height, width, grey ? 1 : 3, 0);
}

// As many rows as are stored together, so that no piece is decoded twice.
std::int64_t rows_together(TIFF* tiff, std::int64_t height) {
  std::uint32_t rows = 0;
  TIFFGetFieldDefaulted(tiff, TIFFIsTiled(tiff) ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, &rows);
  return rows == 0 || rows > height ? height : rows;
}

void unpack(const std::uint32_t* from, std::int64_t pixels, std::int64_t channels, std::uint8_t* to) {
  for (std::int64_t i = 0; i < pixels; ++i, to += channels) {
    to[0] = static_cast<std::uint8_t>(TIFFGetR(from[i]));
    if (channels == 1) continue;
    to[1] = static_cast<std::uint8_t>(TIFFGetG(from[i]));
    to[2] = static_cast<std::uint8_t>(TIFFGetB(from[i]));
  }
}

bool read_rows(TIFFRGBAImage& image, std::int64_t rows, std::uint32_t* some, PictureRequest* request) {
  const std::int64_t height = request->height, width = request->width, channels = request->channels;
  std::uint8_t* const pixels = allocate_pixels(request, height, width, channels);
  if (!pixels) return false;
  for (std::int64_t y = 0; y < height; y += rows) {
    const std::int64_t count = y + rows < height ? rows : height - y;
    image.row_offset = static_cast<int>(y);
    if (!TIFFRGBAImageGet(&image, some, static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(count)))
      return false;
    unpack(some, count * width, channels, pixels + y * width * channels);
  }
  return true;
}

void read_pixels(TIFF* tiff, PictureRequest* request) {
  std::uint16_t count = 0, *kinds = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &count, &kinds) && count == 1) {
    std::uint16_t kept[1] = {EXTRASAMPLE_ASSOCALPHA};  // else the library multiplies by it
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, kept);
  }
  TIFFRGBAImage image;
  char message[1024];
  if (!TIFFRGBAImageBegin(&image, tiff, 1, message)) {  // 1: stop at errors
    refuse(request, PictureProblem::kUnsupported, "%s", message);
    return;
  }
  const std::int64_t rows = rows_together(tiff, request->height);
  if (rows * request->width > kMostTogether) {
    refuse(request, PictureProblem::kTooLarge, "its strips or tiles hold more than %lld pixels",
           static_cast<long long>(kMostTogether));
    TIFFRGBAImageEnd(&image);
    return;
  }
  image.orientation = image.req_orientation = ORIENTATION_TOPLEFT;  // turned later, like all formats
  auto* const some = static_cast<std::uint32_t*>(std::malloc(static_cast<std::size_t>(4 * rows * request->width)));
  if (!some)
    refuse(request, PictureProblem::kNoMemory, "memory is short");
  else if (!read_rows(image, rows, some, request))
    refuse(request, PictureProblem::kDamaged, "it is damaged or cut off");
  std::free(some);
  TIFFRGBAImageEnd(&image);
}

}  // namespace

void decode_tiff(PictureRequest* request) {
  File file{request, 0};
  TIFF* const tiff = open(file);
  if (!tiff) {
    refuse(request, PictureProblem::kDamaged, "its header is damaged or cut off");
    return;
  }
  if (read_header(tiff, request) && !request->header_only) read_pixels(tiff, request);
  TIFFClose(tiff);
}

}  // namespace mlx::data
