// Labelled images read straight out of the store's packs, as IDX files. Rows are rows.h's, text is text.h's; split.h
// reads whichever a split holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "store/pack/store.h"

namespace mlx::data {

// What a split holds: images as bytes, row-major NHWC, and one label each.
struct Examples {
  std::int64_t count = 0;
  std::int64_t height = 0, width = 0, channels = 0;
  int classes = 0;  // highest label + 1, or what dataset.toml names
  Bytes pixels;     // count * height * width * channels
  std::vector<std::int32_t> labels;
  std::vector<std::string> class_names;  // "0", "1", … unless dataset.toml names them
};

// The splits of a version ("test", "train"), by its files' names or its dataset.toml.
std::vector<std::string> splits(const store::Store& store, const Digest& manifest);
// Throws kNotFound where there is no such split (naming those there are), kCorrupt for bad files: file, offset, what
// was expected and found (magic, truncated, labels that do not match images).
Examples load_split(const store::Store& store, const Digest& manifest, const std::string& split, Progress& progress);

// The same without its pixels, from the images' header and the labels alone: cheap enough to ask before every run.
Examples describe_split(const store::Store& store, const Digest& manifest, const std::string& split);

struct Normalization {
  std::vector<float> mean, std;  // per channel, of pixels scaled to [0, 1]
};
Normalization measure(const Examples& examples);

}  // namespace mlx::data
