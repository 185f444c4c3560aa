// Convolutions of few channels by AVX2 and AVX-512 against plain loops in double, at sizes that reach each of their
// paths: whole and part vectors of channels, blocks and single pixels, saturation, scales that overflow; and that the
// table takes them. What every kernel must hold (memory, NaN, sizes of 0) stands in test_every_kernel.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "harness.h"

namespace mlx::kernels::test {
namespace {

struct FirstConv {
  std::int64_t n, h, w, c, o, kernel, stride, pad;
  std::int64_t oh() const { return (h + 2 * pad - kernel) / stride + 1; }
  std::int64_t ow() const { return (w + 2 * pad - kernel) / stride + 1; }
};

const std::vector<FirstConv> kSizes = {
    {5, 28, 28, 1, 32, 3, 1, 1}, {1, 28, 28, 1, 10, 3, 1, 1}, {2, 9, 19, 3, 24, 3, 1, 1},  {2, 17, 15, 1, 16, 5, 1, 2},
    {3, 11, 13, 2, 64, 3, 2, 1}, {1, 16, 16, 3, 96, 3, 1, 1}, {1, 23, 23, 3, 48, 7, 2, 3}, {2, 5, 4, 4, 80, 2, 1, 0},
};

// Calls body(x, w, y) with the offsets of every product of the convolution.
template <typename Body>
void for_products(const FirstConv& s, Body body) {
  for (std::int64_t y = 0; y < s.n * s.oh() * s.ow(); ++y)
    for (std::int64_t kh = 0; kh < s.kernel; ++kh)
      for (std::int64_t kw = 0; kw < s.kernel; ++kw) {
        const std::int64_t n = y / (s.oh() * s.ow()), h = y / s.ow() % s.oh() * s.stride - s.pad + kh,
                           w = y % s.ow() * s.stride - s.pad + kw;
        if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
        for (std::int64_t o = 0; o < s.o; ++o)
          for (std::int64_t c = 0; c < s.c; ++c)
            body(((n * s.h + h) * s.w + w) * s.c + c, ((o * s.kernel + kh) * s.kernel + kw) * s.c + c, y * s.o + o);
      }
}

Case case_of(const FirstConv& s, Op op) {
  Case result;
  result.name = fmt::format("{}x{}x{}x{} to {}, kernel {}, stride {}", s.n, s.h, s.w, s.c, s.o, s.kernel, s.stride);
  result.op = op;
  result.attrs.kernel = {s.kernel, s.kernel};
  result.attrs.stride = {s.stride, s.stride};
  result.attrs.pad = {s.pad, s.pad, s.pad, s.pad};
  return result;
}

bool has(const char* backend) {
  try {
    parse_backend(backend);
    return true;
  } catch (const Error& error) {
    MESSAGE("skipped: " << error.message);
    return false;
  }
}
bool has_avx512() {
  return has("avx512");
}

// The outputs of the row that serves it; the same bits with slices in reverse and memory misaligned.
std::vector<Tensor> run(const Case& test, const std::vector<Kernel>& rows = avx512_kernels()) {
  CAPTURE(test.name);
  for (const Kernel& kernel : rows) {
    Prepared prepared;
    if (kernel.op != test.op || !prepare_case(kernel, test, prepared)) continue;
    std::string damage;
    const auto outputs = run_case(prepared.plan(), test, {}, damage);
    const auto again = run_case(prepared.plan(), test, {true, 4, false, '\x11'}, damage);
    CHECK(damage == "");
    for (std::size_t i = 0; i < outputs.size(); ++i)
      CHECK_MESSAGE(outputs[i].bytes == again[i].bytes, "other bits in another order");
    return outputs;
  }
  FAIL("no kernel serves this");
  return {};
}

void check_close(const Tensor& got, const std::vector<double>& want, double allowed) {
  double worst = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double apart = std::abs(got.data<float>()[i] - want[i]);
    worst = std::isnan(apart) ? std::numeric_limits<double>::infinity() : std::max(worst, apart);
  }
  CHECK(worst <= allowed);
}

// All at the end of the range where `extreme`: sums that 16 bits would not hold.
Tensor bytes_of(DType dtype, std::vector<std::int64_t> dims, bool extreme, std::uint64_t seed) {
  const int low = dtype == DType::kU8 ? 0 : -128, high = dtype == DType::kU8 ? 255 : 127;
  return extreme ? integers(dtype, std::move(dims), high, high, seed)
                 : integers(dtype, std::move(dims), low, high, seed);
}

void check_int8(const FirstConv& s, DType from, DType to, bool relu, bool extreme, float w_scale) {
  Case test = case_of(s, Op::kConv2d);
  test.attrs.scale_x = 0.02f;
  test.attrs.scale_y = to == DType::kF32 ? 1.0f : 0.3f;
  if (relu) test.attrs.activation = Activation::kRelu;
  const Tensor x = bytes_of(from, {s.n, s.h, s.w, s.c}, extreme, 1),
               w = bytes_of(DType::kS8, {s.o, s.kernel, s.kernel, s.c}, extreme, 2), b = uniform({s.o}, -1, 1, 3),
               scales = uniform({s.o}, 0.5f * w_scale, w_scale, 4);
  test.inputs = {x, w, b, scales};
  test.outputs = {shape_of(to, {s.n, s.oh(), s.ow(), s.o})};
  const Tensor got = run(test)[0];

  std::vector<std::int64_t> sums(static_cast<std::size_t>(test.outputs[0].count()));
  const auto source = [&](std::int64_t i) {
    return from == DType::kU8 ? int{x.data<std::uint8_t>()[i]} : int{x.data<std::int8_t>()[i]};
  };
  for_products(s, [&](auto i, auto j, auto k) { sums[k] += std::int64_t{source(i)} * w.data<std::int8_t>()[j]; });
  int wrong = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const std::size_t o = i % static_cast<std::size_t>(s.o);
    double real = static_cast<double>(sums[i]) * test.attrs.scale_x * scales.data<float>()[o] + b.data<float>()[o];
    if (relu) real = std::max(real, 0.0);
    if (to == DType::kF32) {
      wrong += !(std::abs(got.data<float>()[i] - real) <= 1e-6 * std::abs(real) + 1e-6);
      continue;
    }
    // What lies within a few roundings of a tie may go either way.
    const double low = to == DType::kU8 ? 0.0 : -128.0, high = to == DType::kU8 ? 255.0 : 127.0;
    const double step = real / test.attrs.scale_y;
    const double a = std::nearbyint(std::clamp(step - 1e-3, low, high)),
                 z = std::nearbyint(std::clamp(step + 1e-3, low, high));
    const int value = to == DType::kU8 ? int{got.data<std::uint8_t>()[i]} : int{got.data<std::int8_t>()[i]};
    wrong += value != a && value != z;
  }
  CAPTURE(test.name);
  CAPTURE(std::string(name_of(from)));
  CAPTURE(std::string(name_of(to)));
  CHECK(wrong == 0);
}

}  // namespace

static void check_f32(const std::vector<Kernel>& rows) {
  for (const FirstConv& s : kSizes) {
    const std::vector<std::int64_t> xs{s.n, s.h, s.w, s.c}, ws{s.o, s.kernel, s.kernel, s.c},
        ys{s.n, s.oh(), s.ow(), s.o};
    const Tensor x = uniform(xs, -1, 1, 1), w = uniform(ws, -1, 1, 2), b = uniform({s.o}, -1, 1, 3),
                 dy = uniform(ys, -1, 1, 4);
    const std::size_t count = static_cast<std::size_t>(dy.shape.count()), channels = static_cast<std::size_t>(s.o);
    std::vector<double> y(count), dw(static_cast<std::size_t>(w.shape.count())), db(channels);
    for (std::size_t i = 0; i < count; ++i) {
      y[i] = b.data<float>()[i % channels];
      db[i % channels] += dy.data<float>()[i];
    }
    for_products(s, [&](auto i, auto j, auto k) {
      y[k] += double{x.data<float>()[i]} * w.data<float>()[j];
      dw[j] += double{x.data<float>()[i]} * dy.data<float>()[k];
    });
    for (double& value : y) value = std::max(value, 0.0);

    Case forward = case_of(s, Op::kConv2d);
    forward.attrs.activation = Activation::kRelu;
    forward.inputs = {x, w, b};
    forward.outputs = {dy.shape};
    check_close(run(forward, rows)[0], y, 4e-7 * static_cast<double>(s.kernel * s.kernel * s.c + 8));

    Case backward = case_of(s, Op::kConv2dBackwardWeights);
    backward.inputs = {x, dy};
    backward.outputs = {w.shape, b.shape};
    const double allowed = 4e-7 * static_cast<double>(s.n * s.oh() * s.ow() + 8);
    const auto both = run(backward, rows);
    check_close(both[0], dw, allowed);
    check_close(both[1], db, allowed);
  }
}

TEST_CASE("first convolution: f32 forward and gradients agree with plain loops") {
  if (has("avx2")) check_f32(avx2_kernels());
  if (has_avx512()) check_f32(avx512_kernels());
}

TEST_CASE("first convolution: int8 sums are exact, results saturate") {
  if (!has_avx512()) return;
  for (const FirstConv& s : kSizes)
    for (const DType from : {DType::kU8, DType::kS8})
      for (const DType to : {DType::kF32, DType::kU8, DType::kS8}) {
        check_int8(s, from, to, true, false, 0.01f);
        check_int8(s, from, to, false, false, 0.01f);
        check_int8(s, from, to, false, true, 0.01f);
        check_int8(s, from, to, false, false, 1e9f);  // far beyond what converts to 32 bits
      }
}

TEST_CASE("first convolution: the table uses it if it is faster") {
  if (!has_avx512()) return;
  const auto chosen = [](std::int64_t c, std::int64_t o) {
    Attrs attrs;
    attrs.kernel = {3, 3};
    const std::vector<Shape> in = {shape_of(DType::kF32, {1, 8, 8, c}), shape_of(DType::kF32, {o, 3, 3, c})};
    const Shape out = shape_of(DType::kF32, {1, 6, 6, o});
    return std::string(prepare({Op::kConv2d, attrs, 2, 1, in.data(), &out, nullptr}, best_backend()).kernels());
  };
  CHECK(chosen(1, 32) == "avx512");
  CHECK(chosen(3, 16) == "avx512");
  if (best_backend() == backend_named("onednn")) CHECK(chosen(32, 32) == "onednn");
}

}  // namespace mlx::kernels::test
