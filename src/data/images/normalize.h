// Converts pixels from bytes to normalised floats, in the same way everywhere: in training, evaluation and serving a
// network gets the same bits.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"

namespace mlx::data {

struct Normalization {
  std::vector<float> mean, std;  // per channel, of pixels scaled to [0, 1]
};

// (v / 255 - mean) / std for each channel and each of the 256 values v.
class PixelTable {
 public:
  explicit PixelTable(const Normalization& normalization);
  std::int64_t channels() const { return channels_; }
  const float* channel(std::int64_t c) const { return values_.data() + 256 * c; }
  // Converts `pixels` pixels of channels() bytes each.
  void apply(const std::uint8_t* from, std::int64_t pixels, float* to) const;
  // The same with the last pixel first: a row mirrored left to right.
  void apply_mirrored(const std::uint8_t* from, std::int64_t pixels, float* to) const;
  // Fills with the value that black (0) becomes.
  void fill_black(std::int64_t pixels, float* to) const;

 private:
  std::int64_t channels_;
  std::vector<float> values_;
};

// `to` has as many elements as `pixels`, a multiple of the number of channels; else throws kUsage.
void normalize(const Normalization& normalization, ByteView pixels, std::span<float> to);

}  // namespace mlx::data
