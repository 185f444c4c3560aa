// The random changes of an image's bytes, which the CPU makes for every backend: RandAugment, colour jitter, rotation.
#pragma once

#include "data/images/augment.h"
#include "data/images/draws.h"

namespace mlx::data {

bool changes_pixels(const Augment& augment);
// In place. Draws depend on `key` alone; each kind of change has a stream of its own.
void change_pixels(const Augment& augment, const ImageSize& size, const DrawKey& key, std::uint8_t* image);

}  // namespace mlx::data
