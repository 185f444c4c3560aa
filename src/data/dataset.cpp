// Splits of a version as examples in memory.

#include "data/dataset.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/idx_reader.h"
#include "data/splits.h"

namespace mlx::data {
namespace {

constexpr std::int32_t kMostClasses = 1 << 20;

const SplitFiles& images_of(const Layout& layout, const Digest& manifest, const std::string& split) {
  const SplitFiles& files = files_of(layout, manifest, split);
  if (files.kind != Kind::kImages)
    fail(ErrorKind::kUsage, "split '{}' of dataset {} holds {}, expected images", split, manifest.brief(),
         unit_name(files.kind));
  return files;
}

// Classes and their names: what dataset.toml says, else one for each number up to the highest label.
void name_classes(const Layout& layout, const store::Entry& file, Examples& examples) {
  const auto highest = std::ranges::max_element(examples.labels);
  examples.class_names = layout.class_names;
  if (!layout.class_names.empty()) {
    if (*highest >= static_cast<std::int64_t>(layout.class_names.size())) {
      fail(ErrorKind::kCorrupt, "{}: label {} of example {} is outside of the {} classes that dataset.toml names",
           file.path, *highest, highest - examples.labels.begin(), layout.class_names.size());
    }
  } else {
    if (*highest >= kMostClasses) {
      fail(ErrorKind::kCorrupt, "{}: label {} of example {} is larger than {}", file.path, *highest,
           highest - examples.labels.begin(), kMostClasses - 1);
    }
    for (std::int32_t i = 0; i <= *highest; ++i) examples.class_names.push_back(std::to_string(i));
  }
  examples.classes = static_cast<int>(examples.class_names.size());
}

Examples assemble(const Layout& layout, const SplitFiles& files, const IdxImages& images,
                  std::vector<std::int32_t> labels) {
  if (images.count != static_cast<std::int64_t>(labels.size())) {
    fail(ErrorKind::kCorrupt, "{} has {} images, {} has {} labels: they do not match", files.images.path, images.count,
         files.labels.path, labels.size());
  }
  Examples examples;
  examples.count = images.count;
  examples.height = images.height;
  examples.width = images.width;
  examples.channels = images.channels;
  examples.labels = std::move(labels);
  name_classes(layout, files.labels, examples);
  return examples;
}

}  // namespace

std::vector<std::string> splits(const store::Store& store, const Digest& manifest) {
  return names_of(find_layout(store, manifest));
}

Examples describe_split(const store::Store& store, const Digest& manifest, const std::string& split) {
  const Layout layout = find_layout(store, manifest);
  const SplitFiles& files = images_of(layout, manifest, split);
  const IdxImages sizes = read_idx_image_sizes(store, files.images);
  return assemble(layout, files, sizes, read_idx_labels(store, files.labels));
}

Examples load_split(const store::Store& store, const Digest& manifest, const std::string& split, Progress& progress) {
  const Layout layout = find_layout(store, manifest);
  const SplitFiles& files = images_of(layout, manifest, split);
  store.want({files.images, files.labels});
  std::vector<std::int32_t> labels = read_idx_labels(store, files.labels);
  progress.begin(fmt::format("reading {}", files.images.path), 0, "B");
  IdxImages images = read_idx_images(store, files.images, progress);
  progress.end();
  Examples examples = assemble(layout, files, images, std::move(labels));
  examples.pixels = std::move(images.pixels);
  return examples;
}

Normalization measure(const Examples& examples) {
  const auto channels = static_cast<std::size_t>(examples.channels);
  const std::size_t pixels = channels == 0 ? 0 : examples.pixels.size() / channels;
  Normalization out{std::vector<float>(channels, 0.0f), std::vector<float>(channels, 1.0f)};
  if (pixels == 0) return out;
  // Integers are exact, so the order of summation cannot matter. A block's squares fit into 32 bits.
  constexpr std::size_t kBlock = 4096;
  for (std::size_t c = 0; c < channels; ++c) {
    std::uint64_t sum = 0, squares = 0;
    for (std::size_t begin = 0; begin < pixels; begin += kBlock) {
      const std::size_t end = std::min(pixels, begin + kBlock);
      std::uint32_t block_sum = 0, block_squares = 0;
      for (std::size_t i = begin; i < end; ++i) {
        const std::uint32_t v = examples.pixels[i * channels + c];
        block_sum += v;
        block_squares += v * v;
      }
      sum += block_sum;
      squares += block_squares;
    }
    const double mean = static_cast<double>(sum) / static_cast<double>(pixels) / 255.0;
    const double square = static_cast<double>(squares) / static_cast<double>(pixels) / (255.0 * 255.0);
    const double deviation = std::sqrt(std::max(0.0, square - mean * mean));
    out.mean[c] = static_cast<float>(mean);
    out.std[c] = deviation < 1e-6 ? 1.0f : static_cast<float>(deviation);  // a constant channel becomes zeros
  }
  return out;
}

}  // namespace mlx::data
