// Reads IDX files, plain or gzip, from the store. Memory grows with the data that is really there, never with a
// header's claims. Images pass by in pieces, so that a file may be larger than memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/readers/byte_stream.h"
#include "store/pack/store.h"

namespace mlx::data {

struct IdxImages {
  std::int64_t count = 0, height = 0, width = 0, channels = 1;
  Bytes pixels;  // [count, height, width, channels]
};
// The next `count` images in order, which are valid during the call; `sizes` has no pixels.
using TakeIdxImages = std::function<void(const IdxImages& sizes, const std::uint8_t* images, std::int64_t count)>;
// u8 of [N,H,W] or [N,H,W,C]; kCorrupt: file, offset, expected and found. Takes one image, then pieces of about a
// megabyte. Returns the sizes. Progress advances by bytes of pixels.
IdxImages scan_idx_images(const store::Store& store, const store::Entry& file, const TakeIdxImages& take,
                          Progress& progress);

// All images of a file elsewhere.
IdxImages read_idx_images(ReadAt read_at, const std::string& file, Progress& progress);

// Only the sizes, without reading the pixels.
IdxImages read_idx_image_sizes(const store::Store& store, const store::Entry& file);

// u8 or s32 of [N]; kCorrupt, also for a negative label.
std::vector<std::int32_t> read_idx_labels(const store::Store& store, const store::Entry& file);

}  // namespace mlx::data
