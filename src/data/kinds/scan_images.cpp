// An image is observed as its class, its brightness and its contrast.

#include <algorithm>
#include <cmath>

#include "data/content_hash.h"
#include "data/images/decode.h"
#include "data/kinds/images.h"
#include "data/kinds/photo_files.h"
#include "data/kinds/photos.h"
#include "data/kinds/scans.h"

namespace mlx::data {
namespace {

// Photos differ in size: they are compared as 64x64 pixels. Those that cannot be read are left out, and said.
Images scanned_images(const StoredSplit& split, Progress& progress) {
  if (!holds_photos(split)) return load_images(split, progress);
  Reading reading;
  reading.photos.height = reading.photos.width = 64;
  reading.photos.skip_share = 1;
  reading.photos.whole_sounds = true;
  return load_photos(split, reading, progress);
}

// A message about a photo begins with its path; both lists have the same order.
void leave_out_unread(const std::vector<std::string>& skipped, ScanFacts& facts) {
  auto next = skipped.begin();
  std::erase_if(facts.files, [&](const std::string& file) {
    const bool unread = next != skipped.end() && next->starts_with(file + ":");
    if (unread) ++next;
    return unread;
  });
  facts.unread = skipped, facts.unread_count = skipped.size();
  if (!skipped.empty() && has_sound_name(skipped[0].substr(0, skipped[0].find(": ")))) facts.unread_word = "sound";
}

void scan_images(const StoredSplit& split, const Observe& observe, ScanFacts& facts, Progress& progress) {
  if (holds_photos(split))
    add_files(list_photos(split, {}).files, facts);
  else
    add_files(split.files, facts);
  progress.begin("reading " + facts.files.at(0), 0, "B");
  const Images images = scanned_images(split, progress);
  leave_out_unread(images.photos.skipped, facts);
  facts.columns = {"class", "brightness", "contrast"};
  const bool divided = split.part && !holds_photos(split);  // photos are chosen when they are listed
  InPart in_part = divided ? InPart(divide_numbered(images.labels, split.part->rule), split.part->part) : InPart();
  facts.height = images.height, facts.width = images.width, facts.channels = images.channels;
  const auto size = static_cast<std::size_t>(images.height * images.width * images.channels);
  const auto channels = static_cast<std::size_t>(images.channels);
  facts.pixel_values.resize(channels);
  std::vector<ObservedField> fields;
  Bytes scratch;
  for (std::int64_t i = 0; i < images.count; ++i) {
    if (!in_part.next()) continue;
    ++facts.items;
    const std::uint8_t* pixels = images.at(i, scratch);
    double sum = 0, squares = 0;
    for (std::size_t at = 0; at < size; ++at) {
      const double value = pixels[at] / 255.0;
      sum += value, squares += value * value;
      ++facts.pixel_values[at % channels][pixels[at]];
    }
    const double count = std::max<double>(1, static_cast<double>(size)), mean = sum / count;
    const double contrast = std::sqrt(std::max(0.0, squares / count - mean * mean));
    const auto label = static_cast<std::size_t>(images.labels[static_cast<std::size_t>(i)]);
    fields = {{0, ValueType::kText, 0, images.class_names.at(label)},
              {1, ValueType::kFloat, mean, {}},
              {2, ValueType::kFloat, contrast, {}}};
    const Look look = look_of(pixels, images.height, images.width, images.channels);
    const std::uint64_t hash = hash_of({reinterpret_cast<const char*>(pixels), size}) | 1;
    observe({static_cast<std::uint64_t>(i), &fields, &facts.columns, hash, {}, &look});
    if (i % 1024 == 0) progress.check_interrupted();
  }
}

}  // namespace

const ItemScan images_scan = {.unit = "images", .place_word = "image", .source_word = "photo", .run = scan_images};

}  // namespace mlx::data
