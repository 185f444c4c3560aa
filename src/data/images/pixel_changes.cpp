#include "data/images/pixel_changes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/images/affine.h"
#include "data/images/colour.h"
#include "data/images/rand_augment.h"

namespace mlx::data {
namespace {

bool jitters(const Augment& augment) {
  return augment.brightness > 0 || augment.contrast > 0 || augment.saturation > 0 || augment.hue > 0;
}

// The four adjustments in a random order, as torchvision's ColorJitter.
void jitter_colours(const Augment& augment, const ImageSize& size, Draws draws, std::uint8_t* image) {
  std::array<int, 4> order{0, 1, 2, 3};
  for (std::int64_t i = 3; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(draws.below(i + 1))]);
  const auto factor = [&](double most) { return static_cast<float>(draws.between(std::max(0.0, 1 - most), 1 + most)); };
  const float brightness = factor(augment.brightness), contrast = factor(augment.contrast),
              saturation = factor(augment.saturation);
  const double turn = draws.between(-augment.hue, augment.hue);
  for (const int adjustment : order) {
    if (adjustment == 0 && augment.brightness > 0) adjust_brightness(size, brightness, image);
    if (adjustment == 1 && augment.contrast > 0) adjust_contrast(size, contrast, image);
    if (adjustment == 2 && augment.saturation > 0) adjust_saturation(size, saturation, image);
    if (adjustment == 3 && augment.hue > 0) adjust_hue(size, turn, image);
  }
}

}  // namespace

bool changes_pixels(const Augment& augment) {
  return augment.rand_operations > 0 || jitters(augment) || augment.rotate > 0;
}

void change_pixels(const Augment& augment, const ImageSize& size, const DrawKey& key, std::uint8_t* image) {
  if (augment.rand_operations > 0)
    rand_augment(augment.rand_operations, augment.rand_magnitude, size, Draws(kRandAugmentStream, key), image);
  if (jitters(augment)) jitter_colours(augment, size, Draws(kColourStream, key), image);
  if (augment.rotate > 0) {
    const double degrees = Draws(kRotateStream, key).between(-augment.rotate, augment.rotate);
    transform(size, rotation(size, degrees), image);
  }
}

}  // namespace mlx::data
