// The problems that every kernel of the table is tested on: per operation sizes of 0, 1, a vector's lanes ± 1 and large
// ones, and values that are not finite or denormal. A new kernel is tested by its row alone; a new operation adds a
// function here; convolutions stand in cases_conv.cpp, losses in cases_loss.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "cases.h"

namespace mlx::kernels::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor positive(Dims dims, std::uint64_t seed) {
  return uniform(std::move(dims), 0.1f, 2.0f, seed);
}

// What relu6 may have given: numbers from 0 to 6, both among them.
Tensor cut_off(Dims dims, std::uint64_t seed) {
  Tensor tensor = uniform(std::move(dims), -3.0f, 9.0f, seed);
  for (std::int64_t i = 0; i < tensor.shape.count(); ++i)
    tensor.data<float>()[i] = std::fmin(std::fmax(tensor.data<float>()[i], 0.0f), 6.0f);
  return tensor;
}

void pointwise(Cases& cases) {
  for (const std::int64_t n : kCounts) {
    const Tensor a = n == 1000 ? odd(random({n}, 1)) : random({n}, 1), b = random({n}, 2);
    for (const Op op : {Op::kRelu, Op::kGelu})
      cases.push_back({fmt::format("{}", n), op, {}, {a}, {f32({n})}, {}, {{0, 0}}});
    for (const Op op : {Op::kReluBackward, Op::kGeluBackward})
      cases.push_back({fmt::format("{}", n), op, {}, {a, b}, {f32({n})}, {}, {{1, 0}}});
    const Tensor wide = n == 1000 ? odd(uniform({n}, -3.0f, 9.0f, 4)) : uniform({n}, -3.0f, 9.0f, 4);
    cases.push_back({fmt::format("{}", n), Op::kRelu6, {}, {wide}, {f32({n})}, {}, {{0, 0}}});
    cases.push_back({fmt::format("{}", n), Op::kRelu6Backward, {}, {cut_off({n}, 5), b}, {f32({n})}, {}, {{1, 0}}});
    cases.push_back({fmt::format("{}", n), Op::kGeluErf, {}, {wide}, {f32({n})}, {}, {}});
    Attrs attrs;
    attrs.cap = 3.0f;
    cases.push_back({fmt::format("{}", n), Op::kSoftCap, attrs, {wide}, {f32({n})}, {}, {}});
    cases.push_back({fmt::format("{}", n), Op::kSoftCapBackward, attrs, {wide, b}, {f32({n})}, {}, {{1, 0}}});
    attrs = {};
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6}) {
      attrs.activation = activation;
      cases.push_back({fmt::format("{}", n), Op::kAdd, attrs, {wide, b}, {f32({n})}, {}, {{0, 0}}});
    }
    attrs = {};
    attrs.rate = 0.3f, attrs.stream = 5;
    for (const Op op : {Op::kDropout, Op::kDropoutBackward})
      cases.push_back({fmt::format("{}", n), op, attrs, {a}, {f32({n})}, {}, {}});
    attrs = {};
    attrs.scale_x = attrs.scale_y = 0.013f;
    for (const DType type : {DType::kU8, DType::kS8}) {
      const bool is_signed = type == DType::kS8;
      const std::string name = fmt::format("{} {}", n, name_of(type));
      const Tensor bytes = integers(type, {n}, is_signed ? -128 : 0, is_signed ? 127 : 255, 3);
      cases.push_back({name, Op::kQuantize, attrs, {a}, {shape_of(type, {n})}, {}, {}});
      cases.push_back({name, Op::kDequantize, attrs, {bytes}, {f32({n})}, {}, {}});
    }
  }
}

void stochastic_depth(Cases& cases) {
  Attrs attrs;
  attrs.rate = 0.4f, attrs.stream = 3, attrs.whole_example = true;
  for (const Dims& dims :
       {Dims{0, 4}, Dims{1}, Dims{5, 0}, Dims{3, 15}, Dims{70, 17}, Dims{130, 2, 3, 16}, Dims{5, 9000}})
    for (const Op op : {Op::kDropout, Op::kDropoutBackward})
      cases.push_back(
          {fmt::format("examples [{}]", fmt::join(dims, ",")), op, attrs, {random(dims, 1)}, {f32(dims)}, {}, {}});
}

void optimizers(Cases& cases) {
  for (const std::int64_t n : kCounts) {
    const Tensor w = random({n}, 1), dw = random({n}, 2), m = random({n}, 3), v = positive({n}, 4),
                 rate = scalar(0.01f);
    Attrs attrs;
    attrs.momentum = 0.9f, attrs.weight_decay = 0.02f, attrs.epsilon = 1e-8f;
    const auto sgd = [&](const char* name) {
      cases.push_back({fmt::format("{} {}", n, name),
                       Op::kSgd,
                       attrs,
                       {w, dw, m, rate},
                       {f32({n}), f32({n})},
                       {{0, 0}, {2, 1}},
                       {}});
    };
    sgd("momentum");
    attrs.nesterov = true;
    sgd("nesterov");
    attrs.momentum = 0.0f;
    cases.push_back({fmt::format("{} plain", n), Op::kSgd, attrs, {w, dw, absent(), rate}, {f32({n})}, {{0, 0}}, {}});
    cases.push_back({fmt::format("{}", n),
                     Op::kAdamW,
                     attrs,
                     {w, dw, m, v, rate},
                     {f32({n}), f32({n}), f32({n})},
                     {{0, 0}, {2, 1}, {3, 2}},
                     {}});
    const auto one_state = [&](Op op, const std::string& name, Tensor gradient, const Tensor& factor) {
      cases.push_back({fmt::format("{} {}", n, name),
                       op,
                       attrs,
                       {w, std::move(gradient), m, rate, factor},
                       {f32({n}), f32({n})},
                       {{0, 0}, {2, 1}},
                       {}});
    };
    one_state(Op::kLion, "", dw, absent());
    one_state(Op::kLion, "not finite", odd(dw, 3.0f), absent());
    attrs.momentum = 0.9f;
    for (const float factor : {1.0f, 0.075f, std::nanf("")}) {  // of NaN nothing is written
      one_state(Op::kSgd, fmt::format("factor {}", factor), dw, scalar(factor));
      one_state(Op::kLion, fmt::format("factor {}", factor), dw, scalar(factor));
      cases.push_back({fmt::format("{} factor {}", n, factor),
                       Op::kAdamW,
                       attrs,
                       {w, dw, m, v, rate, scalar(factor)},
                       {f32({n}), f32({n}), f32({n})},
                       {{0, 0}, {2, 1}, {3, 2}},
                       {}});
    }
  }
}

Tensor two(float first, float second) {
  Tensor tensor = zeros(DType::kF32, {2});
  tensor.data<float>()[0] = first, tensor.data<float>()[1] = second;
  return tensor;
}

// A step that is clipped or not, scaled or not, left out, and the one after which the scale is doubled.
void gradient_scales(Cases& cases) {
  const Shape one = f32({1}), pair = f32({2});
  for (const float clip : {0.0f, 1.5f}) {
    Attrs attrs;
    attrs.clip = clip;
    for (const float norm : {0.0f, 0.5f, 20.0f, kInf, std::nanf("")}) {
      const std::string name = fmt::format("clip {} norm {}", clip, norm);
      cases.push_back({name, Op::kGradientScale, attrs, {scalar(norm), absent()}, {one, one}, {}, {}});
      for (const auto& [scale, good] : {std::pair{65536.0f, 0.0f}, {1024.0f, 1999.0f}, {16777216.0f, 1999.0f}}) {
        const std::string title = fmt::format("{} scale {} good {}", name, scale, good);
        const Tensor scaled = scalar(norm * scale), state = two(scale, good);
        cases.push_back({title, Op::kGradientScale, attrs, {scaled, state}, {one, one, one, pair}, {{1, 3}}, {}});
        cases.push_back(
            {title, Op::kGradientScale, attrs, {scaled, state}, {one, one, absent().shape, pair}, {{1, 3}}, {}});
      }
    }
  }
}

void gradients(Cases& cases) {
  for (const std::int64_t n : kCounts) {
    const Tensor x = random({n}, 1), sum = random({n}, 2);
    const std::string name = fmt::format("{}", n);
    cases.push_back({name, Op::kNorm, {}, {x, absent()}, {f32({1})}, {}, {}});
    cases.push_back({name + " before", Op::kNorm, {}, {x, scalar(7.0f)}, {f32({1})}, {}, {}});
    cases.push_back({name + " not finite", Op::kNorm, {}, {odd(x, 3.0f), absent()}, {f32({1})}, {}, {}});
    const auto accumulate = [&](const char* what, Tensor into, float keep, float take) {
      cases.push_back(
          {name + what, Op::kAccumulate, {}, {std::move(into), x, two(keep, take)}, {f32({n})}, {{0, 0}}, {}});
    };
    accumulate(" average", sum, 0.99f, 0.01f);
    accumulate(" first", odd(sum), 0.0f, 0.25f);  // what stood there before does not matter
    Attrs attrs;
    attrs.scale_a = -4.775f, attrs.scale_b = 2.0315f;
    cases.push_back({name, Op::kScaledAdd, attrs, {x, sum}, {f32({n})}, {}, {{0, 0}, {1, 0}}});
    attrs = {};
    attrs.momentum = 0.95f;
    for (const bool nesterov : {false, true}) {
      attrs.nesterov = nesterov;
      for (const Tensor& factor : {absent(), scalar(1.0f), scalar(0.075f), scalar(std::nanf(""))}) {
        cases.push_back({name, Op::kMuonDirection, attrs, {x, sum, factor}, {f32({n}), f32({n})}, {{1, 0}}, {}});
      }
    }
  }
  const Tensor zero = zeros(DType::kF32, {40, 3});
  cases.push_back({"zeros", Op::kMuonDirection, {}, {zero, zero}, {zero.shape, zero.shape}, {{1, 0}}, {}});
}

// The same over the rows of three ranks. `backward`, `forward`: the inputs on one.
void over_ranks(Cases& cases, const std::string& title, const Attrs& attrs, std::vector<Tensor> backward,
                std::vector<Tensor> forward) {
  const Shape y = forward[0].shape, channels = forward[1].shape;
  const std::int64_t c = channels.dims[0];
  const Shape own = f32({1, 2, c});
  cases.push_back({title, Op::kBatchNormStatistics, {}, {forward[0]}, {own}, {}, {}});
  cases.push_back({title, Op::kBatchNormGradientSums, attrs, backward, {own, channels, channels}, {}, {}});
  const Tensor beta = backward.back();
  backward.back() = random({3, 2, c}, 7);
  backward.push_back(beta);
  cases.push_back({title, Op::kBatchNormSynchronisedBackward, attrs, backward, {y}, {}, {}});
  forward.push_back(positive({3, 2, c}, 8));
  cases.push_back({title,
                   Op::kBatchNormSynchronised,
                   attrs,
                   forward,
                   {y, channels, channels, channels, channels},
                   {{3, 3}, {4, 4}},
                   {}});
}

void batch_norm(Cases& cases) {
  const auto one = [&](std::int64_t rows, std::int64_t c, const Tensor& x, const char* name) {
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6}) {
      Attrs attrs;
      attrs.activation = activation;
      const bool six = activation == Activation::kRelu6;
      const std::string title = fmt::format("[{},{}] {} {}", rows, c,
                                            six                               ? "relu6"
                                            : activation == Activation::kRelu ? "relu"
                                                                              : "",
                                            name);
      const Tensor gamma = six ? uniform({c}, 3.0f, 9.0f, 2) : positive({c}, 2), beta = random({c}, 3),
                   mean = random({c}, 4), variance = positive({c}, 5);
      const Shape y = f32({rows, c}), channels = f32({c});
      cases.push_back({title,
                       Op::kBatchNorm,
                       attrs,
                       {x, gamma, beta, mean, variance},
                       {y, channels, channels, channels, channels},
                       {{3, 3}, {4, 4}},
                       {}});
      cases.push_back({title, Op::kBatchNormInference, attrs, {x, gamma, beta, mean, variance}, {y}, {}, {}});
      cases.push_back(
          {title,
           Op::kBatchNormBackward,
           attrs,
           {x, random({rows, c}, 6), gamma, mean, variance, activation != Activation::kNone ? beta : absent()},
           {y, channels, channels},
           {},
           {}});
      over_ranks(cases, title, attrs, cases.back().inputs, cases[cases.size() - 3].inputs);
    }
  };
  for (const std::int64_t c : kWidths)
    for (const std::int64_t rows : {2, 65, 300}) one(rows, c, random({rows, c}, 1), "");
  // Just what the activation is bounded by, exact in any arithmetic: 0 and 6 let no gradient through.
  for (const Activation activation : {Activation::kRelu, Activation::kRelu6}) {
    Attrs attrs;
    attrs.activation = activation;
    const Tensor x = cut_off({300, 33}, 7), zero = zeros(DType::kF32, {33}), one_each = uniform({33}, 1.0f, 1.0f, 1);
    cases.push_back({activation == Activation::kRelu ? "bounds of relu" : "bounds of relu6",
                     Op::kBatchNormBackward,
                     attrs,
                     {x, random({300, 33}, 6), one_each, zero, one_each, zero},
                     {x.shape, f32({33}), f32({33})},
                     {},
                     {}});
  }
  one(0, 17, random({0, 17}, 1), "");
  one(1, 16, random({1, 16}, 1), "");
  one(5000, 32, random({5000, 32}, 1), "");
  one(300, 33, uniform({300, 33}, 1000.0f, 1002.0f, 1), "large mean");
  one(100, 40, odd(random({100, 40}, 1), 3.0f), "not finite");
}

void layer_norm(Cases& cases) {
  for (const std::int64_t d : kWidths)
    for (const std::int64_t rows : {0, 1, 3, 200}) {
      const Tensor x = rows == 3 ? odd(random({rows, d}, 1), 3.0f) : random({rows, d}, 1);
      const std::string name = fmt::format("[{},{}]", rows, d);
      cases.push_back({name,
                       Op::kLayerNorm,
                       {},
                       {x, random({d}, 2), random({d}, 3)},
                       {f32({rows, d}), f32({rows}), f32({rows})},
                       {},
                       {}});
      if (rows == 3) continue;
      cases.push_back({name,
                       Op::kLayerNormBackward,
                       {},
                       {x, random({rows, d}, 4), random({d}, 2), random({rows}, 5), positive({rows}, 6)},
                       {f32({rows, d}), f32({d}), f32({d})},
                       {},
                       {}});
    }
}

void pools(Cases& cases) {
  const std::vector<WindowCase> table = {
      {{2, 4, 4, 1}, 2, 2, 0},     {{1, 5, 7, 16}, 2, 2, 0}, {{3, 6, 6, 33}, 3, 2, 1},
      {{2, 7, 7, 65}, 3, 1, 1},    {{0, 4, 4, 8}, 2, 2, 0},  {{2, 1, 1, 17}, 1, 1, 0},
      {{40, 14, 14, 64}, 2, 2, 0}, {{2, 5, 5, 15}, 2, 3, 0}, {{1, 2, 2, 5}, 1, 1, 2}};
  for (const WindowCase& w : table) {
    const Dims y{w.x[0], windows(w.x[1], w), windows(w.x[2], w), w.x[3]};
    const Attrs attrs = window_attrs(w);
    const std::string name =
        fmt::format("{}x{}x{}x{} kernel {}/{} pad {}", w.x[0], w.x[1], w.x[2], w.x[3], w.kernel, w.stride, w.pad);
    const Tensor x = w.x[3] == 33 ? odd(random(w.x, 1)) : random(w.x, 1);
    const Case forward{name, Op::kMaxPool, attrs, {x}, {f32(y), shape_of(DType::kS32, y)}, {}, {}};
    cases.push_back(forward);
    cases.push_back({name + " no index", Op::kMaxPool, attrs, {x}, {f32(y)}, {}, {}});
    cases.push_back({name, Op::kMaxPoolBackward, attrs, {random(y, 2), output_of(forward, 1)}, {f32(w.x)}, {}, {}});
    for (const DType type : {DType::kU8, DType::kS8}) {
      const Tensor bytes = integers(type, w.x, type == DType::kS8 ? -128 : 0, type == DType::kS8 ? 127 : 255, 3);
      cases.push_back({name + name_of(type), Op::kMaxPool, attrs, {bytes}, {shape_of(type, y)}, {}, {}});
      Attrs scaled;
      scaled.scale_x = 0.02f;
      cases.push_back({name + name_of(type), Op::kAvgPool, scaled, {bytes}, {f32({w.x[0], w.x[3]})}, {}, {}});
    }
    cases.push_back({name, Op::kAvgPool, {}, {x}, {f32({w.x[0], w.x[3]})}, {}, {}});
    cases.push_back({name, Op::kAvgPoolBackward, {}, {random({w.x[0], w.x[3]}, 4)}, {f32(w.x)}, {}, {}});
  }
}

void embeddings(Cases& cases) {
  for (const std::int64_t d : {1, 16, 17, 64, 100})
    for (const std::int64_t n : {0, 1, 37, 600}) {
      const std::int64_t v = 29;
      const std::string name = fmt::format("{} ids of {}x{}", n, v, d);
      const Tensor ids = integers(DType::kS32, {n}, -1, static_cast<int>(v), 1);
      cases.push_back({name, Op::kEmbedding, {}, {ids, random({v, d}, 2)}, {f32({n, d})}, {}, {}});
      cases.push_back({name, Op::kEmbeddingBackward, {}, {ids, random({n, d}, 3)}, {f32({v, d})}, {}, {}});
      const std::int64_t b = 3, t = n == 600 ? 50 : n % 8, p = 54;
      for (const bool given : {false, true}) {
        const Tensor first = given ? integers(DType::kS32, {b}, 0, 10, 4) : absent();
        const std::string title = fmt::format("[{},{},{}] {}", b, t, d, given ? "from positions" : "");
        cases.push_back(
            {title, Op::kAddPositions, {}, {random({b, t, d}, 5), random({p, d}, 6), first}, {f32({b, t, d})}, {}, {}});
        cases.push_back({title, Op::kAddPositionsBackward, {}, {random({b, t, d}, 7), first}, {f32({p, d})}, {}, {}});
      }
    }
}

void linear(Cases& cases) {
  for (const auto& [rows, k, n] : std::vector<std::array<std::int64_t, 3>>{{0, 4, 4},
                                                                           {1, 1, 1},
                                                                           {1, 300, 17},
                                                                           {7, 16, 16},
                                                                           {13, 33, 65},
                                                                           {130, 600, 10},
                                                                           {66, 128, 130},
                                                                           {257, 64, 64}}) {
    const std::string name = fmt::format("{}x{} to {}", rows, k, n);
    const Tensor x = rows == 7 ? odd(random({rows, k}, 1)) : random({rows, k}, 1);
    const Tensor w = random({n, k}, 2), b = random({n}, 3), dy = random({rows, n}, 4);
    for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kRelu6}) {
      if (rows == 7 && activation != Activation::kNone) continue;  // max(NaN, 0) is the library's choice
      Attrs attrs;
      attrs.activation = activation;
      cases.push_back({name, Op::kLinear, attrs, {x, w, b}, {f32({rows, n})}, {}, {}});
      for (const DType from : {DType::kU8, DType::kS8})
        for (const DType to : {DType::kF32, DType::kU8, DType::kS8}) {
          const Tensor bytes =
              integers(from, {rows, k}, from == DType::kS8 ? -128 : 0, from == DType::kS8 ? 127 : 255, 5);
          cases.push_back({fmt::format("{} {} to {}", name, name_of(from), name_of(to)),
                           Op::kLinear,
                           quantized_attrs(attrs, to),
                           {bytes, integers(DType::kS8, {n, k}, -127, 127, 6), b, uniform({n}, 0.0005f, 0.002f, 7)},
                           {shape_of(to, {rows, n})},
                           {},
                           {},
                           true});
        }
    }
    cases.push_back({name + " no bias", Op::kLinear, {}, {x, w, absent()}, {f32({rows, n})}, {}, {}});
    cases.push_back({name, Op::kLinearBackwardData, {}, {dy, w}, {f32({rows, k})}, {}, {}});
    if (rows == 7) continue;
    cases.push_back({name, Op::kLinearBackwardWeights, {}, {x, dy}, {f32({n, k}), f32({n})}, {}, {}});
    cases.push_back({name + " no bias", Op::kLinearBackwardWeights, {}, {x, dy}, {f32({n, k})}, {}, {}});
  }
}

}  // namespace

Tensor output_of(const Case& forward, std::size_t output) {
  for (const Kernel& kernel : ref_kernels()) {
    Prepared prepared;
    std::string damage;
    if (kernel.op == forward.op && prepare_case(kernel, forward, prepared))
      return run_case(prepared.plan(), forward, {}, damage)[output];
  }
  return absent();
}

Tensor odd(Tensor tensor, float huge) {
  const float values[] = {std::nanf(""), kInf, -kInf, 1e-40f, -1e-40f, 0.0f, -0.0f, huge, -huge};
  const std::int64_t count = tensor.shape.count();
  std::int64_t at = 0;
  for (const float value : values) {
    if (at < count) tensor.data<float>()[at] = value;
    at += 1 + count / 10;
  }
  return tensor;
}

std::vector<Case> all_cases() {
  Cases cases;
  for (void (*add)(Cases&) :
       {pointwise, stochastic_depth, optimizers, gradients, gradient_scales, batch_norm, layer_norm, pools, losses,
        embeddings, linear, convolutions, residual_norms, in_half, in_groups, in_blocks, images, primitives})
    add(cases);
  add_sequence_cases(cases);
  return cases;
}

}  // namespace mlx::kernels::test
