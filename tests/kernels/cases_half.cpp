// The problems in half precision, bf16 and f16: casts, products with sums in f32, and what reads or writes it beside
// f32. Weights in f32 are numbers that it does not hold exactly, so that a kernel which does not round them is found
// out; biases too but where y is half, when a kernel may round them or not. And products in tf32.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "cases.h"
#include "kernels/half.h"

namespace mlx::kernels::test {
namespace {

std::array<DType, 2> results(DType half) {
  return {DType::kF32, half};
}

// The nearest that `half` holds, as f32.
Tensor rounded(Tensor tensor, DType half) {
  if (half == DType::kF32) return tensor;
  for (std::int64_t i = 0; i < tensor.shape.count(); ++i) {
    float& x = tensor.data<float>()[i];
    x = half == DType::kBF16 ? widen(to_bf16(x)) : widen(to_f16(x));
  }
  return tensor;
}

Tensor from_bits(const std::vector<std::uint32_t>& bits) {
  Tensor tensor = zeros(DType::kF32, {static_cast<std::int64_t>(bits.size())});
  std::memcpy(tensor.bytes.data(), bits.data(), tensor.bytes.size());
  return tensor;
}

void casts(Cases& cases, DType half) {
  for (const std::int64_t n : {0, 1, 15, 16, 17, 63, 64, 65, 1000, 40000}) {
    const Tensor x = n == 1000 ? odd(random({n}, 1)) : random({n}, 1);
    cases.push_back({fmt::format("{} to {}", n, name_of(half)), Op::kCast, {}, {x}, {shape_of(half, {n})}, {}, {}});
    cases.push_back(
        {fmt::format("{} of {} to f32", n, name_of(half)), Op::kCast, {}, {stored(x, half)}, {f32({n})}, {}, {}});
  }
  // Halves go to even, up and down; the largest f32 becomes infinity; a NaN whose upper half is infinity's stays one;
  // denormals are numbers like others. The last two rows: the same of f16, whose largest number is 65504 and whose
  // denormals begin below 2^-14.
  const Tensor edges = from_bits({0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0xbf808000, 0xbf818000,
                                  0x7f7fffff, 0xff7fffff, 0x7f7f7fff, 0x7f800000, 0xff800000, 0x7f800001, 0xffc12345,
                                  0x00000001, 0x00008000, 0x00018000, 0x80018000, 0x007fffff, 0x80000000, 0x3f801000,
                                  0x3f803000, 0x3f801001, 0xbf803000, 0x477fefff, 0x477ff000, 0xc77ff000, 0x387fffff,
                                  0x387fe000, 0x33800000, 0x33000000, 0x33000001, 0x33c00000, 0xb3000001});
  const std::int64_t n = edges.shape.count();
  cases.push_back({"edges", Op::kCast, {}, {edges}, {shape_of(half, {n})}, {}, {}});
  cases.push_back({"edges", Op::kCast, {}, {stored(edges, half)}, {f32({n})}, {}, {}});
}

void linear(Cases& cases, DType half) {
  for (const auto& [rows, k, n] : std::vector<std::array<std::int64_t, 3>>{{0, 4, 4},
                                                                           {1, 1, 1},
                                                                           {1, 300, 17},
                                                                           {7, 16, 16},
                                                                           {13, 33, 65},
                                                                           {130, 601, 10},
                                                                           {66, 128, 130},
                                                                           {257, 64, 64},
                                                                           {301, 96, 384}}) {
    const std::string name = fmt::format("{} {}x{} to {}", name_of(half), rows, k, n);
    const Tensor x = stored(rows == 7 ? odd(random({rows, k}, 1)) : random({rows, k}, 1), half);
    const Tensor w = random({n, k}, 2), dy = stored(random({rows, n}, 4), half);
    for (const DType to : results(half)) {
      const Tensor b = to == half ? rounded(random({n}, 3), half) : random({n}, 3);
      const std::string title = fmt::format("{} as {}", name, name_of(to));
      for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
        if (rows == 7 && activation != Activation::kNone) continue;  // max(NaN, 0) is the library's choice
        Attrs attrs;
        attrs.activation = activation;
        cases.push_back({title, Op::kLinear, attrs, {x, w, b}, {shape_of(to, {rows, n})}, {}, {}});
      }
      cases.push_back({title + " no bias", Op::kLinear, {}, {x, w, absent()}, {shape_of(to, {rows, n})}, {}, {}});
      cases.push_back({title, Op::kLinearBackwardData, {}, {dy, w}, {shape_of(to, {rows, k})}, {}, {}});
    }
    const Tensor half_w = stored(w, half), b = rounded(random({n}, 3), half);
    const std::string title = name + " with weights in half";
    cases.push_back({title, Op::kLinear, {}, {x, half_w, b}, {shape_of(half, {rows, n})}, {}, {}});
    cases.push_back({title, Op::kLinearBackwardData, {}, {dy, half_w}, {shape_of(half, {rows, k})}, {}, {}});
    if (rows == 7) continue;
    cases.push_back({name, Op::kLinearBackwardWeights, {}, {x, dy}, {f32({n, k}), f32({n})}, {}, {}});
    cases.push_back({name + " no bias", Op::kLinearBackwardWeights, {}, {x, dy}, {f32({n, k})}, {}, {}});
  }
}

void half_conv(Cases& cases, DType half) {
  struct HalfConvCase {
    WindowCase window;
    std::int64_t out, groups;
  };
  for (const auto& [w, out, groups] : std::vector<HalfConvCase>{{{{2, 6, 6, 16}, 3, 1, 1}, 32, 1},
                                                                {{{9, 16, 16, 16}, 3, 1, 1}, 16, 1},
                                                                {{{3, 7, 7, 32}, 3, 2, 1}, 48, 1},
                                                                {{{2, 7, 7, 24}, 1, 1, 0}, 50, 1},
                                                                {{{2, 8, 8, 64}, 1, 2, 0}, 128, 1},
                                                                {{{2, 5, 5, 8}, 3, 1, 1}, 12, 1},
                                                                {{{2, 8, 8, 3}, 3, 2, 1}, 17, 1},
                                                                {{{2, 6, 6, 8}, 3, 1, 1}, 16, 4},
                                                                {{{1, 9, 9, 32}, 3, 2, 1}, 48, 2},
                                                                {{{2, 6, 6, 16}, 3, 1, 1}, 16, 16},
                                                                {{{0, 5, 5, 3}, 3, 1, 1}, 8, 1},
                                                                {{{1, 1, 1, 1}, 1, 1, 0}, 1, 1}}) {
    const Dims y{w.x[0], windows(w.x[1], w), windows(w.x[2], w), out};
    const Dims kernel{out, w.kernel, w.kernel, w.x[3] / groups};
    Attrs attrs = window_attrs(w);
    attrs.groups = groups;
    const std::string name = fmt::format("{} {}x{}x{}x{} to {} kernel {}/{} groups {}", name_of(half), w.x[0], w.x[1],
                                         w.x[2], w.x[3], out, w.kernel, w.stride, groups);
    const Tensor x = stored(random(w.x, 1), half), dy = stored(random(y, 4), half), weights = random(kernel, 2);
    const Tensor b = random({out}, 3);
    for (const DType to : results(half)) {
      const std::string title = fmt::format("{} as {}", name, name_of(to));
      cases.push_back({title + " no bias", Op::kConv2d, attrs, {x, weights, absent()}, {shape_of(to, y)}, {}, {}});
      cases.push_back({title, Op::kConv2dBackwardData, attrs, {dy, weights}, {shape_of(to, w.x)}, {}, {}});
      Attrs relu = attrs;
      relu.activation = Activation::kRelu;
      cases.push_back({title + " relu", Op::kConv2d, relu, {x, weights, b}, {shape_of(to, y)}, {}, {}});
    }
    const Tensor half_weights = stored(weights, half);
    const std::string title = name + " with weights in half";
    cases.push_back({title, Op::kConv2d, attrs, {x, half_weights, b}, {shape_of(half, y)}, {}, {}});
    cases.push_back({title, Op::kConv2dBackwardData, attrs, {dy, half_weights}, {shape_of(half, w.x)}, {}, {}});
    cases.push_back({name, Op::kConv2dBackwardWeights, attrs, {x, dy}, {f32(kernel), f32({out})}, {}, {}});
    cases.push_back({name + " no bias", Op::kConv2dBackwardWeights, attrs, {x, dy}, {f32(kernel)}, {}, {}});
  }
}

// Every operation that takes or gives half precision where the other side is f32, and where both are.
template <typename Body>
void for_storage(DType half, Body body) {
  for (const DType from : results(half))
    for (const DType to : results(half))
      if (from == half || to == half) body(from, to, fmt::format("{} to {}", name_of(from), name_of(to)));
}

// The same of x, dy and dx.
template <typename Body>
void for_gradients(DType half, Body body) {
  for_storage(half, [&](DType from, DType to, const std::string& types) {
    for (const DType dy : results(half)) body(from, dy, to, fmt::format("{}, dy {}", types, name_of(dy)));
  });
  body(DType::kF32, half, DType::kF32, fmt::format("f32, dy {}", name_of(half)));
}

void batch_norm(Cases& cases, DType half, std::int64_t rows, std::int64_t c, Activation activation) {
  Attrs attrs;
  attrs.activation = activation;
  const bool six = activation == Activation::kRelu6;
  const Tensor gamma = uniform({c}, six ? 3.0f : 0.5f, six ? 9.0f : 2.0f, 2), beta = random({c}, 3);
  const Tensor mean = random({c}, 4), variance = uniform({c}, 0.5f, 2.0f, 5);
  const Shape channels = f32({c});
  for_storage(half, [&](DType from, DType to, const std::string& types) {
    const std::string title = fmt::format("[{},{}] {} activation {}", rows, c, types, static_cast<int>(activation));
    const Tensor x = stored(random({rows, c}, 1), from);
    cases.push_back({title,
                     Op::kBatchNorm,
                     attrs,
                     {x, gamma, beta, mean, variance},
                     {shape_of(to, {rows, c}), channels, channels, channels, channels},
                     {{3, 3}, {4, 4}},
                     {}});
  });
  const Tensor kept = activation == Activation::kNone ? absent() : beta;
  for_gradients(half, [&](DType from, DType dy, DType to, const std::string& types) {
    cases.push_back(
        {fmt::format("[{},{}] {} activation {}", rows, c, types, static_cast<int>(activation)),
         Op::kBatchNormBackward,
         attrs,
         {stored(random({rows, c}, 1), from), stored(random({rows, c}, 6), dy), gamma, mean, variance, kept},
         {shape_of(to, {rows, c}), channels, channels},
         {},
         {}});
  });
}

void batch_norms(Cases& cases, DType half) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6}) {
    for (const std::int64_t c : {1, 17, 64, 130}) batch_norm(cases, half, 65, c, activation);
    for (const std::int64_t rows : {0, 1, 5000}) batch_norm(cases, half, rows, 32, activation);
  }
}

void activations(Cases& cases, DType half) {
  for (const std::int64_t n : {0, 1, 17, 64, 65, 40000}) {
    const Tensor x = uniform({n}, -8.0f, 8.0f, 1), dy = random({n}, 2);
    for_storage(half, [&](DType from, DType to, const std::string& types) {
      for (const Op op : {Op::kRelu, Op::kRelu6, Op::kGelu})
        cases.push_back({fmt::format("[{}] {}", n, types), op, {}, {stored(x, from)}, {shape_of(to, {n})}, {}, {}});
      Attrs attrs;
      attrs.cap = 2.0f;
      cases.push_back(
          {fmt::format("[{}] {}", n, types), Op::kSoftCap, attrs, {stored(x, from)}, {shape_of(to, {n})}, {}, {}});
    });
    for_gradients(half, [&](DType from, DType given, DType to, const std::string& types) {
      for (const Op op : {Op::kReluBackward, Op::kRelu6Backward, Op::kGeluBackward})
        cases.push_back({fmt::format("[{}] {}", n, types),
                         op,
                         {},
                         {stored(x, from), stored(dy, given)},
                         {shape_of(to, {n})},
                         {},
                         {}});
      Attrs attrs;
      attrs.cap = 2.0f;
      cases.push_back({fmt::format("[{}] {}", n, types),
                       Op::kSoftCapBackward,
                       attrs,
                       {stored(x, from), stored(dy, given)},
                       {shape_of(to, {n})},
                       {},
                       {}});
    });
  }
}

void norms(Cases& cases, DType half, std::int64_t count, std::int64_t width) {
  const std::string title = fmt::format("[{},{}] {}", count, width, name_of(half));
  const Tensor x = random({count, width}, 1), gamma = uniform({width}, 0.5f, 2.0f, 2), beta = random({width}, 3);
  const Shape y = shape_of(half, {count, width}), each = f32({count}), dx = f32({count, width});
  cases.push_back({title, Op::kLayerNorm, {}, {x, gamma, beta}, {y, each, each}, {}, {}});
  cases.push_back({title, Op::kRmsNorm, {}, {x, gamma}, {y, each}, {}, {}});
  const Tensor dy = stored(random({count, width}, 4), half), mean = random({count}, 5),
               rstd = uniform({count}, 0.5f, 2.0f, 6);
  const Shape of_gamma = f32({width});
  cases.push_back({title, Op::kLayerNormBackward, {}, {x, dy, gamma, mean, rstd}, {dx, of_gamma, of_gamma}, {}, {}});
  cases.push_back({title, Op::kRmsNormBackward, {}, {x, dy, gamma, rstd}, {dx, of_gamma}, {}, {}});
}

void swiglu(Cases& cases, DType half, std::int64_t count, std::int64_t width) {
  const Tensor x = random({count, 2 * width}, 1), dy = random({count, width}, 2);
  const std::string size = fmt::format("[{},{}] ", count, width);
  for_storage(half, [&](DType from, DType to, const std::string& types) {
    cases.push_back({size + types, Op::kSwiGlu, {}, {stored(x, from)}, {shape_of(to, {count, width})}, {}, {}});
  });
  for_gradients(half, [&](DType from, DType given, DType to, const std::string& types) {
    cases.push_back({size + types,
                     Op::kSwiGluBackward,
                     {},
                     {stored(x, from), stored(dy, given)},
                     {shape_of(to, {count, 2 * width})},
                     {},
                     {}});
  });
}

void rows(Cases& cases, DType half) {
  for (const std::int64_t width : {1, 16, 33, 200}) {
    for (const std::int64_t count : {0, 1, 70}) {
      norms(cases, half, count, width);
      swiglu(cases, half, count, width);
    }
  }
}

void pools(Cases& cases, DType half) {
  for (const WindowCase& w :
       std::vector<WindowCase>{{{2, 6, 6, 16}, 2, 2, 0}, {{3, 7, 7, 35}, 3, 2, 1}, {{1, 1, 1, 1}, 1, 1, 0}}) {
    const Dims y{w.x[0], windows(w.x[1], w), windows(w.x[2], w), w.x[3]};
    const Tensor index =
        output_of({"", Op::kMaxPool, window_attrs(w), {random(w.x, 1)}, {f32(y), shape_of(DType::kS32, y)}, {}, {}}, 1);
    for_storage(half, [&](DType from, DType to, const std::string& types) {
      const std::string title = fmt::format("{}x{} {}", w.x[1], w.x[3], types);
      const Tensor x = stored(random(w.x, 1), from), dy = stored(random(y, 2), from);
      cases.push_back({title, Op::kMaxPool, window_attrs(w), {x}, {shape_of(to, y), index.shape}, {}, {}});
      cases.push_back({title, Op::kMaxPoolBackward, window_attrs(w), {dy, index}, {shape_of(to, w.x)}, {}, {}});
    });
  }
}

// Products of f32 that may count as tf32, of sizes that are multiples of a tensor core's and that are not.
void tf32_linear(Cases& cases) {
  Attrs attrs;
  attrs.tf32 = true;
  for (const auto& [rows, k, n] : std::vector<std::array<std::int64_t, 3>>{
           {0, 4, 4}, {1, 300, 17}, {66, 128, 130}, {257, 64, 64}, {301, 96, 384}}) {
    const std::string name = fmt::format("tf32 {}x{} to {}", rows, k, n);
    const Tensor x = random({rows, k}, 1), w = random({n, k}, 2), b = random({n}, 3), dy = random({rows, n}, 4);
    cases.push_back({name, Op::kLinear, attrs, {x, w, b}, {f32({rows, n})}, {}, {}});
    cases.push_back({name, Op::kLinearBackwardData, attrs, {dy, w}, {f32({rows, k})}, {}, {}});
    cases.push_back({name, Op::kLinearBackwardWeights, attrs, {x, dy}, {f32({n, k}), f32({n})}, {}, {}});
  }
}

void tf32_conv(Cases& cases) {
  for (const std::int64_t groups : {1, 4, 16}) {
    const WindowCase w{{3, 9, 9, 16}, 3, 1, 1};
    const std::int64_t out = groups == 16 ? 16 : 32;  // the last is depthwise
    Attrs attrs = window_attrs(w);
    attrs.groups = groups, attrs.tf32 = true;
    const Dims y{3, 9, 9, out}, kernel{out, 3, 3, 16 / groups};
    const std::string name = fmt::format("tf32 9x9x16 to {} groups {}", out, groups);
    const Tensor x = random(w.x, 1), weights = random(kernel, 2), b = random({out}, 3), dy = random(y, 4);
    cases.push_back({name, Op::kConv2d, attrs, {x, weights, b}, {f32(y)}, {}, {}});
    cases.push_back({name, Op::kConv2dBackwardData, attrs, {dy, weights}, {f32(w.x)}, {}, {}});
    cases.push_back({name, Op::kConv2dBackwardWeights, attrs, {x, dy}, {f32(kernel), f32({out})}, {}, {}});
  }
}

// Linear layers with gelu in training: what it is taken of beside y, and its gradient with that of what went into the
// layer. Of sums of a few units, where gelu is neither 0 nor x.
void with_gelu(Cases& cases, DType factor, DType to, bool tf32) {
  Attrs gelu;
  gelu.activation = Activation::kGelu;
  gelu.tf32 = tf32;
  for (const auto& [rows, k, n] : std::vector<std::array<std::int64_t, 3>>{
           {0, 8, 8}, {1, 1, 1}, {1, 300, 17}, {13, 33, 65}, {66, 128, 136}, {257, 64, 64}}) {
    const std::string name =
        fmt::format("{}{} as {} {}x{} to {}", tf32 ? "tf32 " : "", name_of(factor), name_of(to), rows, k, n);
    const float size = 3.0f / std::sqrt(static_cast<float>(k));
    const Tensor x = stored(random({rows, k}, 1), factor), dy = stored(random({rows, n}, 4), factor);
    const Tensor w = uniform({n, k}, -size, size, 2), b = rounded(random({n}, 3), to);
    const Tensor pre = stored(uniform({rows, k}, -6.0f, 6.0f, 5), to);
    const Shape y = shape_of(to, {rows, n}), dx = shape_of(to, {rows, k});
    cases.push_back({name + " beside pre", Op::kLinear, gelu, {x, w, b}, {y, y}, {}, {}});
    cases.push_back({name + " beside pre, no bias", Op::kLinear, gelu, {x, w, absent()}, {y, y}, {}, {}});
    cases.push_back({name + " through gelu", Op::kLinearBackwardData, gelu, {dy, w, pre}, {dx}, {}, {}});
    if (to == DType::kF32) continue;
    const Tensor half_w = stored(w, factor);
    const std::string title = name + " with weights in half";
    cases.push_back({title + " beside pre", Op::kLinear, gelu, {x, half_w, b}, {y, y}, {}, {}});
    cases.push_back({title + " through gelu", Op::kLinearBackwardData, gelu, {dy, half_w, pre}, {dx}, {}, {}});
  }
}

}  // namespace

void in_half(Cases& cases) {
  for (const DType half : {DType::kBF16, DType::kF16})
    for (void (*add)(Cases&, DType) : {casts, linear, half_conv, batch_norms, activations, rows, pools})
      add(cases, half);
  for (const DType half : {DType::kBF16, DType::kF16})
    for (const DType to : results(half)) with_gelu(cases, half, to, false);
  for (const bool tf32 : {false, true}) with_gelu(cases, DType::kF32, DType::kF32, tf32);
  tf32_linear(cases);
  tf32_conv(cases);
}

}  // namespace mlx::kernels::test
