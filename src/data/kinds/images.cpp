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
  // Integers are exact, so the order of summation cannot matter.
  std::vector<ChannelSums> all(channels);
  for (std::int64_t i = 0; i < of.size(); ++i) {
    if (!images.source) {
      add_sums(images.pixels.data() + static_cast<std::size_t>(of[i]) * pixels * channels, pixels, all);
      continue;
    }
    const std::span<const ChannelSums> one = images.source->sums(of[i]);
    for (std::size_t c = 0; c < channels; ++c) all[c].sum += one[c].sum, all[c].squares += one[c].squares;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(all[c].sum) / static_cast<double>(count) / 255.0;
    const double square = static_cast<double>(all[c].squares) / static_cast<double>(count) / (255.0 * 255.0);
    const double deviation = std::sqrt(std::max(0.0, square - mean * mean));
    out.mean[c] = static_cast<float>(mean);
    out.std[c] = deviation < 1e-6 ? 1.0f : static_cast<float>(deviation);  // a constant channel becomes zeros
  }
  return out;
}

void add_sums(const std::uint8_t* image, std::size_t pixels, std::span<ChannelSums> to) {
  constexpr std::size_t kBlock = 4096;  // pixels whose squares fit into 32 bits
  const std::size_t channels = to.size();
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t begin = 0; begin < pixels; begin += kBlock) {
      const std::size_t end = std::min(pixels, begin + kBlock);
      std::uint32_t sum = 0, squares = 0;
      for (std::size_t i = begin; i < end; ++i) {
        const std::uint32_t v = image[i * channels + c];
        sum += v;
        squares += v * v;
      }
      to[c].sum += sum;
      to[c].squares += squares;
    }
  }
}

}  // namespace mlx::data
