// Rounds as torchvision does: halves to even.

#include "data/images/crop.h"

#include <algorithm>
#include <cmath>

namespace mlx::data {
namespace {

constexpr double kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;  // width to height
constexpr int kCropAttempts = 10;

Region middle_crop(std::int64_t height, std::int64_t width) {
  const auto high = static_cast<double>(height), wide = static_cast<double>(width);
  const std::int64_t most_height = std::max<std::int64_t>(1, std::lrint(wide / kNarrowest)),
                     most_width = std::max<std::int64_t>(1, std::lrint(high * kWidest));
  const std::int64_t kept_height = std::min(height, most_height), kept_width = std::min(width, most_width);
  return {(height - kept_height) / 2, (width - kept_width) / 2, kept_height, kept_width};
}

}  // namespace

Region draw_crop(const RandomCrop& crop, std::int64_t height, std::int64_t width) {
  Draws draws(kCropStream, crop.key);
  const double whole = static_cast<double>(height) * static_cast<double>(width);
  for (int attempt = 0; attempt < kCropAttempts; ++attempt) {
    const double area = whole * draws.between(crop.least, 1);
    const double ratio = std::exp(draws.between(std::log(kNarrowest), std::log(kWidest)));
    const std::int64_t crop_width = std::lrint(std::sqrt(area * ratio)),
                       crop_height = std::lrint(std::sqrt(area / ratio));
    if (crop_width < 1 || crop_width > width || crop_height < 1 || crop_height > height) continue;
    const std::int64_t top = draws.below(height - crop_height + 1), left = draws.below(width - crop_width + 1);
    return {top, left, crop_height, crop_width};
  }
  return middle_crop(height, width);
}

}  // namespace mlx::data
