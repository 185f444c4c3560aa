#include "data/kinds/changed_image.h"

#include <algorithm>

#include "data/images/crop.h"
#include "data/images/pixel_changes.h"
#include "data/images/resize.h"

namespace mlx::data {
namespace {

void crop_stored(const Images& images, const std::uint8_t* stored, const RandomCrop& crop, Bytes& to) {
  const PixelView image{stored, images.height, images.width, images.channels};
  const Region part = draw_crop(crop, images.height, images.width);
  resize(part_of(image, part), whole_box(part.height, part.width), images.height, images.width, to.data());
}

}  // namespace

const std::uint8_t* changed_image(const Images& images, std::int64_t index, const std::uint8_t* stored,
                                  const Augment& augment, const DrawKey& key, Bytes& scratch) {
  if (augment.crop == 0 && !changes_pixels(augment)) return stored ? stored : images.at(index, scratch);
  const ImageSize size{images.height, images.width, images.channels};
  const auto bytes = static_cast<std::size_t>(size.elements());
  if (augment.crop > 0) {
    const RandomCrop crop{augment.crop, key};
    scratch.resize(bytes);
    if (stored)
      crop_stored(images, stored, crop, scratch);
    else
      images.source->crop(index, crop, scratch);
  } else {
    const std::uint8_t* const image = stored ? stored : images.at(index, scratch);
    if (image != scratch.data()) scratch.assign(image, image + bytes);
  }
  change_pixels(augment, size, key, scratch.data());
  return scratch.data();
}

}  // namespace mlx::data
