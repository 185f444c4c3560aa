// An image with the random changes of its bytes: the crop and what pixel_changes.h makes.
#pragma once

#include "data/images/augment.h"
#include "data/images/draws.h"
#include "data/kinds/images.h"

namespace mlx::data {

// The bytes of image `index`, valid as those of Images::at(). `stored`: the image as it was read, null of photos. A
// crop is cut from the photo itself, at the photo's own resolution; of images that are no photos, from the image.
const std::uint8_t* changed_image(const Images& images, std::int64_t index, const std::uint8_t* stored,
                                  const Augment& augment, const DrawKey& key, Bytes& scratch);

}  // namespace mlx::data
