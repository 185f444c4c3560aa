// Makes the image of a network from a photo. Training, evaluation, predict and serving all call prepare_photo(), so
// that a photo has the same bytes everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/images/crop.h"
#include "data/images/decode.h"

namespace mlx::data {

// How a photo gets the shape that is wanted: kSqueeze scales each side by itself. kCrop scales both alike, so that the
// photo covers the shape, and takes the middle. kSpectrogram is for sounds and only for them: the height is the number
// of mel bands and the width that of frames, of which a sound has more or fewer (data/sounds/spectrogram.h).
enum class Fit : std::uint8_t { kSqueeze, kCrop, kSpectrogram };
const char* name_of(Fit fit);  // "squeeze", "crop", "spectrogram"
std::optional<Fit> fit_named(std::string_view name);

// The shape of the image, [height, width, channels] with 1 or 3 channels, of a spectrogram 1, and the way to it.
struct PhotoForm {
  std::int64_t height = 0, width = 0, channels = 3;
  Fit fit = Fit::kSqueeze;
  std::int64_t bytes() const { return height * width * channels; }
  bool operator==(const PhotoForm&) const = default;
};

// Decodes `file` and writes form.bytes() bytes to `to`. Throws as decode_picture().
void prepare_photo(ByteView file, const std::string& name, const PhotoForm& form, std::uint8_t* to);
// The same with a random part of the photo, which is scaled to the shape. Only training calls it, and not for sounds.
void prepare_crop(ByteView file, const std::string& name, const PhotoForm& form, const RandomCrop& crop,
                  std::uint8_t* to);

}  // namespace mlx::data
