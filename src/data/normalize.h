// Pixels as bytes to normalised floats, the one way everywhere: training, evaluation and serving give a network the
// same bits.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"
#include "data/preprocessing.h"

namespace mlx::data {

// (v / 255 - mean) / std for each channel and each of the 256 values v.
class PixelTable {
 public:
  explicit PixelTable(const Normalization& normalization);
  std::int64_t channels() const { return channels_; }
  const float* channel(std::int64_t c) const { return values_.data() + 256 * c; }
  // `pixels` pixels of channels() bytes to as many floats.
  void apply(const std::uint8_t* from, std::int64_t pixels, float* to) const;
  // The same, the last pixel first: a row mirrored left to right.
  void apply_mirrored(const std::uint8_t* from, std::int64_t pixels, float* to) const;
  // What black (0) becomes.
  void fill_black(std::int64_t pixels, float* to) const;

 private:
  std::int64_t channels_;
  std::vector<float> values_;
};

// `to` has as many elements as `pixels`, a multiple of the channels; kUsage otherwise.
void normalize(const Normalization& normalization, ByteView pixels, std::span<float> to);

}  // namespace mlx::data
