// Reads images and labels from IDX files, and computes their mean and standard deviation.

#include "data/kinds/images.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/kinds/images_dataset.h"
#include "data/readers/idx_reader.h"

namespace mlx::data {
namespace {

constexpr std::int32_t kMostClasses = 1 << 20;

// Classes and their names: as in dataset.toml, else one for each number up to the highest label.
void name_classes(const std::vector<std::string>& names, const store::Entry& file, Images& images) {
  const auto highest = std::ranges::max_element(images.labels);
  images.class_names = names;
  if (!names.empty()) {
    if (*highest >= static_cast<std::int64_t>(names.size())) {
      fail(ErrorKind::kCorrupt, "{}: label {} of example {} is outside of the {} classes that dataset.toml names",
           file.path, *highest, highest - images.labels.begin(), names.size());
    }
  } else {
    if (*highest >= kMostClasses) {
      fail(ErrorKind::kCorrupt, "{}: label {} of example {} is larger than {}", file.path, *highest,
           highest - images.labels.begin(), kMostClasses - 1);
    }
    for (std::int32_t i = 0; i <= *highest; ++i) images.class_names.push_back(std::to_string(i));
  }
  images.classes = static_cast<int>(images.class_names.size());
}

// In the order in which images_dataset.cpp finds them.
const store::Entry& images_file(const StoredSplit& split) {
  return split.files.at(0);
}
const store::Entry& labels_file(const StoredSplit& split) {
  return split.files.at(1);
}

Images assemble(const StoredSplit& split, IdxImages pixels, std::vector<std::int32_t> labels) {
  if (pixels.count != static_cast<std::int64_t>(labels.size())) {
    fail(ErrorKind::kCorrupt, "{} has {} images, {} has {} labels: they do not match", images_file(split).path,
         pixels.count, labels_file(split).path, labels.size());
  }
  Images images;
  images.count = pixels.count;
  images.height = pixels.height;
  images.width = pixels.width;
  images.channels = pixels.channels;
  images.labels = std::move(labels);
  name_classes(split.class_names, labels_file(split), images);
  images.pixels = std::move(pixels.pixels);
  return images;
}

}  // namespace

Images describe_images(const StoredSplit& split) {
  return assemble(split, read_idx_image_sizes(*split.store, images_file(split)),
                  read_idx_labels(*split.store, labels_file(split)));
}

Images load_images(const StoredSplit& split, Progress& progress) {
  split.store->want(split.files);
  std::vector<std::int32_t> labels = read_idx_labels(*split.store, labels_file(split));
  progress.begin(fmt::format("reading {}", images_file(split).path), 0, "B");
  IdxImages pixels = read_idx_images(*split.store, images_file(split), progress);
  progress.end();
  return assemble(split, std::move(pixels), std::move(labels));
}

Images load_images(const store::Store& store, const Digest& manifest, const std::string& split, Progress& progress) {
  return load_images(stored_split(store, manifest, split, images_kind), progress);
}

Normalization measure(const Images& images, const IndexSet& of) {
  const auto channels = static_cast<std::size_t>(images.channels);
  const auto pixels = static_cast<std::size_t>(images.height * images.width);
  const auto count = static_cast<std::uint64_t>(of.size()) * pixels;
  Normalization out{std::vector<float>(channels, 0.0f), std::vector<float>(channels, 1.0f)};
  if (count == 0) return out;
  // Integers are exact, so the order of summation cannot matter. A block's squares fit into 32 bits.
  constexpr std::size_t kBlock = 4096;
  for (std::size_t c = 0; c < channels; ++c) {
    std::uint64_t sum = 0, squares = 0;
    for (std::int64_t image = 0; image < of.size(); ++image) {
      const std::uint8_t* const from = images.pixels.data() + static_cast<std::size_t>(of[image]) * pixels * channels;
      for (std::size_t begin = 0; begin < pixels; begin += kBlock) {
        const std::size_t end = std::min(pixels, begin + kBlock);
        std::uint32_t block_sum = 0, block_squares = 0;
        for (std::size_t i = begin; i < end; ++i) {
          const std::uint32_t v = from[i * channels + c];
          block_sum += v;
          block_squares += v * v;
        }
        sum += block_sum;
        squares += block_squares;
      }
    }
    const double mean = static_cast<double>(sum) / static_cast<double>(count) / 255.0;
    const double square = static_cast<double>(squares) / static_cast<double>(count) / (255.0 * 255.0);
    const double deviation = std::sqrt(std::max(0.0, square - mean * mean));
    out.mean[c] = static_cast<float>(mean);
    out.std[c] = deviation < 1e-6 ? 1.0f : static_cast<float>(deviation);  // a constant channel becomes zeros
  }
  return out;
}

}  // namespace mlx::data
