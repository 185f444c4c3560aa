// The problems on which convolutions are tested: ordinary, grouped and depthwise ones, and quantized.
#include <fmt/format.h>

#include <array>

#include "cases.h"

namespace mlx::kernels::test {
namespace {

struct ConvCase {
  WindowCase window;
  std::int64_t out, groups;
};

void conv(Cases& cases) {
  const std::vector<ConvCase> table = {
      {{{2, 5, 5, 1}, 3, 1, 1}, 8, 1},     {{{3, 9, 7, 1}, 5, 2, 2}, 33, 1},   {{{2, 8, 8, 3}, 3, 2, 1}, 17, 1},
      {{{17, 28, 28, 1}, 3, 1, 1}, 32, 1}, {{{1, 6, 6, 4}, 3, 1, 0}, 50, 1},   {{{2, 6, 6, 16}, 3, 1, 1}, 32, 1},
      {{{3, 7, 7, 32}, 3, 1, 1}, 48, 1},   {{{2, 4, 4, 8}, 1, 1, 0}, 16, 1},   {{{2, 6, 6, 8}, 3, 1, 1}, 16, 4},
      {{{2, 6, 6, 16}, 3, 1, 1}, 16, 16},  {{{2, 7, 9, 20}, 3, 2, 1}, 40, 1},  {{{1, 7, 6, 30}, 5, 1, 2}, 70, 1},
      {{{2, 9, 9, 24}, 1, 2, 0}, 40, 1},   {{{1, 9, 8, 8}, 11, 1, 5}, 20, 1},  {{{1, 1, 2, 300}, 3, 1, 1}, 20, 1},
      {{{2, 3, 4, 600}, 1, 1, 0}, 7, 1},   {{{3, 5, 5, 80}, 3, 1, 1}, 100, 1}, {{{2, 10, 11, 16}, 2, 3, 0}, 16, 1},
      {{{1, 9, 9, 5}, 4, 3, 2}, 130, 1},   {{{0, 5, 5, 3}, 3, 1, 1}, 8, 1},    {{{1, 1, 1, 1}, 1, 1, 0}, 1, 1}};
  for (const ConvCase& t : table) {
    const WindowCase& w = t.window;
    const Dims y{w.x[0], windows(w.x[1], w), windows(w.x[2], w), t.out};
    const Dims kernel{t.out, w.kernel, w.kernel, w.x[3] / t.groups};
    Attrs attrs = window_attrs(w);
    attrs.groups = t.groups;
    const std::string name = fmt::format("{}x{}x{}x{} to {} kernel {}/{} groups {}", w.x[0], w.x[1], w.x[2], w.x[3],
                                         t.out, w.kernel, w.stride, t.groups);
    const Tensor x = random(w.x, 1), weights = random(kernel, 2), b = random({t.out}, 3), dy = random(y, 4);
    cases.push_back({name + " no bias", Op::kConv2d, attrs, {x, weights, absent()}, {f32(y)}, {}, {}});
    cases.push_back({name, Op::kConv2dBackwardData, attrs, {dy, weights}, {f32(w.x)}, {}, {}});
    cases.push_back({name, Op::kConv2dBackwardWeights, attrs, {x, dy}, {f32(kernel), f32({t.out})}, {}, {}});
    cases.push_back({name + " no bias", Op::kConv2dBackwardWeights, attrs, {x, dy}, {f32(kernel)}, {}, {}});
    attrs.activation = Activation::kRelu6;
    cases.push_back({name + " relu6", Op::kConv2d, attrs, {x, weights, b}, {f32(y)}, {}, {}});
    const Tensor sixes = integers(DType::kU8, w.x, 0, 255, 5), wide = uniform({t.out}, 0.002f, 0.008f, 7);
    cases.push_back({name + " u8 to u8 relu6",
                     Op::kConv2d,
                     quantized_attrs(attrs, DType::kU8),
                     {sixes, integers(DType::kS8, kernel, -127, 127, 6), b, wide},
                     {shape_of(DType::kU8, y)},
                     {},
                     {},
                     true});
    attrs.activation = Activation::kRelu;
    cases.push_back({name + " relu", Op::kConv2d, attrs, {x, weights, b}, {f32(y)}, {}, {}});
    for (const DType from : {DType::kU8, DType::kS8})
      for (const DType to : {DType::kF32, DType::kU8, DType::kS8}) {
        const Tensor bytes = integers(from, w.x, from == DType::kS8 ? -128 : 0, from == DType::kS8 ? 127 : 255, 5);
        cases.push_back({fmt::format("{} {} to {}", name, name_of(from), name_of(to)),
                         Op::kConv2d,
                         quantized_attrs(attrs, to),
                         {bytes, integers(DType::kS8, kernel, -127, 127, 6), b, uniform({t.out}, 0.0005f, 0.002f, 7)},
                         {shape_of(to, y)},
                         {},
                         {},
                         true});
      }
  }
}

// Every channel by itself: whole and part vectors, blocks of pixels and single ones, windows over each edge.
void depthwise(Cases& cases) {
  struct Sizes {
    Dims x;
    std::int64_t stride;
    std::array<std::int64_t, 4> pad;
  };
  for (const auto& [x, stride, pad] : std::vector<Sizes>{{{3, 9, 23, 24}, 1, {1, 1, 1, 1}},
                                                         {{2, 8, 25, 33}, 2, {1, 1, 1, 1}},
                                                         {{17, 12, 12, 48}, 1, {1, 1, 1, 1}},
                                                         {{2, 12, 12, 32}, 2, {0, 1, 0, 1}},
                                                         {{1, 11, 12, 20}, 2, {2, 2, 2, 1}},
                                                         {{1, 4, 5, 16}, 1, {2, 0, 2, 0}},
                                                         {{2, 7, 3, 16}, 1, {0, 0, 0, 0}},
                                                         {{2, 1, 1, 64}, 1, {1, 1, 1, 1}},
                                                         {{2, 1, 2, 17}, 2, {1, 1, 1, 1}},
                                                         {{0, 5, 5, 16}, 1, {1, 1, 1, 1}}}) {
    const std::int64_t c = x[3];
    Attrs attrs;
    attrs.kernel = {3, 3}, attrs.stride = {stride, stride}, attrs.pad = pad, attrs.groups = c;
    const Dims kernel{c, 3, 3, 1},
        y{x[0], (x[1] + pad[0] + pad[1] - 3) / stride + 1, (x[2] + pad[2] + pad[3] - 3) / stride + 1, c};
    const std::string name = fmt::format("depthwise {}x{}x{}x{} stride {} pad {}", x[0], x[1], x[2], c, stride, pad[0]);
    const Tensor images = random(x, 1), weights = random(kernel, 2), b = random({c}, 3), dy = random(y, 4);
    cases.push_back({name, Op::kConv2dBackwardData, attrs, {dy, weights}, {f32(x)}, {}, {}});
    cases.push_back({name, Op::kConv2dBackwardWeights, attrs, {images, dy}, {f32(kernel), f32({c})}, {}, {}});
    cases.push_back({name + " no bias", Op::kConv2dBackwardWeights, attrs, {images, dy}, {f32(kernel)}, {}, {}});
    cases.push_back({name + " no bias", Op::kConv2d, attrs, {images, weights, absent()}, {f32(y)}, {}, {}});
    for (const Activation activation : {Activation::kRelu, Activation::kRelu6}) {
      attrs.activation = activation;
      cases.push_back({name + " activation", Op::kConv2d, attrs, {images, weights, b}, {f32(y)}, {}, {}});
    }
    for (const DType from : {DType::kU8, DType::kS8})
      for (const DType to : {DType::kF32, DType::kU8, DType::kS8}) {
        const Tensor bytes = integers(from, x, from == DType::kS8 ? -128 : 0, from == DType::kS8 ? 127 : 255, 5);
        cases.push_back({fmt::format("{} {} to {}", name, name_of(from), name_of(to)),
                         Op::kConv2d,
                         quantized_attrs(attrs, to),
                         {bytes, integers(DType::kS8, kernel, -127, 127, 6), b, uniform({c}, 0.002f, 0.01f, 7)},
                         {shape_of(to, y)},
                         {},
                         {},
                         true});
      }
  }
}

}  // namespace

void convolutions(Cases& cases) {
  conv(cases);
  depthwise(cases);
}

}  // namespace mlx::kernels::test
