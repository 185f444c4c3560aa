// Normalisation with tables: one load and one store per element.

#include "data/images/normalize.h"

#include "base/error.h"

namespace mlx::data {
namespace {

// One loop for each common number of channels, so that the inner one is unrolled; 0 means any number.
template <int kChannels, bool kMirrored>
void apply_table(const float* table, std::int64_t channels, const std::uint8_t* from, std::int64_t pixels, float* to) {
  const std::int64_t n = kChannels > 0 ? kChannels : channels;
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < pixels; ++i) {
    const std::uint8_t* const pixel = from + (kMirrored ? pixels - 1 - i : i) * n;
    for (std::int64_t c = 0; c < n; ++c) to[i * n + c] = table[256 * c + pixel[c]];
  }
}

template <bool kMirrored>
void dispatch(const float* table, std::int64_t channels, const std::uint8_t* from, std::int64_t pixels, float* to) {
  switch (channels) {
    case 1:
      return apply_table<1, kMirrored>(table, 1, from, pixels, to);
    case 3:
      return apply_table<3, kMirrored>(table, 3, from, pixels, to);
    default:
      return apply_table<0, kMirrored>(table, channels, from, pixels, to);
  }
}

}  // namespace

PixelTable::PixelTable(const Normalization& normalization)
    : channels_(static_cast<std::int64_t>(normalization.mean.size())), values_(256 * normalization.mean.size()) {
  CHECK(normalization.mean.size() == normalization.std.size());
  for (std::size_t c = 0; c < normalization.mean.size(); ++c) {
    for (std::size_t v = 0; v < 256; ++v) {
      const double scaled = static_cast<double>(v) / 255.0;
      values_[256 * c + v] =
          static_cast<float>((scaled - double{normalization.mean[c]}) / double{normalization.std[c]});
    }
  }
}

void PixelTable::apply(const std::uint8_t* from, std::int64_t pixels, float* to) const {
  dispatch<false>(values_.data(), channels_, from, pixels, to);
}

void PixelTable::apply_mirrored(const std::uint8_t* from, std::int64_t pixels, float* to) const {
  dispatch<true>(values_.data(), channels_, from, pixels, to);
}

void PixelTable::fill_black(std::int64_t pixels, float* to) const {
  for (std::int64_t i = 0; i < pixels; ++i) {
    for (std::int64_t c = 0; c < channels_; ++c) to[i * channels_ + c] = values_[static_cast<std::size_t>(256 * c)];
  }
}

void normalize(const Normalization& normalization, ByteView pixels, std::span<float> to) {
  const PixelTable table(normalization);
  if (table.channels() == 0 || pixels.size() % static_cast<std::size_t>(table.channels()) != 0 ||
      to.size() != pixels.size()) {
    fail(ErrorKind::kUsage, "{} bytes of pixels do not make whole pixels of {} channels in {} floats", pixels.size(),
         table.channels(), to.size());
  }
  table.apply(pixels.data(), static_cast<std::int64_t>(pixels.size()) / table.channels(), to.data());
}

}  // namespace mlx::data
