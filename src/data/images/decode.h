// Decodes photos: JPEG, PNG, WebP, TIFF, BMP, PGM and PPM, recognised by their content and never by their name. Every
// reader of pictures (training, evaluation, predict, serving) gets its pixels here, so that all see the same bytes. The
// picture of a sound (WAV) is its spectrogram (data/sounds/spectrogram.h).
//
// The libraries for the first four stand in the module lib/mlx/mlx_images.so, which is opened with the first such file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace mlx::data {

// Upright: the orientation that EXIF tells has been applied. ICC profiles are ignored, transparency is dropped (what
// Pillow's convert("RGB") does), and of 16 bits the upper eight are kept.
struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;  // 1 or 3 channels
  Bytes pixels;                                      // row by row, channels last
};

// A rectangle of pixels, inside of a picture and not empty.
struct Region {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Region&) const = default;
};

// The same with fractions of pixels.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool operator==(const Box&) const = default;
};

struct PictureHeader {
  const char* format = "";             // as in picture_formats()
  std::int64_t height = 0, width = 0;  // upright
  std::int64_t channels = 0;           // 1 if the file has no colour, else 3
  bool icc = false;                    // it has a colour profile, which is ignored
};

struct DecodeOptions {
  std::int64_t channels = 3;  // of the result: colour becomes grey by ITU-R BT.601 and grey three equal channels
  // The size that the caller scales the picture down to. A JPEG may then be decoded at a half, a quarter or an eighth
  // of its size, but not smaller than this. 0: decoded at full size.
  std::int64_t enough_height = 0, enough_width = 0;
  std::int64_t max_pixels = std::int64_t{1} << 28;  // of the file; larger pictures are refused before any allocation
};

// `name` begins the message of each error: kCorrupt if the file is damaged, cut off or of no known format, kUsage if it
// has more pixels than allowed or a variant that is not read, kMissing if the module cannot be opened.
PictureHeader read_picture_header(ByteView file, const std::string& name);
Picture decode_picture(ByteView file, const std::string& name, const DecodeOptions& options = {});

// A part of a picture, for which "enough" is the size that the part is scaled to. What else was decoded lies around it;
// a JPEG is decoded only as far as the part needs, which saves time and changes no pixel of it.
struct PicturePart {
  Picture around;
  Box box;  // where the part lies; with fractions if a JPEG was decoded at a smaller scale
};
PicturePart decode_part(ByteView file, const std::string& name, const Region& part, const DecodeOptions& options);

bool is_picture(ByteView begin);  // of the first 12 bytes of a file, or more
// True for names of pictures, whether or not their format is read: a .gif in a class folder is an error, not left out.
bool has_picture_name(std::string_view path);
bool has_sound_name(std::string_view path);  // those of sounds are names of pictures, too
std::string picture_formats();               // "JPEG, PNG, WebP, TIFF, BMP, PGM and PPM, WAV"
std::string picture_libraries();  // names and versions of the libraries, which decide the pixels; opens the module

}  // namespace mlx::data
