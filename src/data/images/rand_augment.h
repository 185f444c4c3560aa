// RandAugment (Cubuk et al. 2020), with torchvision's operations and magnitudes.
#pragma once

#include "data/images/draws.h"
#include "data/images/image_size.h"

namespace mlx::data {

inline constexpr int kMagnitudes = 31;

// One change of an image.
struct RandOperation {
  const char* name;
  bool is_signed;                                          // of either sign, with the same chance
  double (*strength)(const ImageSize& size, double part);  // `part`: 0 to 1, the share of the largest magnitude
  void (*apply)(const ImageSize& size, double strength, std::uint8_t* image);
};
const RandOperation& rand_operation(std::int64_t i);
std::int64_t rand_operations();

// Applies `count` operations, each drawn from all, one after the other.
void rand_augment(int count, int magnitude, const ImageSize& size, Draws draws, std::uint8_t* image);

}  // namespace mlx::data
