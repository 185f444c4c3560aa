// oneDNN's kernels against plain loops in double: linear and convolution, forward and backward, f32 and quantized. A
// linear problem is a convolution of 1×1 images here, so that one oracle serves. Every problem is also run with its
// slices in reverse order and by two threads, which must give the same bits. What ref and the other backends share is
// tested elsewhere.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/backend_row.h"
#include "kernels/philox.h"

using namespace mlx::kernels;

namespace {

struct ConvSizes {
  std::int64_t n, h, w, c, o;
  std::int64_t kernel = 3, stride = 1, pad = 1, groups = 1;
  std::int64_t oh() const { return (h + 2 * pad - kernel) / stride + 1; }
  std::int64_t ow() const { return (w + 2 * pad - kernel) / stride + 1; }
};

ConvSizes linear(std::int64_t rows, std::int64_t k, std::int64_t n) {
  return {rows, 1, 1, k, n, 1, 1, 0, 1};
}

std::string text(const ConvSizes& s) {
  return fmt::format("{}x{}x{}x{} to {}, kernel {}, stride {}, groups {}", s.n, s.h, s.w, s.c, s.o, s.kernel, s.stride,
                     s.groups);
}

// Calls body(x, w, y) with the offsets of every product of the convolution.
template <typename Body>
void for_products(const ConvSizes& s, Body body) {
  const std::int64_t cg = s.c / s.groups, og = s.o / s.groups;
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t oy = 0; oy < s.oh(); ++oy)
      for (std::int64_t ox = 0; ox < s.ow(); ++ox)
        for (std::int64_t ky = 0; ky < s.kernel; ++ky)
          for (std::int64_t kx = 0; kx < s.kernel; ++kx) {
            const std::int64_t iy = oy * s.stride - s.pad + ky, ix = ox * s.stride - s.pad + kx;
            if (iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) continue;
            const std::int64_t x = ((n * s.h + iy) * s.w + ix) * s.c, y = ((n * s.oh() + oy) * s.ow() + ox) * s.o;
            for (std::int64_t o = 0; o < s.o; ++o)
              for (std::int64_t c = 0; c < cg; ++c)
                body(x + o / og * cg + c, ((o * s.kernel + ky) * s.kernel + kx) * cg + c, y + o);
          }
}

struct Case {
  Op op;
  ConvSizes sizes;
  bool is_linear = false;
  Activation activation = Activation::kNone;
};

Shape shape(DType dtype, std::initializer_list<std::int64_t> dims) {
  Shape result;
  result.dtype = dtype;
  for (const std::int64_t dim : dims) result.dims[static_cast<std::size_t>(result.rank++)] = dim;
  return result;
}
Shape x_shape(const Case& c, DType dtype) {
  const ConvSizes& s = c.sizes;
  return c.is_linear ? shape(dtype, {s.n, s.c}) : shape(dtype, {s.n, s.h, s.w, s.c});
}
Shape w_shape(const Case& c, DType dtype) {
  const ConvSizes& s = c.sizes;
  return c.is_linear ? shape(dtype, {s.o, s.c}) : shape(dtype, {s.o, s.kernel, s.kernel, s.c / s.groups});
}
Shape y_shape(const Case& c, DType dtype) {
  const ConvSizes& s = c.sizes;
  return c.is_linear ? shape(dtype, {s.n, s.o}) : shape(dtype, {s.n, s.oh(), s.ow(), s.o});
}

// 64-byte aligned bytes between two canaries.
class Bytes {
 public:
  explicit Bytes(std::size_t size) : size_(size), storage_(size + 256, 0xA5) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    begin_ = storage_.data() + 64 + (64 - address % 64) % 64;
  }
  void* data() { return begin_; }
  std::size_t size() const { return size_; }
  bool intact() const {
    return std::all_of(begin_ - 64, begin_, [](auto b) { return b == 0xA5; }) &&
           std::all_of(begin_ + size_, begin_ + size_ + 64, [](auto b) { return b == 0xA5; });
  }
  bool operator==(const Bytes& other) const {
    return size_ == other.size_ && std::memcmp(begin_, other.begin_, size_) == 0;
  }

 private:
  std::size_t size_;
  std::vector<unsigned char> storage_;
  unsigned char* begin_ = nullptr;
};

enum class Order { kForward, kReverse, kTwoThreads };

void run_phase(const Plan& plan, const Args& args, int phase, Order order) {
  const int slices = plan.slices[static_cast<std::size_t>(phase)];
  const auto every_second = [&](int first) {
    for (int i = first; i < slices; i += 2) plan.run(plan.state, args, phase, i);
  };
  switch (order) {
    case Order::kForward:
      for (int i = 0; i < slices; ++i) plan.run(plan.state, args, phase, i);
      break;
    case Order::kReverse:
      for (int i = slices - 1; i >= 0; --i) plan.run(plan.state, args, phase, i);
      break;
    case Order::kTwoThreads: {
      std::thread other([&] { every_second(1); });
      every_second(0);
      other.join();
    }
  }
}

struct Tensor {
  Shape shape;
  const void* data;
};

// Runs the problem in all three orders, checks that they agree to the bit, and returns the outputs. `slices` gets those
// of the first phase.
std::vector<std::unique_ptr<Bytes>> run(const Case& c, Attrs attrs, const std::vector<Tensor>& inputs,
                                        const std::vector<Shape>& outputs, bool constants, int* slices = nullptr) {
  std::vector<Shape> shapes;
  std::vector<const void*> data;
  for (const Tensor& input : inputs) {
    shapes.push_back(input.shape);
    data.push_back(input.data);
  }
  attrs.activation = c.activation;
  attrs.groups = c.sizes.groups;
  attrs.kernel = {c.sizes.kernel, c.sizes.kernel};
  attrs.stride = {c.sizes.stride, c.sizes.stride};
  attrs.pad = {c.sizes.pad, c.sizes.pad, c.sizes.pad, c.sizes.pad};
  Problem problem{c.op,          attrs,          static_cast<int>(shapes.size()),  static_cast<int>(outputs.size()),
                  shapes.data(), outputs.data(), constants ? data.data() : nullptr};
  Plan plan;
  bool served = false;
  for (const Kernel& kernel : onednn_kernels()) {
    if (kernel.op == c.op && !served) served = kernel.prepare(problem, plan);
  }
  const Prepared owner(plan, "onednn");
  REQUIRE_MESSAGE(served, "oneDNN does not serve this problem");
  if (slices) *slices = plan.slices[0];

  Bytes packed(plan.packed_bytes);
  if (plan.packed_input >= 0)
    plan.pack(plan.state, data[static_cast<std::size_t>(plan.packed_input)], nullptr, packed.data());
  std::vector<std::unique_ptr<Bytes>> first;
  for (const Order order : {Order::kForward, Order::kReverse, Order::kTwoThreads}) {
    Bytes workspace(plan.workspace_bytes);
    std::vector<std::unique_ptr<Bytes>> results;
    std::vector<void*> pointers;
    for (const Shape& output : outputs) {
      std::size_t bytes = static_cast<std::size_t>(output.count());
      if (output.dtype == DType::kF32) bytes *= sizeof(float);
      results.push_back(std::make_unique<Bytes>(bytes));
      pointers.push_back(results.back()->data());
    }
    Args args;
    args.inputs = data.data();
    args.outputs = pointers.data();
    args.workspace = workspace.data();
    args.packed = packed.data();
    for (int phase = 0; phase < plan.phases; ++phase) run_phase(plan, args, phase, order);
    CHECK(workspace.intact());
    CHECK(packed.intact());
    for (const auto& result : results) CHECK(result->intact());
    if (first.empty()) {
      first = std::move(results);
    } else {
      for (std::size_t i = 0; i < first.size(); ++i)
        CHECK_MESSAGE(*first[i] == *results[i], "other bits in another order");
    }
  }
  return first;
}

std::vector<float> random_floats(std::int64_t count, std::uint64_t stream) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_unit(random_u32(7, stream, 0, i)) * 2.0f - 1.0f;
  return values;
}

template <typename T>
std::vector<T> random_integers(std::int64_t count, std::uint64_t stream, int low, int high) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        static_cast<T>(low + static_cast<int>(random_u32(7, stream, 0, i) % static_cast<unsigned>(high - low + 1)));
  return values;
}

double activate(Activation activation, double v) {
  if (activation == Activation::kRelu) return std::max(v, 0.0);
  if (activation == Activation::kGelu)
    return 0.5 * v * (1.0 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  return v;
}

// Single precision sums of `terms` products of numbers up to 1 stay within a few roundings of their size.
void check_close(Bytes& got, const std::vector<double>& want, double terms) {
  const float* values = static_cast<const float*>(got.data());
  double worst = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::abs(values[i] - want[i]) + (std::isnan(values[i]) ? 1e9 : 0.0));
  CHECK(worst <= 4e-7 * (terms + 8.0));
}

void check_forward(const Case& c, bool with_bias) {
  const ConvSizes& s = c.sizes;
  const Shape x = x_shape(c, DType::kF32), w = w_shape(c, DType::kF32), y = y_shape(c, DType::kF32);
  const auto xs = random_floats(x.count(), 1), ws = random_floats(w.count(), 2), bs = random_floats(s.o, 3);
  std::vector<double> want(static_cast<std::size_t>(y.count()));
  for_products(s, [&](auto i, auto j, auto k) { want[static_cast<std::size_t>(k)] += double{xs[i]} * ws[j]; });
  for (std::size_t i = 0; i < want.size(); ++i)
    want[i] = activate(c.activation, want[i] + (with_bias ? bs[i % s.o] : 0.0));
  Shape b = shape(DType::kF32, {s.o});
  if (!with_bias) b.rank = -1;
  const auto got = run(c, {}, {{x, xs.data()}, {w, ws.data()}, {b, with_bias ? bs.data() : nullptr}}, {y}, false);
  check_close(*got[0], want, static_cast<double>(s.c / s.groups * s.kernel * s.kernel));
}

void check_backward(Op data_op, Op weights_op, Case c) {
  const ConvSizes& s = c.sizes;
  const Shape x = x_shape(c, DType::kF32), w = w_shape(c, DType::kF32), y = y_shape(c, DType::kF32);
  const auto xs = random_floats(x.count(), 1), ws = random_floats(w.count(), 2), dys = random_floats(y.count(), 3);
  std::vector<double> dx(static_cast<std::size_t>(x.count())), dw(static_cast<std::size_t>(w.count())),
      db(static_cast<std::size_t>(s.o));
  for_products(s, [&](auto i, auto j, auto k) {
    dx[static_cast<std::size_t>(i)] += double{dys[k]} * ws[j];
    dw[static_cast<std::size_t>(j)] += double{dys[k]} * xs[i];
  });
  for (std::size_t i = 0; i < dys.size(); ++i) db[i % s.o] += dys[i];
  const double taps = static_cast<double>(s.kernel * s.kernel), positions = static_cast<double>(s.n * s.oh() * s.ow());

  c.op = data_op;
  check_close(*run(c, {}, {{y, dys.data()}, {w, ws.data()}}, {x}, false)[0], dx, static_cast<double>(s.o) * taps);
  c.op = weights_op;
  const auto both = run(c, {}, {{x, xs.data()}, {y, dys.data()}}, {w, shape(DType::kF32, {s.o})}, false);
  check_close(*both[0], dw, positions);
  check_close(*both[1], db, positions);
  check_close(*run(c, {}, {{x, xs.data()}, {y, dys.data()}}, {w}, false)[0], dw, positions);
}

// The stored integer that a real value rounds to; what lies within 0.001 of a tie may go either way.
void check_integers(const void* got, DType dtype, const std::vector<double>& want) {
  const double low = dtype == DType::kU8 ? 0.0 : -128.0, high = dtype == DType::kU8 ? 255.0 : 127.0;
  int wrong = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const int value = dtype == DType::kU8 ? int{static_cast<const std::uint8_t*>(got)[i]}
                                          : int{static_cast<const std::int8_t*>(got)[i]};
    const double a = std::nearbyint(std::clamp(want[i] - 1e-3, low, high)),
                 b = std::nearbyint(std::clamp(want[i] + 1e-3, low, high));
    wrong += value != a && value != b;
  }
  CHECK(wrong == 0);
}

// `extreme`: inputs and weights at the ends of their ranges, where instructions that add pairs in 16 bits would
// saturate.
template <typename T>
void check_quantized(const Case& c, DType y_type, bool with_bias, bool extreme = false, int* slices = nullptr) {
  const ConvSizes& s = c.sizes;
  const bool is_unsigned = std::is_same_v<T, std::uint8_t>;
  const Shape x = x_shape(c, is_unsigned ? DType::kU8 : DType::kS8), w = w_shape(c, DType::kS8), y = y_shape(c, y_type);
  auto xs = random_integers<T>(x.count(), 1, is_unsigned ? 0 : -128, is_unsigned ? 255 : 127);
  auto ws = random_integers<std::int8_t>(w.count(), 2, -127, 127);
  if (extreme) {
    for (auto& v : xs) v = static_cast<T>(is_unsigned ? 255 : -128);
    for (std::size_t i = 0; i < ws.size(); ++i)
      ws[i] = static_cast<std::int8_t>((i / (ws.size() / s.o)) % 2 ? -127 : 127);
  }
  auto bs = random_floats(s.o, 3), w_scales = random_floats(s.o, 4);
  for (float& scale : w_scales) scale = 0.01f * (1.5f + scale);
  const double terms = static_cast<double>(s.c / s.groups * s.kernel * s.kernel);
  Attrs attrs;
  attrs.scale_x = 0.02f;
  attrs.scale_y = y_type == DType::kF32 ? 1.0f : static_cast<float>((extreme ? 0.5 * terms : std::sqrt(terms)) * 0.02);

  std::vector<std::int64_t> sums(static_cast<std::size_t>(y.count()));
  for_products(s, [&](auto i, auto j, auto k) { sums[static_cast<std::size_t>(k)] += std::int64_t{xs[i]} * ws[j]; });
  std::vector<double> want(sums.size());
  double largest = 1.0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t o = i % s.o;
    const double real = static_cast<double>(sums[i]) * attrs.scale_x * w_scales[o] + (with_bias ? bs[o] : 0.0);
    want[i] = activate(c.activation, real) / attrs.scale_y;
    largest = std::max(largest, std::abs(want[i]));
  }
  Shape b = shape(DType::kF32, {s.o});
  if (!with_bias) b.rank = -1;
  const auto got = run(c, attrs,
                       {{x, xs.data()},
                        {w, ws.data()},
                        {b, with_bias ? bs.data() : nullptr},
                        {shape(DType::kF32, {s.o}), w_scales.data()}},
                       {y}, true, slices);
  if (y_type == DType::kF32)
    check_close(*got[0], want, 4.0 * largest);  // a few roundings of the result; the sums are exact
  else
    check_integers(got[0]->data(), y_type, want);
}

const std::vector<ConvSizes> kProducts{linear(1, 1, 1),      linear(1, 37, 10),     linear(7, 64, 65),
                                       linear(100, 129, 31), linear(128, 300, 128), linear(150, 40, 700)};

const std::vector<ConvSizes> kConvolutions{
    {1, 5, 5, 4, 3},                // one image, few channels
    {3, 9, 7, 16, 20},              // channels that fill no vector
    {10, 14, 14, 32, 32},           // an uneven last slice
    {11, 8, 8, 24, 48, 3, 2},       // stride
    {9, 6, 6, 32, 64, 1, 1, 0},     // 1×1
    {2, 12, 12, 3, 16, 5, 1, 2},    // as for RGB
    {5, 8, 8, 32, 32, 3, 1, 1, 2},  // groups
};

}  // namespace

TEST_CASE("oneDNN linear forward agrees with plain loops") {
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
    for (const ConvSizes& sizes : kProducts) {
      CAPTURE(text(sizes));
      for (const bool bias : {false, true}) check_forward({Op::kLinear, sizes, true, activation}, bias);
    }
  }
}

TEST_CASE("oneDNN linear gradients agree with plain loops") {
  for (const ConvSizes& sizes : kProducts) {
    CAPTURE(text(sizes));
    check_backward(Op::kLinearBackwardData, Op::kLinearBackwardWeights, {Op::kLinear, sizes, true});
  }
}

TEST_CASE("oneDNN convolution agrees with plain loops") {
  for (const ConvSizes& sizes : kConvolutions) {
    CAPTURE(text(sizes));
    check_forward({Op::kConv2d, sizes, false, Activation::kRelu}, true);
    check_forward({Op::kConv2d, sizes, false, Activation::kNone}, false);
  }
}

TEST_CASE("oneDNN convolution gradients agree with plain loops") {
  for (const ConvSizes& sizes : kConvolutions) {
    CAPTURE(text(sizes));
    check_backward(Op::kConv2dBackwardData, Op::kConv2dBackwardWeights, {Op::kConv2d, sizes});
  }
}

// bug: without VNNI sums of bytes saturated, and a quantized model gave other answers: oneDNN is not asked there.
bool multiplies_bytes() {
  if (__builtin_cpu_supports("avx512vnni")) return true;
  MESSAGE("skipped: this CPU lacks AVX512_VNNI");
  return false;
}

TEST_CASE("oneDNN int8 linear is exact up to ties") {
  if (!multiplies_bytes()) return;
  for (const ConvSizes& sizes : kProducts) {
    CAPTURE(text(sizes));
    const Case relu{Op::kLinear, sizes, true, Activation::kRelu}, none{Op::kLinear, sizes, true};
    for (const DType y : {DType::kF32, DType::kU8, DType::kS8}) {
      CAPTURE(std::string(name_of(y)));
      check_quantized<std::uint8_t>(relu, y, true);
      check_quantized<std::int8_t>(none, y, true);
      check_quantized<std::int8_t>(relu, y, false);
    }
    check_quantized<std::int8_t>({Op::kLinear, sizes, true, Activation::kGelu}, DType::kS8, true);
    check_quantized<std::uint8_t>(none, DType::kF32, true, true);
    check_quantized<std::int8_t>(none, DType::kS8, false, true);
  }
}

TEST_CASE("oneDNN int8 convolution is exact up to ties") {
  if (!multiplies_bytes()) return;
  for (const ConvSizes& sizes : kConvolutions) {
    CAPTURE(text(sizes));
    const Case relu{Op::kConv2d, sizes, false, Activation::kRelu}, none{Op::kConv2d, sizes};
    for (const DType y : {DType::kF32, DType::kU8, DType::kS8}) {
      CAPTURE(std::string(name_of(y)));
      check_quantized<std::uint8_t>(relu, y, true);
      check_quantized<std::int8_t>(none, y, true);
      check_quantized<std::int8_t>(relu, y, false);
    }
    check_quantized<std::uint8_t>(none, DType::kF32, true, true);
    check_quantized<std::int8_t>(none, DType::kS8, false, true);
  }
}

TEST_CASE("oneDNN int8 keeps one layout of weights when the last slice is shorter") {
  if (!multiplies_bytes()) return;
  int slices = 0;
  check_quantized<std::uint8_t>({Op::kConv2d, {65, 14, 14, 16, 32}, false, Activation::kRelu}, DType::kU8, true, false,
                                &slices);
  CHECK(slices > 1);
  CHECK(65 % slices != 0);
}

TEST_CASE("oneDNN starts no threads") {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  // A thread that was joined may stand there for a moment still.
  const auto become = [&](std::ptrdiff_t wanted) {
    for (int i = 0; i < 200 && threads() != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return threads();
  };
  const std::ptrdiff_t before = become(1);
  std::ptrdiff_t within = 0;
  std::thread fresh([&] {  // OpenMP keeps the helpers of a thread as long as that thread lives
    const Case conv{Op::kConv2d, {16, 14, 14, 32, 32}};
    check_forward(conv, true);
    check_backward(Op::kConv2dBackwardData, Op::kConv2dBackwardWeights, conv);
    within = become(before + 1);
  });
  fresh.join();
  CHECK(within == before + 1);
}

TEST_CASE("oneDNN declines quantized problems whose scales are unknown or unusable") {
  if (!multiplies_bytes()) return;
  const Shape x = shape(DType::kU8, {4, 16}), w = shape(DType::kS8, {8, 16}), b = shape(DType::kF32, {8}),
              y = shape(DType::kF32, {4, 8});
  const std::vector<Shape> inputs{x, w, b, b};
  const std::vector<std::int8_t> ws(128, 1);
  std::vector<float> bias(8, 0.5f), scales(8, 0.1f);
  std::vector<const void*> constants{nullptr, ws.data(), bias.data(), scales.data()};
  const auto serves = [&] {
    const Problem problem{Op::kLinear, {}, 4, 1, inputs.data(), &y, constants.data()};
    for (const Kernel& kernel : onednn_kernels()) {
      Plan plan;
      if (kernel.op != Op::kLinear) continue;
      const bool served = kernel.prepare(problem, plan);
      const Prepared owner(plan, "onednn");
      return served;
    }
    return false;
  };
  CHECK(serves());
  constants[3] = nullptr;
  CHECK_FALSE(serves());
  constants[3] = scales.data();
  constants[2] = nullptr;
  CHECK_FALSE(serves());
  constants[2] = bias.data();
  scales[5] = 0.0f;
  CHECK_FALSE(serves());
}
