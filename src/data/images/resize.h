// Scales pictures: bilinear and antialiased, bit for bit as Image.resize(size, BILINEAR, box) of Pillow up to version
// 12 on 8-bit pixels: first across, then down. Pillow 13 goes down first where that is much cheaper, as for tall
// pictures; its bytes differ there, because each pass rounds.
#pragma once

#include <cstdint>

#include "data/images/decode.h"

namespace mlx::data {

// Pixels that stand elsewhere: a picture or a part of one.
struct PixelView {
  const std::uint8_t* pixels = nullptr;
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t row = 0;  // bytes from one row to the next
  PixelView(const std::uint8_t* at, std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t step = 0)
      : pixels(at), height(rows), width(columns), channels(depth), row(step > 0 ? step : columns * depth) {}
};
PixelView view_of(const Picture& picture);
PixelView part_of(const PixelView& view, const Region& part);

Box whole_box(std::int64_t height, std::int64_t width);
// What remains when the shorter side is scaled to `shorter` and height×width pixels are cut from the middle: the usual
// transform of evaluation (torchvision: Resize(shorter), CenterCrop). A side that is too short for the crop is used
// whole, stretched.
Box center_box(std::int64_t picture_height, std::int64_t picture_width, std::int64_t shorter, std::int64_t height,
               std::int64_t width);

// Scales what `box` shows of `from` to height×width pixels, written to `to` (height * width * channels bytes).
// Pixels beside the box count for the filter at its edge, as in Pillow. height and width are positive.
void resize(const PixelView& from, const Box& box, std::int64_t height, std::int64_t width, std::uint8_t* to);
Picture resize(const Picture& from, const Box& box, std::int64_t height, std::int64_t width);
Picture resize(const Picture& from, std::int64_t height, std::int64_t width);  // squeezed or stretched as a whole

}  // namespace mlx::data
