// Reads images and labels from IDX files, and computes their mean and standard deviation. Only images of the split are
// kept.

#include "data/kinds/images.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/division.h"
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

Images assemble(const StoredSplit& split, const IdxImages& sizes, std::vector<std::int32_t> labels) {
  if (sizes.count != static_cast<std::int64_t>(labels.size())) {
    fail(ErrorKind::kCorrupt, "{} has {} images, {} has {} labels: they do not match", images_file(split).path,
         sizes.count, labels_file(split).path, labels.size());
  }
  Images images;
  images.count = sizes.count;
  images.height = sizes.height;
  images.width = sizes.width;
  images.channels = sizes.channels;
  images.labels = std::move(labels);
  name_classes(split.class_names, labels_file(split), images);
  return images;
}

// Spools those of the images that are chosen.
class ImageSpooler {
 public:
  ImageSpooler(const IndexSet& chosen, const MemoryBudget& budget) : chosen_(chosen), budget_(budget) {}

  void take(const IdxImages& sizes, const std::uint8_t* images, std::int64_t count) {
    const std::int64_t image = sizes.height * sizes.width * sizes.channels;
    if (!writer_) writer_.emplace(image, budget_);
    const std::int64_t end = seen_ + count;
    while (next_ < chosen_.size() && chosen_[next_] < end) {  // runs of them
      const std::int64_t first = chosen_[next_];
      std::int64_t run = 1;
      while (next_ + run < chosen_.size() && first + run < end && chosen_[next_ + run] == first + run) ++run;
      writer_->append(images + (first - seen_) * image, run);
      next_ += run;
    }
    seen_ = end;
  }
  SpoolPtr finish() { return writer_->finish(); }

 private:
  const IndexSet& chosen_;
  const MemoryBudget& budget_;
  std::optional<SpoolWriter> writer_;
  std::int64_t seen_ = 0, next_ = 0;
};

void keep_labels(const IndexSet& chosen, Images& images) {
  if (chosen.size() == images.count) return;
  images.count = chosen.size();
  for (std::int64_t i = 0; i < chosen.size(); ++i)
    images.labels[static_cast<std::size_t>(i)] = images.labels[static_cast<std::size_t>(chosen[i])];
  images.labels.resize(static_cast<std::size_t>(chosen.size()));
}

Images load(const StoredSplit& split, bool all, const MemoryBudget& budget, Progress& progress) {
  split.store->want(split.files);
  std::vector<std::int32_t> labels = read_idx_labels(*split.store, labels_file(split));
  const IndexSet chosen =
      all || !split.part ? IndexSet(0, static_cast<std::int64_t>(labels.size())) : images_in(split, labels);
  progress.begin(fmt::format("reading {}", images_file(split).path), 0, "B");
  ImageSpooler spooler(chosen, budget);
  const auto take = [&](const IdxImages& sizes, const std::uint8_t* pixels, std::int64_t count) {
    spooler.take(sizes, pixels, count);
  };
  const IdxImages sizes = scan_idx_images(*split.store, images_file(split), take, progress);
  progress.end();
  Images images = assemble(split, sizes, std::move(labels));
  keep_labels(chosen, images);
  images.pixels = spooler.finish();
  return images;
}

}  // namespace

Images describe_images(const StoredSplit& split) {
  return assemble(split, read_idx_image_sizes(*split.store, images_file(split)),
                  read_idx_labels(*split.store, labels_file(split)));
}

Images load_images(const StoredSplit& split, Progress& progress, const MemoryBudget& budget) {
  return load(split, true, budget, progress);
}

Images load_images_in(const StoredSplit& split, Progress& progress, const MemoryBudget& budget) {
  return load(split, false, budget, progress);
}

IndexSet images_in(const StoredSplit& split, const std::vector<std::int32_t>& labels) {
  return items_of(divide_numbered(labels, split.part->rule), split.part->part);
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
  if (images.pixels) images.pixels->scan(of, [&](const std::uint8_t* image) { add_sums(image, pixels, all); });
  for (std::int64_t i = 0; images.source && i < of.size(); ++i) {
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
