// Looks of images: every pixel is read once, in whole rows.

#include "data/images/look.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace mlx::data {
namespace {

constexpr std::int64_t kBands = 8;

// Sums of all pixels left of each column over the rows [top, bottom), all channels together.
class BandSums {
 public:
  BandSums(std::int64_t width, std::int64_t channels)
      : width_(width),
        channels_(channels),
        values_(static_cast<std::size_t>(width * channels)),
        left_(static_cast<std::size_t>(width) + 1) {}
  void take(const std::uint8_t* rows, std::int64_t count) {
    std::ranges::fill(values_, 0);
    for (std::int64_t row = 0; row < count; ++row, rows += values_.size())
      for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += rows[i];
    std::size_t at = 0;
    for (std::size_t x = 0; x < static_cast<std::size_t>(width_); ++x) {
      left_[x + 1] = left_[x];
      for (std::int64_t channel = 0; channel < channels_; ++channel) left_[x + 1] += values_[at++];
    }
    rows_ = count;
  }
  // The mean over part `x` of `columns` equal ones; parts of narrow images share pixels.
  double mean(std::int64_t x, std::int64_t columns) const {
    const std::int64_t left = x * width_ / columns, right = std::max(left + 1, (x + 1) * width_ / columns);
    const std::uint64_t sum = left_[static_cast<std::size_t>(right)] - left_[static_cast<std::size_t>(left)];
    return static_cast<double>(sum) / static_cast<double>(rows_ * (right - left) * channels_);
  }

 private:
  std::int64_t width_, channels_, rows_ = 0;
  std::vector<std::uint32_t> values_;
  std::vector<std::uint64_t> left_;
};

}  // namespace

Look look_of(const std::uint8_t* pixels, std::int64_t height, std::int64_t width, std::int64_t channels) {
  Look look;
  if (height == 0 || width == 0 || channels == 0) return look;
  BandSums band(width, channels);
  for (std::int64_t y = 0; y < kBands; ++y) {
    const std::int64_t top = y * height / kBands, bottom = std::max(top + 1, (y + 1) * height / kBands);
    band.take(pixels + top * width * channels, bottom - top);
    double before = band.mean(0, 9);
    for (std::int64_t x = 0; x < 8; ++x) {
      const double next = band.mean(x + 1, 9);
      look.gradient = look.gradient << 1 | (next > before ? 1 : 0);
      before = next;
      look.grey[static_cast<std::size_t>(y * 8 + x)] = static_cast<std::uint8_t>(std::lround(band.mean(x, 8)));
    }
  }
  return look;
}

bool alike(const Look& a, const Look& b) {
  if (std::popcount(a.gradient ^ b.gradient) > kAlikeBits) return false;
  int off = 0;
  for (std::size_t i = 0; i < a.grey.size(); ++i) off += std::abs(int{a.grey[i]} - int{b.grey[i]});
  return off <= kAlikeGrey * static_cast<int>(a.grey.size());
}

void LookIndex::add(std::size_t image) {
  for (unsigned part = 0; part < kParts; ++part) {
    std::vector<std::uint32_t>& list = parts_[key(looks_[image].gradient, part)];
    if (list.size() < kMostCompared) list.push_back(static_cast<std::uint32_t>(image));
  }
}

}  // namespace mlx::data
