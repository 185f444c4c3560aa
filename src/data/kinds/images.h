// Labelled images in memory, read from the store's packs as IDX files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/order.h"
#include "data/preprocessing.h"
#include "data/splits.h"
#include "store/pack/store.h"

namespace mlx::data {

// Pixels as bytes, row-major NHWC, and one label for each image.
struct Images {
  std::int64_t count = 0;
  std::int64_t height = 0, width = 0, channels = 0;
  int classes = 0;  // highest label + 1, or as in dataset.toml
  Bytes pixels;     // count * height * width * channels
  std::vector<std::int32_t> labels;
  std::vector<std::string> class_names;  // "0", "1", … unless dataset.toml names them
};

// Throws kCorrupt for bad files: file, offset, what was expected and found (magic, truncated, labels that do not match
// images).
Images load_images(const StoredSplit& split, Progress& progress);
// The same for the named split of a version. Throws kNotFound if there is none, kUsage if it holds something else.
Images load_images(const store::Store& store, const Digest& manifest, const std::string& split, Progress& progress);
// Without the pixels, from the header and the labels alone: cheap enough to call before every run.
Images describe_images(const StoredSplit& split);

// Mean and standard deviation of each channel over `of` the images.
Normalization measure(const Images& images, const IndexSet& of);

}  // namespace mlx::data
