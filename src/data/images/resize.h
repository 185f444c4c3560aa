// Scales pictures: bilinear and antialiased, bit for bit as Pillow's Image.resize(size, BILINEAR, box) on 8-bit pixels.
#pragma once

#include <cstdint>

#include "data/images/decode.h"

namespace mlx::data {

// A rectangle of a picture in pixels, with fractions; inside of the picture and not empty.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool operator==(const Box&) const = default;
};

Box whole_box(std::int64_t height, std::int64_t width);
// What remains when the shorter side is scaled to `shorter` and height×width pixels are cut from the middle: the usual
// transform of evaluation (torchvision: Resize(shorter), CenterCrop). A side that is too short for the crop is used
// whole, stretched.
Box center_box(std::int64_t picture_height, std::int64_t picture_width, std::int64_t shorter, std::int64_t height,
               std::int64_t width);

// Scales what `box` shows of `from` to height×width pixels, written to `to` (height * width * channels bytes).
// Pixels beside the box count for the filter at its edge, as in Pillow. height and width are positive.
void resize(const std::uint8_t* from, std::int64_t from_height, std::int64_t from_width, std::int64_t channels,
            const Box& box, std::int64_t height, std::int64_t width, std::uint8_t* to);
Picture resize(const Picture& from, const Box& box, std::int64_t height, std::int64_t width);
Picture resize(const Picture& from, std::int64_t height, std::int64_t width);  // squeezed or stretched as a whole

}  // namespace mlx::data
