// Labelled images, read from the store's packs: IDX files into a spool, photos (photos.h) as they are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/dataset.h"
#include "data/images/crop.h"
#include "data/order.h"
#include "data/preprocessing.h"
#include "data/splits.h"
#include "data/spool.h"
#include "store/pack/store.h"

namespace mlx::data {

// Of one channel of an image: what mean and standard deviation are computed from, exactly.
struct ChannelSums {
  std::uint64_t sum = 0, squares = 0;
};

// Images that are made when they are asked for. Any number of threads may ask for them.
class PixelSource {
 public:
  virtual ~PixelSource() = default;
  // The bytes of image `index`, row-major HWC: valid as long as the source and until `scratch` changes.
  virtual const std::uint8_t* pixels(std::int64_t index, Bytes& scratch) const = 0;
  // Cuts the crop from the picture itself, at its own resolution, scaled to `to`.
  virtual void crop(std::int64_t index, const RandomCrop& crop, Bytes& to) const = 0;
  // One for each channel, known without the pixels.
  virtual std::span<const ChannelSums> sums(std::int64_t index) const = 0;
  virtual bool in_memory(std::int64_t index) const = 0;
  virtual const std::string& name(std::int64_t index) const = 0;  // for messages
  virtual std::uint64_t content(std::int64_t index) const = 0;    // a hash, the same for equal files
  // How it looks; null if that was not asked for.
  virtual const Look* look(std::int64_t index) const = 0;
};

// Pixels as bytes, row-major HWC, and one label for each image.
struct Images {
  std::int64_t count = 0;
  std::int64_t height = 0, width = 0, channels = 0;
  int classes = 0;  // highest label + 1, or as in dataset.toml
  SpoolPtr pixels;  // a record an image; null of photos, and while nothing but sizes is known
  std::vector<std::int32_t> labels;
  std::vector<std::string> class_names;         // "0", "1", … unless dataset.toml names them; of photos their labels
  std::shared_ptr<const PixelSource> source{};  // of photos
  std::optional<Fit> fit{};                     // how photos got the size
  PhotoFacts photos{};

  std::int64_t image_bytes() const { return height * width * channels; }
  // Image `index`: as PixelSource::pixels().
  const std::uint8_t* at(std::int64_t index, Bytes& scratch) const {
    return source ? source->pixels(index, scratch) : pixels->find(index, scratch);
  }
};

// All images of the split's files, also if the split is a part of them. Throws kCorrupt for bad files: file, offset,
// what was expected and found (magic, truncated, labels that do not match images).
Images load_images(const StoredSplit& split, Progress& progress, const MemoryBudget& budget = {});
// The same for the named split of a version. Throws kNotFound if there is none, kUsage if it holds something else.
Images load_images(const store::Store& store, const Digest& manifest, const std::string& split, Progress& progress);
// Only those that are in the split.
Images load_images_in(const StoredSplit& split, Progress& progress, const MemoryBudget& budget);
// The numbers of the images of a pair of IDX files that are in the split.
IndexSet images_in(const StoredSplit& split, const std::vector<std::int32_t>& labels);
// Without the pixels, from the header and the labels alone: cheap enough to call before every run.
Images describe_images(const StoredSplit& split);

// Mean and standard deviation of each channel over `of` the images.
Normalization measure(const Images& images, const IndexSet& of);
// Adds the sums of an image of `pixels` pixels with to.size() channels.
void add_sums(const std::uint8_t* image, std::size_t pixels, std::span<ChannelSums> to);

}  // namespace mlx::data
