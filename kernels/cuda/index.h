// Element indices: divisions by multiplication, and the windows of convolutions. Plain constexpr functions, which tests
// check on the host without emulation.
#pragma once

#include <cstdint>

#include "kernels/geometry.h"

namespace mlx::kernels::cuda {

// n / divisor for 0 <= n < 2^31, by a multiplication and a shift (Granlund & Montgomery 1994). divisor is 1 … 2^31 - 1,
// or 0 if nothing is divided.
struct Divider {
  std::uint32_t divisor = 1, magic = 0x80000000u;
  int shift = 31;

  constexpr Divider() = default;
  constexpr explicit Divider(std::int64_t by) : divisor(by > 0 ? static_cast<std::uint32_t>(by) : 1) {
    int bits = 0;  // divisor <= 2^bits
    while ((std::uint64_t{1} << bits) < divisor) ++bits;
    shift = 31 + bits;
    magic = static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + divisor - 1) / divisor);
  }
  constexpr int quotient(int n) const {
    return static_cast<int>((std::uint64_t{static_cast<std::uint32_t>(n)} * magic) >> shift);
  }
  constexpr int remainder(int n) const { return n - quotient(n) * static_cast<int>(divisor); }
};

// A pixel of images of `height` × `width`, indexed over all images: (image · height + row) · width + column.
struct Pixel {
  int image = 0, row = 0, column = 0;
};
struct PixelIndex {
  Divider width, height;
  constexpr PixelIndex() = default;
  constexpr PixelIndex(std::int64_t h, std::int64_t w) : width(w), height(h) {}
  constexpr Pixel operator[](int i) const {
    const int row = width.quotient(i);
    return {height.quotient(row), height.remainder(row), width.remainder(i)};
  }
};

// A tap of a window with `channels` elements per tap: (kernel row · kernel width + kernel column) · channels + channel.
struct Tap {
  int row = 0, column = 0, channel = 0;
};
struct TapIndex {
  Divider channels, width;
  constexpr TapIndex() = default;
  constexpr TapIndex(std::int64_t per_tap, std::int64_t kernel_width) : channels(per_tap), width(kernel_width) {}
  constexpr Tap operator[](int i) const {
    const int at = channels.quotient(i);
    return {width.quotient(at), width.remainder(at), channels.remainder(i)};
  }
};

// A convolution's sizes. Maps a pixel of one side and a tap of its window to a pixel of the other side.
struct Windows {
  int h = 0, w = 0, oh = 0, ow = 0, sh = 1, sw = 1, pt = 0, pl = 0;
  constexpr Windows() = default;
  constexpr explicit Windows(const Geometry& g)
      : h(static_cast<int>(g.h)),
        w(static_cast<int>(g.w)),
        oh(static_cast<int>(g.oh)),
        ow(static_cast<int>(g.ow)),
        sh(static_cast<int>(g.sh)),
        sw(static_cast<int>(g.sw)),
        pt(static_cast<int>(g.pt)),
        pl(static_cast<int>(g.pl)) {}

  // The pixel of x under `tap` in the window of output `out`, indexed over all images; -1 in the padding.
  constexpr std::int64_t input_at(const Pixel& out, const Tap& tap) const {
    const int row = out.row * sh - pt + tap.row, column = out.column * sw - pl + tap.column;
    if (row < 0 || row >= h || column < 0 || column >= w) return -1;
    return (std::int64_t{out.image} * h + row) * w + column;
  }
  // The pixel of y whose window has `in` under `tap`; -1 if there is none.
  constexpr std::int64_t output_at(const Pixel& in, const Tap& tap) const {
    const int row = in.row + pt - tap.row, column = in.column + pl - tap.column;
    if (row < 0 || column < 0 || row % sh != 0 || column % sw != 0) return -1;
    if (row / sh >= oh || column / sw >= ow) return -1;
    return (std::int64_t{in.image} * oh + row / sh) * ow + column / sw;
  }
};

// The operand that a convolution, computed as a product, reads: its rows are output pixels, and the elements of a row
// are the taps of their window for one group's channels. Maps output pixel m and k = (kh·KW + kw)·(C/groups) + c to an
// element of x; -1 in the padding.
struct InputIndex {
  PixelIndex pixels;
  TapIndex taps;
  Windows windows;
  std::int64_t channels = 0, per_group = 0;
  constexpr explicit InputIndex(const Geometry& g)
      : pixels(g.oh, g.ow), taps(g.c / g.groups, g.kw), windows(g), channels(g.c), per_group(g.c / g.groups) {}
  constexpr std::int64_t operator()(std::int64_t group, std::int64_t m, std::int64_t k) const {
    const Tap tap = taps[static_cast<int>(k)];
    const std::int64_t at = windows.input_at(pixels[static_cast<int>(m)], tap);
    return at < 0 ? -1 : at * channels + group * per_group + tap.channel;
  }
};

// The same for its gradient: maps input pixel m, input channel c of the group and k = (kh·KW + kw)·(O/groups) + o to
// elements of dy and of w.
struct OutputIndex {
  PixelIndex pixels;
  TapIndex taps;
  Windows windows;
  std::int64_t channels = 0, per_group = 0, window = 0, across = 0, inputs = 0;
  constexpr explicit OutputIndex(const Geometry& g)
      : pixels(g.h, g.w),
        taps(g.o / g.groups, g.kw),
        windows(g),
        channels(g.o),
        per_group(g.o / g.groups),
        window(g.kh * g.kw),
        across(g.kw),
        inputs(g.c / g.groups) {}
  constexpr std::int64_t operator()(std::int64_t group, std::int64_t m, std::int64_t k) const {
    const Tap tap = taps[static_cast<int>(k)];
    const std::int64_t at = windows.output_at(pixels[static_cast<int>(m)], tap);
    return at < 0 ? -1 : at * channels + group * per_group + tap.channel;
  }
  constexpr std::int64_t weight(std::int64_t group, std::int64_t k, std::int64_t c) const {
    const Tap tap = taps[static_cast<int>(k)];
    return ((group * per_group + tap.channel) * window + tap.row * across + tap.column) * inputs + c;
  }
};

// True if ints can index the pixels and taps of a convolution, as here.
constexpr bool counts_by_int(const Geometry& g) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1024;
  return g.n * g.h * g.w < kMost && g.n * g.oh * g.ow < kMost && g.kh * g.kw * (g.c + g.o) < kMost;
}

}  // namespace mlx::kernels::cuda
