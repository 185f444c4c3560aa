// The problems of images out of bytes: every way an image can be changed, numbers that are none of a change's, and
// shapes that are stored in runs or one by one, in f32 and in half precision.
#include <fmt/format.h>

#include <limits>

#include "cases.h"
#include "kernels/image_change.h"

namespace mlx::kernels::test {
namespace {

constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min(),
                       kMost = std::numeric_limits<std::int32_t>::max();

struct ImageCase {
  std::int64_t n, h, w, c;
};

// Each way and its mirror image, `n` images of it; another list for partners.
Tensor changes_of(const ImageCase& at, int skip) {
  const auto h = static_cast<std::int32_t>(at.h), w = static_cast<std::int32_t>(at.w);
  const std::vector<ImageChange> ways = {{},
                                         {0, 0, 1},
                                         {1, 0, 0},
                                         {-1, 0, 1},
                                         {0, 1, 0, 2, 0, 0},
                                         {0, 1, 1, 1, 1, 1},
                                         {0, -1, 0, 1, h - 1, w - 1},
                                         {0, -1, 1, h},
                                         {h - 1, 1 - w, 0, 2, 1, 0},
                                         {1 - h, w - 1, 1},
                                         {h, 0, 0},  // moved out
                                         {0, -w, 1, 1, 0, w / 2},
                                         // Nothing that is ever drawn: squares that stand out, and the largest numbers.
                                         {1, -1, 0, 3, -2, -1},
                                         {0, 0, -7, 2 * h + w, h / 2, w - 1},
                                         {0, 0, 0, -3, 1, 1},
                                         {kLeast, kMost, 1, kMost, kLeast, kLeast},
                                         {kMost, kLeast, kLeast, kMost, kMost, kMost},
                                         {1, 1, 1, kMost, -3, -3},
                                         {0, 0, 0, kLeast, kMost, kLeast}};
  Tensor tensor = zeros(DType::kS32, {at.n, kChangeFields});
  for (std::int64_t i = 0; i < at.n; ++i)
    tensor.data<ImageChange>()[i] = ways[static_cast<std::size_t>(i + skip) % ways.size()];
  return tensor;
}

}  // namespace

void images(Cases& cases) {
  for (const ImageCase& at : {ImageCase{0, 4, 4, 1},
                              {1, 1, 1, 1},
                              {20, 5, 7, 1},
                              {20, 4, 6, 3},
                              {21, 7, 5, 3},
                              {19, 8, 8, 1},
                              {19, 3, 8, 4},
                              {19, 3, 5, 2},
                              {2, 5, 3, 9},
                              {2, 40, 36, 3},
                              {1030, 1, 2, 2}}) {
    const Dims dims{at.n, at.h, at.w, at.c};
    const Tensor pixels = integers(DType::kU8, dims, 0, 255, 1), others = integers(DType::kU8, dims, 0, 255, 2);
    const Tensor table = uniform({at.c, kPixelValues}, -3.0f, 3.0f, 3);
    const Tensor changes = changes_of(at, 0), theirs = changes_of(at, 7);
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      const std::string name = fmt::format("[{},{},{},{}] {}", at.n, at.h, at.w, at.c, name_of(type));
      const std::vector<Shape> y{shape_of(type, dims)};
      cases.push_back({name, Op::kAugment, {}, {pixels, changes, table}, y, {}, {}});
      for (const float share : {0.7853981f, 0.0f})
        cases.push_back({fmt::format("{} mixed by {}", name, share),
                         Op::kAugment,
                         {},
                         {pixels, changes, table, others, theirs, scalar(share)},
                         y,
                         {},
                         {}});
    }
  }
}

}  // namespace mlx::kernels::test
