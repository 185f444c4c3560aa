// The interface between mlx and the module with the libraries for pictures (lib/mlx/mlx_images.so): plain C structures,
// so that neither needs a symbol of the other. No exception crosses it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlx::data {

inline constexpr int kImagesModuleVersion = 2;

enum class PictureProblem : int { kNone, kDamaged, kUnsupported, kTooLarge, kNoMemory };

// One file to be decoded, or its header to be read.
struct PictureRequest {
  // In; all owned by the caller.
  const std::uint8_t* file;
  std::size_t size;
  bool header_only;
  std::int64_t wanted_channels;              // a hint: the pixels have 1 or 3 channels as suits the decoder
  std::int64_t enough_height, enough_width;  // upright; 0: full size
  // The part that the caller wants, upright; no height: the whole. Decoders may decode more.
  std::int64_t part_top, part_left, part_height, part_width;
  std::int64_t max_pixels;
  // Gives room for height * width * channels bytes; nullptr if memory is short. Called at most once.
  std::uint8_t* (*allocate)(void* user, std::int64_t height, std::int64_t width, std::int64_t channels);
  void* user;
  // Out.
  std::int64_t height, width, channels;  // of the file, before orientation
  int orientation;                       // EXIF's, 1 to 8
  bool icc;
  std::int64_t eighths;                  // the scale of the pixels, where a decoder changed it; else 0
  std::int64_t first_row, first_column;  // of what was decoded, at that scale
  PictureProblem problem;
  char message[256];  // about the problem
};

using PictureDecoder = void (*)(PictureRequest* request);

struct ImagesModule {
  int version;
  PictureDecoder jpeg, png, webp, tiff;
  const char* libraries;  // names and versions
};

}  // namespace mlx::data
