// Decodes at no more than the needed size, then scales.

#include "data/images/photo.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/images/resize.h"
#include "data/sounds/spectrogram.h"
#include "formats/wav.h"

namespace mlx::data {
namespace {

// The largest rectangle in the middle of a picture that has the proportions of `form`.
Box middle_of(const Picture& picture, const PhotoForm& form) {
  const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
  const auto to_height = static_cast<double>(form.height), to_width = static_cast<double>(form.width);
  const double scale = std::max(to_height / height, to_width / width);
  const double box_height = std::min(height, to_height / scale), box_width = std::min(width, to_width / scale);
  const double top = (height - box_height) / 2, left = (width - box_width) / 2;
  return {left, top, std::min(width, left + box_width), std::min(height, top + box_height)};
}

// The whole pixels that a box touches.
Region pixels_under(const Box& box, const Picture& picture) {
  const auto top = static_cast<std::int64_t>(std::floor(box.top)),
             left = static_cast<std::int64_t>(std::floor(box.left));
  const std::int64_t bottom = std::min(static_cast<std::int64_t>(std::ceil(box.bottom)), picture.height),
                     right = std::min(static_cast<std::int64_t>(std::ceil(box.right)), picture.width);
  return {top, left, bottom - top, right - left};
}

}  // namespace

const char* name_of(Fit fit) {
  if (fit == Fit::kSpectrogram) return "spectrogram";
  return fit == Fit::kCrop ? "crop" : "squeeze";
}

std::optional<Fit> fit_named(std::string_view name) {
  for (const Fit fit : {Fit::kSqueeze, Fit::kCrop, Fit::kSpectrogram})
    if (name == name_of(fit)) return fit;
  return std::nullopt;
}

void prepare_photo(ByteView file, const std::string& name, const PhotoForm& form, std::uint8_t* to) {
  if (form.fit == Fit::kSpectrogram)
    return write_spectrogram(formats::parse_wav(file, name), name, form.height, form.width, to);
  DecodeOptions options;
  options.channels = form.channels;
  options.enough_height = form.height;
  options.enough_width = form.width;
  const Picture picture = decode_picture(file, name, options);
  if (picture.height == form.height && picture.width == form.width) {
    std::ranges::copy(picture.pixels, to);
    return;
  }
  const Box box = form.fit == Fit::kCrop ? middle_of(picture, form) : whole_box(picture.height, picture.width);
  resize(view_of(picture), box, form.height, form.width, to);
}

// Pixels beside the part do not count, as if it had been cut out first.
void prepare_crop(ByteView file, const std::string& name, const PhotoForm& form, const RandomCrop& crop,
                  std::uint8_t* to) {
  const PictureHeader header = read_picture_header(file, name);
  DecodeOptions options;
  options.channels = form.channels;
  options.enough_height = form.height;
  options.enough_width = form.width;
  const PicturePart part = decode_part(file, name, draw_crop(crop, header.height, header.width), options);
  const Region cut = pixels_under(part.box, part.around);
  const auto top = static_cast<double>(cut.top), left = static_cast<double>(cut.left);
  const Box box{part.box.left - left, part.box.top - top,
                std::min(part.box.right - left, static_cast<double>(cut.width)),
                std::min(part.box.bottom - top, static_cast<double>(cut.height))};
  resize(part_of(view_of(part.around), cut), box, form.height, form.width, to);
}

}  // namespace mlx::data
