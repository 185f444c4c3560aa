// Two passes, across and then down, with coefficients of 22 bits of fraction, like Pillow's Resample.c. Sums are of
// integers, so that the vector code and the plain code give the same bytes.

#include "data/images/resize.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace mlx::data {
namespace {

constexpr int kFraction = 22;
constexpr std::int32_t kHalf = 1 << (kFraction - 1);

// For output i: `taps` pixels from first[i] on, weighted by weights[i * most_taps …].
struct Filter {
  std::vector<std::int64_t> first, taps;
  std::int64_t most_taps = 0;
  std::vector<std::int32_t> weights;
  const std::int32_t* weights_of(std::int64_t i) const { return weights.data() + i * most_taps; }
};

// The triangle filter for `outputs` pixels of [begin, end) in a row of `size`, widened where pixels shrink.
Filter triangle(std::int64_t size, double begin, double end, std::int64_t outputs) {
  const double scale = (end - begin) / static_cast<double>(outputs), support = std::max(scale, 1.0);
  Filter filter;
  filter.most_taps = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  filter.first.resize(static_cast<std::size_t>(outputs));
  filter.taps.resize(static_cast<std::size_t>(outputs));
  filter.weights.resize(static_cast<std::size_t>(outputs * filter.most_taps));
  std::vector<double> weights(static_cast<std::size_t>(filter.most_taps));
  for (std::int64_t i = 0; i < outputs; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale, narrow = 1.0 / support;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(std::floor(center - support + 0.5)), 0);
    const std::int64_t taps = std::min(static_cast<std::int64_t>(std::floor(center + support + 0.5)), size) - first;
    double sum = 0;
    for (std::int64_t t = 0; t < taps; ++t) {
      const double distance = std::abs((static_cast<double>(t + first) - center + 0.5) * narrow);
      sum += weights[static_cast<std::size_t>(t)] = distance < 1 ? 1 - distance : 0;
    }
    std::int32_t* const to = filter.weights.data() + i * filter.most_taps;
    for (std::int64_t t = 0; t < taps; ++t) {
      const double weight = weights[static_cast<std::size_t>(t)] / (sum != 0 ? sum : 1);
      to[t] = static_cast<std::int32_t>(std::floor(0.5 + weight * (1 << kFraction)));
    }
    filter.first[static_cast<std::size_t>(i)] = first;
    filter.taps[static_cast<std::size_t>(i)] = taps;
  }
  return filter;
}

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kFraction, 0, 255));
}

void across_plain(const Filter& filter, const std::uint8_t* row, std::int64_t channels, std::int64_t width,
                  std::uint8_t* to) {
  for (std::int64_t x = 0; x < width; ++x) {
    const auto i = static_cast<std::size_t>(x);
    const std::int32_t* const weights = filter.weights_of(x);
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::uint8_t* const from = row + filter.first[i] * channels + c;
      std::int32_t sum = kHalf;
      for (std::int64_t t = 0; t < filter.taps[i]; ++t) sum += from[t * channels] * weights[t];
      *to++ = to_byte(sum);
    }
  }
}

// Elements [begin, end) of one row of the result, from `taps` rows.
void down_plain(const std::int32_t* weights, std::int64_t taps, const std::uint8_t* rows, std::int64_t row,
                std::int64_t begin, std::int64_t end, std::uint8_t* to) {
  for (std::int64_t i = begin; i < end; ++i) {
    std::int32_t sum = kHalf;
    for (std::int64_t t = 0; t < taps; ++t) sum += rows[t * row + i] * weights[t];
    to[i] = to_byte(sum);
  }
}

const bool kHasAvx2 = __builtin_cpu_supports("avx2");

#define MLX_AVX2 __attribute__((target("avx2")))

// Three channels in three of four lanes. Reads one byte behind the last pixel of a filter.
MLX_AVX2 void across_colour(const Filter& filter, const std::uint8_t* row, std::int64_t width, std::uint8_t* to) {
  for (std::int64_t x = 0; x < width; ++x, to += 3) {
    const auto i = static_cast<std::size_t>(x);
    const std::uint8_t* from = row + 3 * filter.first[i];
    const std::int32_t* const weights = filter.weights_of(x);
    __m128i sum = _mm_set1_epi32(kHalf);
    for (std::int64_t t = 0; t < filter.taps[i]; ++t, from += 3) {
      std::int32_t four;
      std::memcpy(&four, from, 4);
      const __m128i pixel = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four));
      sum = _mm_add_epi32(sum, _mm_mullo_epi32(pixel, _mm_set1_epi32(weights[t])));
    }
    const __m128i bytes = _mm_srai_epi32(sum, kFraction);
    const __m128i packed = _mm_packus_epi16(_mm_packs_epi32(bytes, bytes), bytes);
    const int three = _mm_cvtsi128_si32(packed);
    std::memcpy(to, &three, 3);
  }
}

// As down_plain(), eight elements at a time; returns where it stopped.
MLX_AVX2 std::int64_t down_eights(const std::int32_t* weights, std::int64_t taps, const std::uint8_t* rows,
                                  std::int64_t row, std::uint8_t* to) {
  std::int64_t i = 0;
  for (; i + 8 <= row; i += 8) {
    __m256i sum = _mm256_set1_epi32(kHalf);
    for (std::int64_t t = 0; t < taps; ++t) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(rows + t * row + i));
      sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_set1_epi32(weights[t])));
    }
    sum = _mm256_srai_epi32(sum, kFraction);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i), _mm_packus_epi16(words, words));
  }
  return i;
}

void down(const Filter& filter, const std::uint8_t* rows, std::int64_t row, std::int64_t first_row, std::int64_t height,
          std::uint8_t* to) {
  for (std::int64_t y = 0; y < height; ++y, to += row) {
    const auto i = static_cast<std::size_t>(y);
    const std::uint8_t* const from = rows + (filter.first[i] - first_row) * row;
    const std::int64_t done = kHasAvx2 ? down_eights(filter.weights_of(y), filter.taps[i], from, row, to) : 0;
    down_plain(filter.weights_of(y), filter.taps[i], from, row, done, row, to);
  }
}

}  // namespace

Box whole_box(std::int64_t height, std::int64_t width) {
  return {0, 0, static_cast<double>(width), static_cast<double>(height)};
}

Box center_box(std::int64_t picture_height, std::int64_t picture_width, std::int64_t shorter, std::int64_t height,
               std::int64_t width) {
  CHECK(picture_height > 0 && picture_width > 0 && shorter > 0 && height > 0 && width > 0);
  // The longer side is rounded down, the crop's corner to the nearest even, as torchvision does.
  const bool tall = picture_height > picture_width;
  const auto longer = static_cast<std::int64_t>(static_cast<double>(shorter) *
                                                static_cast<double>(std::max(picture_height, picture_width)) /
                                                static_cast<double>(std::min(picture_height, picture_width)));
  const std::int64_t scaled_height = tall ? longer : shorter, scaled_width = tall ? shorter : longer;
  const auto span = [](std::int64_t picture, std::int64_t scaled, std::int64_t cut, double& begin, double& end) {
    const double step = static_cast<double>(picture) / static_cast<double>(scaled);
    begin = 0, end = static_cast<double>(picture);
    if (cut >= scaled) return;
    const double corner = std::nearbyint(static_cast<double>(scaled - cut) / 2);
    begin = corner * step;
    end = std::min((corner + static_cast<double>(cut)) * step, end);
  };
  Box box;
  span(picture_height, scaled_height, height, box.top, box.bottom);
  span(picture_width, scaled_width, width, box.left, box.right);
  return box;
}

void resize(const std::uint8_t* from, std::int64_t from_height, std::int64_t from_width, std::int64_t channels,
            const Box& box, std::int64_t height, std::int64_t width, std::uint8_t* to) {
  CHECK(height > 0 && width > 0 && box.left >= 0 && box.top >= 0 && box.left < box.right && box.top < box.bottom);
  CHECK(box.right <= static_cast<double>(from_width) && box.bottom <= static_cast<double>(from_height));
  const Box whole = whole_box(from_height, from_width);
  const bool needs_across = width != from_width || box.left != whole.left || box.right != whole.right;
  const bool needs_down = height != from_height || box.top != whole.top || box.bottom != whole.bottom;
  const std::int64_t from_row = from_width * channels, row = width * channels;
  std::int64_t first_row = 0, end_row = from_height;
  Filter vertical;
  if (needs_down) {
    vertical = triangle(from_height, box.top, box.bottom, height);
    first_row = vertical.first.front();
    end_row = vertical.first.back() + vertical.taps.back();
  }
  if (!needs_across && !needs_down) {
    std::copy_n(from, from_height * from_row, to);
    return;
  }
  if (!needs_across) return down(vertical, from + first_row * from_row, row, first_row, height, to);
  const Filter horizontal = triangle(from_width, box.left, box.right, width);
  Bytes between(needs_down ? static_cast<std::size_t>((end_row - first_row) * row) : 0);
  std::uint8_t* const rows = needs_down ? between.data() : to;
  for (std::int64_t y = first_row; y < end_row; ++y) {
    const std::uint8_t* const source = from + y * from_row;
    std::uint8_t* const result = rows + (y - first_row) * row;
    if (kHasAvx2 && channels == 3 && y + 1 < from_height)  // behind the last row there is nothing to read
      across_colour(horizontal, source, width, result);
    else
      across_plain(horizontal, source, channels, width, result);
  }
  if (needs_down) down(vertical, rows, row, first_row, height, to);
}

Picture resize(const Picture& from, const Box& box, std::int64_t height, std::int64_t width) {
  Picture to{height, width, from.channels, Bytes(static_cast<std::size_t>(height * width * from.channels))};
  resize(from.pixels.data(), from.height, from.width, from.channels, box, height, width, to.pixels.data());
  return to;
}

Picture resize(const Picture& from, std::int64_t height, std::int64_t width) {
  return resize(from, whole_box(from.height, from.width), height, width);
}

}  // namespace mlx::data
