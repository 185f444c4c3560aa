// Index arithmetic of the kernels for CUDA (kernels/cuda/index.h) against division and a walk over all windows.
#include <doctest/doctest.h>

#include <vector>

#include "kernels/cuda/index.h"

namespace mlx::kernels::test {
namespace {

using namespace mlx::kernels::cuda;

static_assert(Divider(7).quotient(48) == 6 && Divider(7).remainder(48) == 6);
static_assert(Divider(1).quotient(0x7fffffff) == 0x7fffffff);

Geometry geometry_of(std::int64_t h, std::int64_t w, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  Geometry g;
  g.n = 2, g.h = h, g.w = w, g.c = 3;
  g.kh = kernel, g.kw = kernel + 1, g.sh = stride, g.sw = stride + 1, g.pt = pad, g.pl = pad + 1;
  g.oh = (h + 2 * pad - g.kh) / g.sh + 1, g.ow = (w + 2 * (pad + 1) - g.kw) / g.sw + 1;
  return g;
}

}  // namespace

TEST_CASE("cuda index: a division by multiplication is exact for every int") {
  std::vector<int> numbers{0, 1, 2, 0x7fffffff, 0x7ffffffe, 0x40000000, 0x3fffffff};
  std::uint32_t state = 1;
  for (int i = 0; i < 2000; ++i) numbers.push_back(static_cast<int>((state = state * 1664525u + 1013904223u) >> 1));
  std::vector<int> divisors{1,   2,       3,          5,          7,          9,          10,
                            641, 0x10001, 0x3fffffff, 0x40000000, 0x40000001, 0x7ffffffe, 0x7fffffff};
  for (int i = 0; i < 300; ++i)
    divisors.push_back(static_cast<int>((state = state * 1664525u + 1013904223u) >> (1 + i % 30)) | 1);
  for (const int by : divisors) {
    const Divider divider(by);
    for (int n : numbers) {
      for (const int at : {n, n / by * by, n / by * by - 1}) {  // and next to a multiple
        if (at < 0) continue;
        if (divider.quotient(at) != at / by || divider.remainder(at) != at % by) FAIL(at << " / " << by);
      }
    }
  }
}

TEST_CASE("cuda index: taps of windows fall on the pixels that a walk over all windows finds, from either side") {
  for (const Geometry& g : {geometry_of(5, 7, 3, 1, 1), geometry_of(8, 6, 2, 2, 0), geometry_of(9, 9, 5, 3, 2),
                            geometry_of(1, 1, 1, 1, 0), geometry_of(4, 11, 3, 2, 2)}) {
    const PixelIndex outs(g.oh, g.ow), ins(g.h, g.w);
    const TapIndex taps(g.c, g.kw);
    const Windows windows(g);
    for (int m = 0; m < g.n * g.oh * g.ow; ++m) {
      for (int k = 0; k < g.kh * g.kw * g.c; ++k) {
        const Tap tap = taps[k];
        const std::int64_t image = m / (g.oh * g.ow), oh = m / g.ow % g.oh, ow = m % g.ow;
        const std::int64_t kh = k / (g.kw * g.c), kw = k / g.c % g.kw;
        const std::int64_t row = oh * g.sh - g.pt + kh, column = ow * g.sw - g.pl + kw;
        const bool inside = row >= 0 && row < g.h && column >= 0 && column < g.w;
        const std::int64_t at = inside ? (image * g.h + row) * g.w + column : -1;
        REQUIRE(tap.channel == k % g.c);
        REQUIRE(windows.input_at(outs[m], tap) == at);
        if (inside) REQUIRE(windows.output_at(ins[static_cast<int>(at)], tap) == m);
      }
    }
    // And no other tap of a pixel of x claims a window.
    int claimed = 0, covered = 0;
    for (int i = 0; i < g.n * g.h * g.w; ++i)
      for (int k = 0; k < g.kh * g.kw * g.c; k += static_cast<int>(g.c))
        claimed += windows.output_at(ins[i], taps[k]) >= 0;
    for (int m = 0; m < g.n * g.oh * g.ow; ++m)
      for (int k = 0; k < g.kh * g.kw * g.c; k += static_cast<int>(g.c))
        covered += windows.input_at(outs[m], taps[k]) >= 0;
    CHECK(claimed == covered);
  }
}

}  // namespace mlx::kernels::test
