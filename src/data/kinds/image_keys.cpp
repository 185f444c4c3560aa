// Reads the keys of images, and writes what differs from the default into a run's key.

#include "data/kinds/image_keys.h"

#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace mlx::data {
namespace {

constexpr std::int64_t kMostSide = 1 << 14;
constexpr std::int64_t kMostSkipped = std::int64_t{1} << 40;

// "1%" or "0.5 %" as a part of 1.
std::optional<double> skipped_share(const std::string& text) {
  double percent = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (error != std::errc() || unit != "%" || !(percent > 0 && percent < 100)) return {};
  return percent / 100;
}

// A count of photos, or a share such as "1%" or "0.5 %".
void read_skip_bad(TomlReader& data, PhotoOptions& photos) {
  constexpr const char* kKey = "skip_bad";
  if (!data.is_text(kKey)) {
    photos.skip_count = data.integer(kKey, 0, kMostSkipped, 0);
    return;
  }
  const std::optional<double> share = skipped_share(data.string(kKey));
  if (!share) data.fail_at(kKey, "expected a count, or a share such as \"1%\", below 100");
  photos.skip_share = *share;
}

void read_photo_keys(TomlReader& data, PhotoOptions& photos) {
  if (data.is_array("size")) {
    const std::vector<std::int64_t> size = data.integers("size", 1, kMostSide);
    if (size.size() != 2) data.fail_at("size", "expected [height, width], or one number for both");
    photos.height = size[0], photos.width = size[1];
  } else {
    photos.height = photos.width = data.integer("size", 0, kMostSide, 0);
    if (data.has("size") && photos.height == 0)
      data.fail_at("size", "expected [height, width], or one number for both");
  }
  photos.fit = *fit_named(data.one_of("resize", {"squeeze", "crop"}, "squeeze"));
  photos.grey = data.one_of("colour", {"rgb", "grey"}, "rgb") == "grey";
  read_skip_bad(data, photos);
}

void write_photo_keys(const PhotoOptions& photos, Json& data) {
  if (photos.height > 0) data["size"] = {photos.height, photos.width};
  if (photos.fit != Fit::kSqueeze) data["resize"] = name_of(photos.fit);
  if (photos.grey) data["colour"] = "grey";
  if (Json skip = skip_bad_json(photos); !skip.is_null()) data["skip_bad"] = std::move(skip);
  if (!photos.libraries.empty()) data["libraries"] = photos.libraries;
}

// The changes that are one number, 0 for none.
struct ChangeKey {
  const char* name;
  double Augment::*value;
  double most;
};
constexpr ChangeKey kChangeKeys[] = {
    {"crop", &Augment::crop, 1},          {"brightness", &Augment::brightness, 10},
    {"contrast", &Augment::contrast, 10}, {"saturation", &Augment::saturation, 10},
    {"hue", &Augment::hue, 0.5},          {"rotate", &Augment::rotate, 180},
};

void read_pixel_changes(TomlReader& table, Augment& augment) {
  for (const ChangeKey& key : kChangeKeys) augment.*key.value = table.number(key.name, 0, key.most, 0);
  const std::vector<std::int64_t> both = table.integers("randaugment", 0, 30, std::vector<std::int64_t>{});
  if (both.empty() && !table.has("randaugment")) return;
  if (both.size() != 2 || both[0] < 1) table.fail_at("randaugment", "expected [operations, magnitude], such as [2, 9]");
  augment.rand_operations = static_cast<int>(both[0]);
  augment.rand_magnitude = static_cast<int>(both[1]);
}

void write_pixel_changes(const Augment& augment, Json& table) {
  for (const ChangeKey& key : kChangeKeys)
    if (augment.*key.value > 0) table[key.name] = augment.*key.value;
  if (augment.rand_operations > 0) table["randaugment"] = {augment.rand_operations, augment.rand_magnitude};
}

}  // namespace

Json skip_bad_json(const PhotoOptions& photos) {
  if (photos.skip_share > 0) return fmt::format("{}%", photos.skip_share * 100);
  return photos.skip_count > 0 ? Json(photos.skip_count) : Json();
}

void read_skip_bad(const Json& json, const std::string& what, PhotoOptions& photos) {
  constexpr const char* kKey = "skip_bad";
  if (!json.contains(kKey)) return;
  if (!json[kKey].is_string()) {
    photos.skip_count = json_int(json, kKey, what);
    if (photos.skip_count < 0) fail(ErrorKind::kCorrupt, "{}: '{}': expected a count", what, kKey);
    return;
  }
  const std::optional<double> share = skipped_share(json_string(json, kKey, what));
  if (!share) fail(ErrorKind::kCorrupt, "{}: '{}': expected a share of photos", what, kKey);
  photos.skip_share = *share;
}

void read_image_keys(TomlReader& data, Reading& reading) {
  TomlReader table = data.table("augment");
  Augment& augment = reading.augment;
  augment.shift = static_cast<int>(table.integer("shift", 0, 64, 0));
  augment.flip = table.boolean("flip", false);
  augment.erase = static_cast<int>(table.integer("erase", 0, 1024, 0));
  read_pixel_changes(table, augment);
  augment.mixup = table.number("mixup", 0, 4, 0);
  if (augment.mixup > 0 && augment.mixup < 0.05) table.fail_at("mixup", "expected 0, or a number from 0.05 to 4");
  table.finish();
  read_photo_keys(data, reading.photos);
}

void write_image_keys(const Reading& reading, Json& data) {
  const Augment& augment = reading.augment;
  data["augment"] = {{"erase", augment.erase}, {"flip", augment.flip}, {"shift", augment.shift}};
  if (augment.mixup > 0) data["augment"]["mixup"] = augment.mixup;
  write_pixel_changes(augment, data["augment"]);
  write_photo_keys(reading.photos, data);
}

const char* image_key_set(const Reading& reading) {
  if (!(reading.augment == Augment{})) return "augment";
  const PhotoOptions& photos = reading.photos;
  if (photos.height > 0) return "size";
  if (photos.fit != Fit::kSqueeze) return "resize";
  if (photos.grey) return "colour";
  return photos.skip_share > 0 || photos.skip_count > 0 ? "skip_bad" : nullptr;
}

}  // namespace mlx::data
