// Mixtures are computed in float and cut off, as Pillow's Image.blend does.

#include "data/images/colour.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/bytes.h"
#include "data/images/grey.h"

namespace mlx::data {
namespace {

std::uint8_t mixed(int other, int own, float factor) {
  const float value = static_cast<float>(other) + factor * static_cast<float>(own - other);
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

// Mixes every byte with the same other one: a table of 256 values.
void mix_with(int other, std::int64_t count, float factor, std::uint8_t* image) {
  std::array<std::uint8_t, 256> table;
  for (int v = 0; v < 256; ++v) table[static_cast<std::size_t>(v)] = mixed(other, v, factor);
  for (std::int64_t i = 0; i < count; ++i) image[i] = table[image[i]];
}

int grey_at(const ImageSize& size, const std::uint8_t* pixel) {
  return size.channels == 3 ? grey_of(pixel[0], pixel[1], pixel[2]) : pixel[0];
}

using ChannelTable = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

Histogram histogram_of(const ImageSize& size, const std::uint8_t* image, std::int64_t channel) {
  Histogram counts{};
  for (std::int64_t i = channel; i < size.elements(); i += size.channels) ++counts[image[i]];
  return counts;
}

// Maps each channel by make_table(its histogram).
template <typename MakeTable>
void map_channels(const ImageSize& size, std::uint8_t* image, const MakeTable& make_table) {
  for (std::int64_t c = 0; c < size.channels; ++c) {
    const ChannelTable table = make_table(histogram_of(size, image, c));
    for (std::int64_t i = c; i < size.elements(); i += size.channels) image[i] = table[image[i]];
  }
}

// Maps all bytes by value(byte).
template <typename Value>
void map_bytes(const ImageSize& size, std::uint8_t* image, const Value& value) {
  ChannelTable table;
  for (int v = 0; v < 256; ++v) table[static_cast<std::size_t>(v)] = static_cast<std::uint8_t>(value(v));
  for (std::int64_t i = 0; i < size.elements(); ++i) image[i] = table[image[i]];
}

ChannelTable unchanged() {
  ChannelTable table;
  for (int v = 0; v < 256; ++v) table[static_cast<std::size_t>(v)] = static_cast<std::uint8_t>(v);
  return table;
}

struct Hsv {
  std::uint8_t hue = 0, saturation = 0, value = 0;
};

// In the precisions of Pillow, whose bytes depend on them: quotients in float, sums in double.
Hsv to_hsv(const std::uint8_t* pixel) {
  const int red = pixel[0], green = pixel[1], blue = pixel[2];
  const int most = std::max({red, green, blue}), least = std::min({red, green, blue});
  if (most == least) return {0, 0, static_cast<std::uint8_t>(most)};
  const auto range = static_cast<float>(most - least);
  // The sector by the largest channel, and the distances of the two others.
  const int x = red == most     ? most - blue
                : green == most ? most - red
                                : most - green,
            y = red == most     ? most - green
                : green == most ? most - blue
                                : most - red;
  const double sector = red == most ? 0.0 : green == most ? 2.0 : 4.0;
  const auto sixths =
      static_cast<float>(sector + double{static_cast<float>(x) / range} - double{static_cast<float>(y) / range});
  const double turns = sixths / 6.0 + 1.0;
  const auto hue = static_cast<float>(turns >= 1 ? turns - 1 : turns);
  const float saturation = range / static_cast<float>(most);
  return {static_cast<std::uint8_t>(std::clamp(static_cast<int>(hue * 255.0), 0, 255)),
          static_cast<std::uint8_t>(std::clamp(static_cast<int>(saturation * 255.0), 0, 255)),
          static_cast<std::uint8_t>(most)};
}

// What a byte of hue means: one of six sectors of the circle, and the place in it.
struct HuePlace {
  std::uint8_t sector;
  float rest;
};
constexpr std::array<HuePlace, 256> hue_places() {
  std::array<HuePlace, 256> places{};
  for (int hue = 0; hue < 256; ++hue) {
    const double sixths = hue * 6.0 / 255.0;
    const int sector = static_cast<int>(sixths);
    places[static_cast<std::size_t>(hue)] = {static_cast<std::uint8_t>(sector % 6),
                                             static_cast<float>(sixths - sector)};
  }
  return places;
}
constexpr std::array<HuePlace, 256> kHuePlaces = hue_places();

void from_hsv(const Hsv& hsv, std::uint8_t* pixel) {
  // Which of {v, p, q, t} red, green and blue are.
  static constexpr std::uint8_t kOrder[6][3] = {{0, 3, 1}, {2, 0, 1}, {1, 0, 3}, {1, 2, 0}, {3, 1, 0}, {0, 1, 2}};
  const std::uint8_t v = hsv.value;
  const auto [sector, rest] = kHuePlaces[hsv.hue];
  const auto s = static_cast<float>(hsv.saturation / 255.0);
  const auto share = [v](double of) {
    constexpr double kHalfUp = 0.5;  // values are not negative; a call of lround() would take most of the time
    return static_cast<std::uint8_t>(static_cast<int>(v * of + kHalfUp));
  };
  const std::uint8_t values[4] = {v, share(1.0 - double{s}), share(1.0 - double{s * rest}),
                                  share(1.0 - double{s} * (1.0 - double{rest}))};
  for (int c = 0; c < 3; ++c) pixel[c] = values[kOrder[sector][c]];
}

}  // namespace

void adjust_brightness(const ImageSize& size, float factor, std::uint8_t* image) {
  mix_with(0, size.elements(), factor, image);
}

void adjust_contrast(const ImageSize& size, float factor, std::uint8_t* image) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < size.pixels(); ++i) sum += grey_at(size, image + i * size.channels);
  const double mean = static_cast<double>(sum) / static_cast<double>(size.pixels());
  mix_with(static_cast<int>(std::floor(mean + 0.5)), size.elements(), factor, image);
}

void adjust_saturation(const ImageSize& size, float factor, std::uint8_t* image) {
  if (size.channels != 3) return;
  for (std::int64_t i = 0; i < size.pixels(); ++i) {
    std::uint8_t* const pixel = image + 3 * i;
    const int grey = grey_at(size, pixel);
    for (int c = 0; c < 3; ++c) pixel[c] = mixed(grey, pixel[c], factor);
  }
}

// Pillow's ImageFilter.SMOOTH: the pixel counts five times, its eight neighbours once; the border stays.
void adjust_sharpness(const ImageSize& size, float factor, std::uint8_t* image) {
  const std::int64_t row = size.width * size.channels, n = size.channels;
  const Bytes source(image, image + size.elements());
  for (std::int64_t y = 1; y + 1 < size.height; ++y) {
    for (std::int64_t i = n; i < row - n; ++i) {
      const std::uint8_t* const at = source.data() + y * row + i;
      int sum = 4 * at[0];
      for (const std::int64_t beside : {-row, std::int64_t{0}, row})
        sum += at[beside - n] + at[beside] + at[beside + n];
      image[y * row + i] = mixed((2 * sum + 13) / 26, at[0], factor);
    }
  }
}

void adjust_hue(const ImageSize& size, double turn, std::uint8_t* image) {
  if (size.channels != 3) return;
  const auto shift = static_cast<std::uint8_t>(static_cast<int>(turn * 255));
  for (std::int64_t i = 0; i < size.pixels(); ++i) {
    Hsv hsv = to_hsv(image + 3 * i);
    hsv.hue = static_cast<std::uint8_t>(hsv.hue + shift);
    from_hsv(hsv, image + 3 * i);
  }
}

void posterize(const ImageSize& size, int bits, std::uint8_t* image) {
  map_bytes(size, image, [mask = 0xFF00 >> bits](int v) { return v & mask; });
}

void solarize(const ImageSize& size, double threshold, std::uint8_t* image) {
  map_bytes(size, image, [threshold](int v) { return v < threshold ? v : 255 - v; });
}

void autocontrast(const ImageSize& size, std::uint8_t* image) {
  map_channels(size, image, [](const Histogram& counts) {
    int low = 0, high = 255;
    while (low < 255 && counts[static_cast<std::size_t>(low)] == 0) ++low;
    while (high > 0 && counts[static_cast<std::size_t>(high)] == 0) --high;
    if (high <= low) return unchanged();
    const double scale = 255.0 / (high - low), offset = -low * scale;
    ChannelTable table;
    for (int v = 0; v < 256; ++v)
      table[static_cast<std::size_t>(v)] =
          static_cast<std::uint8_t>(std::clamp(static_cast<int>(v * scale + offset), 0, 255));
    return table;
  });
}

void equalize(const ImageSize& size, std::uint8_t* image) {
  map_channels(size, image, [&](const Histogram& counts) {
    std::size_t last = 255;
    while (last > 0 && counts[last] == 0) --last;
    const std::int64_t step = (size.pixels() - counts[last]) / 255;
    if (step == 0) return unchanged();
    ChannelTable table;
    std::int64_t below = step / 2;
    for (std::size_t v = 0; v < 256; ++v) {
      table[v] = static_cast<std::uint8_t>(std::min<std::int64_t>(below / step, 255));
      below += counts[v];
    }
    return table;
  });
}

}  // namespace mlx::data
