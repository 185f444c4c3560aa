// Chooses images and scales them down.

#include "data/quality/pictures.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "data/division.h"
#include "data/images/photo.h"
#include "data/images/write_png.h"
#include "data/kinds/images.h"
#include "data/kinds/photo_files.h"

namespace mlx::data {
namespace {

constexpr std::size_t kSamples = 40, kPairs = 8;
constexpr std::int64_t kPictureSide = 96;  // of photos; IDX images keep their size

// A split's images by number.
struct Gallery {
  std::vector<std::uint64_t> numbers;  // of those in the split
  std::vector<std::int32_t> labels;    // by number
  std::vector<std::string> classes;
  std::function<Bytes(std::uint64_t)> png;
};

// The statistics' numbers are those of the photos that can be read.
void leave_out_unread(const std::vector<std::string>& read, PhotoList& list) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < list.files.size(); ++i) {
    if (kept == read.size() || list.files[i].path != read[kept]) continue;
    list.files[kept] = list.files[i], list.labels[kept] = list.labels[i];
    ++kept;
  }
  list.files.resize(kept), list.labels.resize(kept);
}

Gallery gallery_of_photos(const StoredSplit& split, const SplitStatistics& statistics) {
  PhotoList list = list_photos(split, {});
  leave_out_unread(statistics.files, list);
  Gallery out;
  for (std::size_t i = 0; i < list.files.size(); ++i) out.numbers.push_back(i);
  out.labels = std::move(list.labels), out.classes = std::move(list.classes);
  const auto reader = std::make_shared<PhotoReader>(*split.store);
  out.png = [reader, files = std::move(list.files)](std::uint64_t number) -> Bytes {
    const PhotoFile& file = files.at(static_cast<std::size_t>(number));
    const PhotoForm form{kPictureSide, kPictureSide, 3, Fit::kCrop};
    Bytes pixels(static_cast<std::size_t>(form.bytes()));
    prepare_photo(reader->read(file), file.path, form, pixels.data());
    return write_png(pixels.data(), form.height, form.width, form.channels);
  };
  return out;
}

Gallery gallery_of_idx(const StoredSplit& split, Progress& progress) {
  const auto images = std::make_shared<const Images>(load_images(split, progress));
  Gallery out;
  const IndexSet items = split.part ? items_of(divide_numbered(images->labels, split.part->rule), split.part->part)
                                    : IndexSet(0, images->count);
  for (std::int64_t i = 0; i < items.size(); ++i) out.numbers.push_back(static_cast<std::uint64_t>(items[i]));
  out.labels = images->labels, out.classes = images->class_names;
  out.png = [images](std::uint64_t number) {
    Bytes scratch;
    const std::uint8_t* const pixels = images->at(static_cast<std::int64_t>(number), scratch);
    return write_png(pixels, images->height, images->width, images->channels);
  };
  return out;
}

// As many of each class, spread evenly.
std::vector<std::uint64_t> sampled(const Gallery& gallery) {
  std::map<std::int32_t, std::vector<std::uint64_t>> by_class;
  for (const std::uint64_t number : gallery.numbers)
    by_class[gallery.labels[static_cast<std::size_t>(number)]].push_back(number);
  const std::size_t each = std::max<std::size_t>(1, kSamples / std::max<std::size_t>(1, by_class.size()));
  std::vector<std::uint64_t> out;
  for (const auto& [label, numbers] : by_class) {
    const std::size_t count = std::min(each, numbers.size());
    for (std::size_t i = 0; i < count && out.size() < kSamples; ++i) out.push_back(numbers[i * numbers.size() / count]);
  }
  return out;
}

}  // namespace

Pictures pictures_of(const StoredSplit& split, const SplitStatistics& statistics, Progress& progress) {
  Pictures out;
  if (statistics.channels == 0 || statistics.items == 0) return out;
  const Gallery gallery = holds_photos(split) ? gallery_of_photos(split, statistics) : gallery_of_idx(split, progress);
  const auto picture = [&](std::uint64_t number) -> Thumbnail {
    const auto label = static_cast<std::size_t>(gallery.labels.at(static_cast<std::size_t>(number)));
    return {number, gallery.classes.at(label), gallery.png(number)};
  };
  // A bad photo is what `mlx check` tells; the page does without it.
  const auto unless_bad = [](const auto& add) {
    try {
      add();
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kUsage) throw;
    }
  };
  for (const std::uint64_t number : sampled(gallery)) unless_bad([&] { out.samples.push_back(picture(number)); });
  const auto& pairs = statistics.alike.examples;
  for (std::size_t i = 0; i < std::min(kPairs, pairs.size()); ++i)
    unless_bad([&] { out.alike.emplace_back(picture(pairs[i].first), picture(pairs[i].second)); });
  return out;
}

}  // namespace mlx::data
