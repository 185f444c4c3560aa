// A new operation is a row; the order of the rows belongs to the results of runs.

#include "data/images/rand_augment.h"

#include <cmath>
#include <iterator>

#include "data/images/affine.h"
#include "data/images/colour.h"

namespace mlx::data {
namespace {

double none(const ImageSize&, double) {
  return 0;
}
double up_to_nine_tenths(const ImageSize&, double part) {
  return 0.9 * part;
}
double up_to_slope(const ImageSize&, double part) {
  return 0.3 * part;
}

// What the colour operations of a signed strength mean: 1 is the image itself.
template <void (*kAdjust)(const ImageSize&, float, std::uint8_t*)>
void adjust(const ImageSize& size, double strength, std::uint8_t* image) {
  kAdjust(size, static_cast<float>(1 + strength), image);
}

const RandOperation kRandOperations[] = {
    {"identity", false, none, [](const ImageSize&, double, std::uint8_t*) {}},
    {"shear_x", true, up_to_slope,
     [](const ImageSize& size, double slope, std::uint8_t* image) { transform(size, {.b = slope}, image); }},
    {"shear_y", true, up_to_slope,
     [](const ImageSize& size, double slope, std::uint8_t* image) { transform(size, {.d = slope}, image); }},
    {"translate_x", true,
     [](const ImageSize& size, double part) { return 150.0 / 331.0 * static_cast<double>(size.width) * part; },
     [](const ImageSize& size, double by, std::uint8_t* image) { transform(size, {.c = -std::trunc(by)}, image); }},
    {"translate_y", true,
     [](const ImageSize& size, double part) { return 150.0 / 331.0 * static_cast<double>(size.height) * part; },
     [](const ImageSize& size, double by, std::uint8_t* image) { transform(size, {.f = -std::trunc(by)}, image); }},
    {"rotate", true, [](const ImageSize&, double part) { return 30 * part; },
     [](const ImageSize& size, double degrees, std::uint8_t* image) {
       transform(size, rotation(size, degrees), image);
     }},
    {"brightness", true, up_to_nine_tenths, adjust<adjust_brightness>},
    {"saturation", true, up_to_nine_tenths, adjust<adjust_saturation>},
    {"contrast", true, up_to_nine_tenths, adjust<adjust_contrast>},
    {"sharpness", true, up_to_nine_tenths, adjust<adjust_sharpness>},
    {"posterize", false, [](const ImageSize&, double part) { return 8 - std::nearbyint(4 * part); },
     [](const ImageSize& size, double bits, std::uint8_t* image) { posterize(size, static_cast<int>(bits), image); }},
    {"solarize", false, [](const ImageSize&, double part) { return 255 - 255 * part; }, solarize},
    {"autocontrast", false, none,
     [](const ImageSize& size, double, std::uint8_t* image) { autocontrast(size, image); }},
    {"equalize", false, none, [](const ImageSize& size, double, std::uint8_t* image) { equalize(size, image); }},
};

}  // namespace

const RandOperation& rand_operation(std::int64_t i) {
  return kRandOperations[i];
}

std::int64_t rand_operations() {
  return std::ssize(kRandOperations);
}

void rand_augment(int count, int magnitude, const ImageSize& size, Draws draws, std::uint8_t* image) {
  for (int i = 0; i < count; ++i) {
    const RandOperation& operation = rand_operation(draws.below(rand_operations()));
    const bool negative = draws.coin() && operation.is_signed;
    const double strength = operation.strength(size, magnitude / double{kMagnitudes - 1});
    operation.apply(size, negative ? -strength : strength, image);
  }
}

}  // namespace mlx::data
