// Norms with what is added beside them: the sum of x and a residual that they are taken of, and the gradient that comes
// to that sum by another way. Rows of every width that kernels/cuda holds differently, narrow to wider than it holds.
#include <fmt/format.h>

#include "cases.h"

namespace mlx::kernels::test {
namespace {

struct Size {
  std::int64_t rows, width;
  std::string text() const { return fmt::format("[{},{}]", rows, width); }
};

// The two norms, each with its number of inputs before a residual and of outputs before the sum.
void forward(Cases& cases, const Size& size, DType from, DType to) {
  const Dims dims{size.rows, size.width};
  const Tensor x = size.rows == 3 ? odd(random(dims, 1), 3.0f) : random(dims, 1);
  const Tensor gamma = random({size.width}, 2), beta = random({size.width}, 3),
               residual = stored(random(dims, 4), from);
  const Shape y = shape_of(to, dims), each = f32({size.rows}), sum = f32(dims);
  const std::string name = fmt::format("{} with a residual, {} to {}", size.text(), name_of(from), name_of(to));
  const bool whole = from == DType::kF32;  // and may give its place
  cases.push_back({name, Op::kLayerNorm, {}, {x, gamma, beta, residual}, {y, each, each, sum}, {}, {{0, 3}}});
  cases.push_back({name, Op::kRmsNorm, {}, {x, gamma, residual}, {y, each, sum}, {}, {{0, 2}}});
  if (!whole) return;
  cases.push_back({name, Op::kLayerNorm, {}, {x, gamma, beta, residual}, {y, each, each, sum}, {}, {{3, 3}}});
  cases.push_back({name, Op::kRmsNorm, {}, {x, gamma, residual}, {y, absent().shape, sum}, {}, {{2, 2}}});
}

void backward(Cases& cases, const Size& size, DType given) {
  const Dims dims{size.rows, size.width};
  const Tensor x = random(dims, 1), dy = stored(random(dims, 4), given), gamma = random({size.width}, 2);
  const Tensor mean = random({size.rows}, 5), rstd = uniform({size.rows}, 0.1f, 2.0f, 6), dsum = random(dims, 7);
  const Shape dx = f32(dims), columns = f32({size.width});
  for (const bool adds : {false, true}) {
    const std::string name = fmt::format("{} dy {}{}", size.text(), name_of(given), adds ? " with dsum" : "");
    Case layer{name, Op::kLayerNormBackward, {}, {x, dy, gamma, mean, rstd}, {dx, columns, columns}, {}, {}};
    Case rms{name, Op::kRmsNormBackward, {}, {x, dy, gamma, rstd}, {dx, columns}, {}, {}};
    if (adds) {
      layer.inputs.push_back(dsum), layer.may_share = {{5, 0}};
      rms.inputs.push_back(dsum), rms.may_share = {{4, 0}};
    }
    cases.push_back(layer);
    cases.push_back(rms);
  }
}

}  // namespace

void residual_norms(Cases& cases) {
  const std::vector<Size> sizes = {{0, 8},   {1, 1},    {3, 33},   {70, 64},  {37, 260}, {9, 700},
                                   {5, 514}, {17, 780}, {9, 1028}, {3, 4095}, {2, 4100}, {9, 8196}};
  for (const Size& size : sizes) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      forward(cases, size, type, type);
      backward(cases, size, type);
    }
    forward(cases, size, DType::kBF16, DType::kF32);
  }
  backward(cases, {5000, 16}, DType::kF32);  // more rows than there are shares of them
}

}  // namespace mlx::kernels::test
