// Where elements lie: divisions that cost a multiplication, and the windows of convolutions. Plain constexpr functions,
// which tests check on the host without any emulation.
#pragma once

#include <cstdint>

#include "kernels/geometry.h"

namespace mlx::kernels::cuda {

// n / divisor for 0 <= n < 2^31 by a multiplication and a shift (Granlund & Montgomery 1994); divisor 1 … 2^31 - 1.
struct Divider {
  std::uint32_t divisor = 1, magic = 0x80000000u;
  int shift = 31;

  constexpr Divider() = default;
  constexpr explicit Divider(std::int64_t by) : divisor(static_cast<std::uint32_t>(by)) {
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

// A pixel of an image of `height` × `width`, counted through all images: (image · height + row) · width + column.
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

// A tap of a window with `channels` elements at each: (kernel row · kernel width + kernel column) · channels + channel.
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

// A convolution's sizes, and which pixel of one side a tap of the window at a pixel of the other side falls on.
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

  // Of x, under `tap` of the window whose output is `out`, counted through all images; -1 in the padding.
  constexpr std::int64_t input_at(const Pixel& out, const Tap& tap) const {
    const int row = out.row * sh - pt + tap.row, column = out.column * sw - pl + tap.column;
    if (row < 0 || row >= h || column < 0 || column >= w) return -1;
    return (std::int64_t{out.image} * h + row) * w + column;
  }
  // Of y, whose window has `in` under `tap`; -1 where there is none.
  constexpr std::int64_t output_at(const Pixel& in, const Tap& tap) const {
    const int row = in.row + pt - tap.row, column = in.column + pl - tap.column;
    if (row < 0 || column < 0 || row % sh != 0 || column % sw != 0) return -1;
    if (row / sh >= oh || column / sw >= ow) return -1;
    return (std::int64_t{in.image} * oh + row / sh) * ow + column / sw;
  }
};

}  // namespace mlx::kernels::cuda
