// Changes of an image's colours, byte for byte as Pillow and torchvision make them (ImageEnhance, adjust_hue,
// ImageOps). All work in place on 1 or 3 channels, channels last.
#pragma once

#include "data/images/image_size.h"

namespace mlx::data {

// Mixes the image with black, with its mean grey, with its grey version and with its smoothed version: 0 is that other
// image, 1 the image itself, above 1 is away from the other.
void adjust_brightness(const ImageSize& size, float factor, std::uint8_t* image);
void adjust_contrast(const ImageSize& size, float factor, std::uint8_t* image);
void adjust_saturation(const ImageSize& size, float factor, std::uint8_t* image);
void adjust_sharpness(const ImageSize& size, float factor, std::uint8_t* image);
// Turns the hue by this share of the circle, -0.5 to 0.5. Does nothing to grey images.
void adjust_hue(const ImageSize& size, double turn, std::uint8_t* image);

// Each channel by a table of its 256 values.
void posterize(const ImageSize& size, int bits, std::uint8_t* image);         // keeps so many upper bits
void solarize(const ImageSize& size, double threshold, std::uint8_t* image);  // inverts values from `threshold` on
void autocontrast(const ImageSize& size, std::uint8_t* image);                // the darkest becomes 0, the lightest 255
void equalize(const ImageSize& size, std::uint8_t* image);                    // evens the histogram out

}  // namespace mlx::data
