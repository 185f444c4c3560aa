// GPTQ: the integers of a reference in numpy, less error of the output than rounding to the nearest, the same bits for
// any number of threads and on all portable kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "compress/gptq.h"
#include "compress/products.h"
#include "gptq_reference.h"

namespace mlx {
namespace {

using compress::Groups;
using compress::RoundedLayer;
using namespace mlx::test;

// As in gptq_check.py.
float noise_at(std::int64_t i) {
  const auto bits = static_cast<std::uint32_t>(static_cast<std::uint64_t>(i) * 2654435761u);
  return static_cast<float>(bits >> 8) / 0x1p24f - 0.5f;
}

std::shared_ptr<const graph::Weight> weights_of(std::int64_t outputs, std::int64_t inputs) {
  graph::Tensor w;
  w.shape.rank = 2;
  w.shape.dims[0] = outputs, w.shape.dims[1] = inputs;
  w.data.resize(w.shape.bytes());
  auto* const to = reinterpret_cast<float*>(w.data.data());
  for (std::int64_t i = 0; i < w.shape.count(); ++i) to[i] = noise_at(7 + i);
  return compress::share(std::move(w));
}

std::shared_ptr<const graph::Weight> reference_weights() {
  return weights_of(kReferenceOutputs, kReferenceInputs);
}

std::vector<float> activations_of(std::int64_t tokens, std::int64_t inputs) {
  std::vector<float> x;
  for (std::int64_t t = 0; t < tokens; ++t) {
    float last = 0;
    for (std::int64_t k = 0; k < inputs; ++k) {
      last = 0.75f * last + noise_at(100003 + t * inputs + k);
      x.push_back(last * (k % 11 == 0 ? 8.0f : 1.0f));
    }
  }
  return x;
}

std::vector<double> hessian_of(const std::vector<float>& x, std::int64_t inputs) {
  std::vector<double> h(static_cast<std::size_t>(inputs * inputs), 0.0);
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(inputs))
    for (std::int64_t i = 0; i < inputs; ++i)
      for (std::int64_t j = 0; j < inputs; ++j)
        h[static_cast<std::size_t>(i * inputs + j)] += static_cast<double>(x[row + static_cast<std::size_t>(i)]) *
                                                       static_cast<double>(x[row + static_cast<std::size_t>(j)]);
  return h;
}

std::vector<float> importance_of(const std::vector<double>& h, std::int64_t inputs, std::int64_t rows) {
  double mean = 0;
  for (std::int64_t i = 0; i < inputs; ++i)
    mean += h[static_cast<std::size_t>(i * (inputs + 1))] / static_cast<double>(inputs);
  std::vector<float> out;
  for (std::int64_t i = 0; i < inputs; ++i)
    out.push_back(
        static_cast<float>((h[static_cast<std::size_t>(i * (inputs + 1))] + 0.01 * mean) / static_cast<double>(rows)));
  return out;
}

RoundedLayer by_gptq(int bits, int threads) {
  Pool pool(threads);
  const std::vector<double> h = hessian_of(activations_of(kReferenceTokens, kReferenceInputs), kReferenceInputs);
  return compress::gptq(*reference_weights(), "w", compress::inverse_factor(h, compress::kDampening, pool),
                        importance_of(h, kReferenceInputs, kReferenceTokens), {{bits, kReferenceGroup}}, pool);
}

int integer_at(const RoundedLayer& layer, std::size_t i) {
  if (layer.bits == 8) return static_cast<std::int8_t>(layer.weights.data[i]);
  const int pair = layer.weights.data[i / 2];
  return (i % 2 == 0 ? pair & 15 : pair >> 4) - 8;
}

double error_of(RoundedLayer layer, const std::vector<float>& x, const std::shared_ptr<const graph::Weight>& weights) {
  Pool pool(2);
  const compress::Engine engine{kernels::backend_named("ref"), pool};
  return compress::relative_error(compress::product(x, weights, engine),
                                  compress::product(x, compress::share(std::move(layer)), engine));
}
double error_of(RoundedLayer layer) {
  return error_of(std::move(layer), activations_of(kReferenceTokens, kReferenceInputs), reference_weights());
}

}  // namespace

TEST_CASE("gptq: the integers of the paper's algorithm in numpy") {
  for (const int bits : {4, 8}) {
    CAPTURE(bits);
    const std::int8_t* const expected = bits == 4 ? kReference4 : kReference8;
    const RoundedLayer layer = by_gptq(bits, 2);
    std::int64_t other = 0;
    for (std::size_t i = 0; i < std::size_t{kReferenceOutputs} * kReferenceInputs; ++i)
      other += integer_at(layer, i) != int{expected[i]};
    CHECK(other == 0);
  }
}

TEST_CASE("gptq: in blocks the output loses less too, and what data count for is a gain without it") {
  constexpr std::int64_t kOutputs = 20, kInputs = 512, kTokens = 700;
  const std::vector<float> x = activations_of(kTokens, kInputs);
  const auto weights = weights_of(kOutputs, kInputs);
  const std::vector<double> h = hessian_of(x, kInputs);
  const std::vector<float> importance = importance_of(h, kInputs, kTokens);
  Pool one(1), three(3);
  const compress::InverseFactor factor = compress::inverse_factor(h, compress::kDampening, three);
  for (const char* const name : {"Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q5_0", "Q5_1"}) {
    CAPTURE(std::string(name));
    compress::WeightType type;
    for (std::int64_t number = 2; number < 15; ++number)
      if (const auto* blocks = kernels::find_block_type(number); blocks && std::string_view(blocks->name) == name)
        type.blocks = blocks;
    const double plain = error_of(compress::round_as(type, *weights, "w", three), x, weights);
    const double counted = error_of(compress::round_as(type, *weights, "w", three, importance), x, weights);
    const RoundedLayer layer = compress::gptq(*weights, "w", factor, importance, type, three);
    CHECK(layer.weights.data == compress::gptq(*weights, "w", factor, importance, type, one).weights.data);
    const double ours = error_of(layer, x, weights);
    MESSAGE(std::string(name) << ": " << plain << " to the nearest, " << counted << " with what data say, " << ours);
    CHECK(counted < plain);
    CHECK(ours < 0.95 * counted);
  }
}

TEST_CASE("gptq: the output loses less than by rounding to the nearest; the threads change nothing") {
  for (const int bits : {4, 8}) {
    CAPTURE(bits);
    const RoundedLayer one = by_gptq(bits, 1), three = by_gptq(bits, 3);
    CHECK(one.weights.data == three.weights.data);
    CHECK(one.scales.data == three.scales.data);
    Pool pool(2);
    const double nearest = error_of(compress::round_layer(*reference_weights(), "w", {bits, kReferenceGroup}, pool));
    const double ours = error_of(one);
    MESSAGE(bits << " bits: " << nearest << " to the nearest, " << ours);
    // Of eight bits most of the error is that of the activations, which are rounded too.
    CHECK(ours < (bits == 4 ? 0.6 : 1.01) * nearest);
  }
}

TEST_CASE("gptq: the Hessian of portable kernels is that of double, with the same bits on all of them") {
  const std::vector<float> x = activations_of(kReferenceTokens, kReferenceInputs);
  const std::vector<double> exact = hessian_of(x, kReferenceInputs);
  std::vector<std::vector<double>> all;
  for (const char* const name : {"avx2", "avx512"}) {
    const kernels::Backend backend = kernels::backend_named(name);
    if (!kernels::problem_of(backend).empty()) continue;
    for (const int threads : {1, 3}) {
      Pool pool(threads);
      compress::Hessian hessian(kReferenceInputs, backend, pool);
      const std::size_t half = x.size() / 2;
      hessian.add(std::span(x).first(half));
      hessian.add(std::span(x).subspan(half));
      all.emplace_back(hessian.sums().begin(), hessian.sums().end());
    }
  }
  for (const std::vector<double>& sums : all) {
    CHECK(sums == all[0]);
    double worst = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) worst = std::max(worst, std::fabs(sums[i] - exact[i]));
    CHECK(worst < 1e-4 * exact[0]);
  }
}

TEST_CASE("gptq: inputs that never vary, and activations that are not finite") {
  Pool pool(2);
  constexpr std::int64_t kInputs = 64;
  std::vector<double> h(kInputs * kInputs, 0.0);
  // Nothing comes in: rounded to the nearest.
  const compress::InverseFactor none = compress::inverse_factor(h, compress::kDampening, pool);
  for (std::int64_t i = 0; i < kInputs; ++i) CHECK(none.order[static_cast<std::size_t>(i)] == i);
  // All inputs the same: not positive definite but for what is added.
  std::ranges::fill(h, 4.0);
  const compress::InverseFactor same = compress::inverse_factor(h, compress::kDampening, pool);
  CHECK(std::ranges::all_of(same.upper, [](double each) { return std::isfinite(each); }));
  h[5] = h[5 * kInputs] = std::nan("");
  CHECK_THROWS_WITH_AS(compress::inverse_factor(h, compress::kDampening, pool), doctest::Contains("not finite"), Error);
  h[0] = INFINITY;
  CHECK_THROWS_WITH_AS(compress::inverse_factor(h, compress::kDampening, pool), doctest::Contains("not finite"), Error);
}

}  // namespace mlx
