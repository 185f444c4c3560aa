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

// The weights of pairs of neighbouring pixels, cut into their upper and lower eleven bits, so that products of 16 bits
// give the same sums.
struct PairedFilter {
  explicit PairedFilter(const Filter& filter);
  const Filter& whole;
  std::int64_t most_pairs;
  std::vector<std::int32_t> low, high;  // [output][pair]: the first pixel's bits in the lower half
};

constexpr int kLowBits = 11;

PairedFilter::PairedFilter(const Filter& filter) : whole(filter), most_pairs((filter.most_taps + 1) / 2) {
  const std::size_t outputs = filter.first.size();
  low.resize(outputs * static_cast<std::size_t>(most_pairs));
  high.resize(low.size());
  for (std::size_t i = 0; i < outputs; ++i) {
    const std::int32_t* const weights = filter.weights_of(static_cast<std::int64_t>(i));
    for (std::int64_t t = 0; t < filter.taps[i]; ++t) {
      const auto at = i * static_cast<std::size_t>(most_pairs) + static_cast<std::size_t>(t / 2);
      const int shift = t % 2 == 0 ? 0 : 16;
      low[at] |= (weights[t] & ((1 << kLowBits) - 1)) << shift;
      high[at] |= (weights[t] >> kLowBits) << shift;
    }
  }
}

// One step of two rows, which stand in the halves of a register, with three channels in three of four lanes. Reads
// eight bytes from each pair of pixels on, and so up to five behind the last pixel.
MLX_AVX2 void across_two_rows(const PairedFilter& filter, const std::uint8_t* rows, std::int64_t row,
                              std::int64_t width, std::uint8_t* to, std::int64_t to_row) {
  const __m256i lanes = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                                         0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  for (std::int64_t x = 0; x < width; ++x, to += 3) {
    const auto i = static_cast<std::size_t>(x);
    const std::uint8_t* from = rows + 3 * filter.whole.first[i];
    const std::int32_t *const low = filter.low.data() + x * filter.most_pairs, *const high = filter.high.data() +
                                                                                             x * filter.most_pairs;
    __m256i lows = _mm256_set1_epi32(kHalf), highs = _mm256_setzero_si256();
    for (std::int64_t pair = 0; 2 * pair < filter.whole.taps[i]; ++pair, from += 6) {
      const __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)),
                    second = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + row));
      const __m256i pixels = _mm256_shuffle_epi8(_mm256_set_m128i(second, first), lanes);
      lows = _mm256_add_epi32(lows, _mm256_madd_epi16(pixels, _mm256_set1_epi32(low[pair])));
      highs = _mm256_add_epi32(highs, _mm256_madd_epi16(pixels, _mm256_set1_epi32(high[pair])));
    }
    const __m256i sum = _mm256_srai_epi32(_mm256_add_epi32(lows, _mm256_slli_epi32(highs, kLowBits)), kFraction);
    const __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(sum, sum), sum);
    const int upper = _mm256_extract_epi32(packed, 0), lower = _mm256_extract_epi32(packed, 4);
    std::memcpy(to, &upper, 3);
    std::memcpy(to + to_row, &lower, 3);
  }
}

// As down_plain(), eight elements at a time; returns where it stopped.
MLX_AVX2 std::int64_t down_eights(const std::int32_t* weights, std::int64_t taps, const std::uint8_t* rows,
                                  std::int64_t row, std::int64_t count, std::uint8_t* to) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
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

// `rows` begins with row `first_row` of the picture; its rows have `row` bytes, of which `count` are scaled.
void down(const Filter& filter, const std::uint8_t* rows, std::int64_t row, std::int64_t count, std::int64_t first_row,
          std::int64_t height, std::uint8_t* to) {
  for (std::int64_t y = 0; y < height; ++y, to += count) {
    const auto i = static_cast<std::size_t>(y);
    const std::uint8_t* const from = rows + (filter.first[i] - first_row) * row;
    const std::int64_t done = kHasAvx2 ? down_eights(filter.weights_of(y), filter.taps[i], from, row, count, to) : 0;
    down_plain(filter.weights_of(y), filter.taps[i], from, row, done, count, to);
  }
}

// All rows of `from`. `goes_on`: another row follows in memory.
void across(const Filter& filter, const PixelView& from, bool goes_on, std::int64_t width, std::uint8_t* to) {
  constexpr std::int64_t kReadBehind = 5;
  const std::int64_t row = width * from.channels;
  std::int64_t y = 0;
  if (kHasAvx2 && from.channels == 3 && from.row >= kReadBehind) {
    const PairedFilter paired(filter);
    const std::int64_t end =
        goes_on ? from.height : from.height - 1;  // what is read behind must be memory of the picture
    for (; y + 2 <= end; y += 2)
      across_two_rows(paired, from.pixels + y * from.row, from.row, width, to + y * row, row);
  }
  for (; y < from.height; ++y) across_plain(filter, from.pixels + y * from.row, from.channels, width, to + y * row);
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

PixelView view_of(const Picture& picture) {
  return {picture.pixels.data(), picture.height, picture.width, picture.channels};
}

PixelView part_of(const PixelView& view, const Region& part) {
  CHECK(part.top >= 0 && part.left >= 0 && part.height > 0 && part.width > 0);
  CHECK(part.top + part.height <= view.height && part.left + part.width <= view.width);
  return {view.pixels + part.top * view.row + part.left * view.channels, part.height, part.width, view.channels,
          view.row};
}

void resize(const PixelView& from, const Box& box, std::int64_t height, std::int64_t width, std::uint8_t* to) {
  CHECK(height > 0 && width > 0 && box.left >= 0 && box.top >= 0 && box.left < box.right && box.top < box.bottom);
  const Box whole = whole_box(from.height, from.width);
  CHECK(box.right <= whole.right && box.bottom <= whole.bottom);
  const bool needs_across = width != from.width || box.left != whole.left || box.right != whole.right;
  const bool needs_down = height != from.height || box.top != whole.top || box.bottom != whole.bottom;
  const std::int64_t row = width * from.channels;
  std::int64_t first_row = 0, end_row = from.height;
  Filter vertical;
  if (needs_down) {
    vertical = triangle(from.height, box.top, box.bottom, height);
    first_row = vertical.first.front();
    end_row = vertical.first.back() + vertical.taps.back();
  }
  const PixelView used = part_of(from, {first_row, 0, end_row - first_row, from.width});
  if (!needs_across) {
    if (needs_down) return down(vertical, used.pixels, used.row, row, first_row, height, to);
    for (std::int64_t y = 0; y < height; ++y) std::copy_n(from.pixels + y * from.row, row, to + y * row);
    return;
  }
  const Filter horizontal = triangle(from.width, box.left, box.right, width);
  if (!needs_down) return across(horizontal, used, end_row < from.height, width, to);
  Bytes between(static_cast<std::size_t>(used.height * row));
  across(horizontal, used, end_row < from.height, width, between.data());
  down(vertical, between.data(), row, row, first_row, height, to);
}

Picture resize(const Picture& from, const Box& box, std::int64_t height, std::int64_t width) {
  Picture to{height, width, from.channels, Bytes(static_cast<std::size_t>(height * width * from.channels))};
  resize(view_of(from), box, height, width, to.pixels.data());
  return to;
}

Picture resize(const Picture& from, std::int64_t height, std::int64_t width) {
  return resize(from, whole_box(from.height, from.width), height, width);
}

}  // namespace mlx::data
