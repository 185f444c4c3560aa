// Rounds groups, and packs them: four bits two a byte.

#include "compress/rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "graph/new_tensor.h"
#include "kernels/half.h"

namespace mlx::compress {
namespace {

using kernels::DType;
using kernels::F16;

float in_f16(double x) {
  return kernels::widen(kernels::to_f16(static_cast<float>(x)));
}

// To the nearest, of two the even one, within the bounds.
float rounded(float w, float inverse, int least, int most) {
  constexpr float kWhole = 0x1.8p23f;  // numbers of its size have no fraction
  const float near = std::clamp(w * inverse, static_cast<float>(least), static_cast<float>(most));
  return (near + kWhole) - kWhole;
}

// What remains of the squared error of `w` at the best scale for the integers that w · inverse rounds to: that is w·q /
// q·q, and takes (w·q)² / q·q away. With `importance` each product counts so many times.
struct Fit {
  double gain = 0, scale = 0;
};
Fit fit_of(std::span<const float> w, std::span<const float> importance, float inverse) {
  constexpr std::size_t kSums = 4;
  std::array<double, kSums> wq{}, qq{};  // groups are multiples of four
  for (std::size_t i = 0; i < w.size(); i += kSums)
    for (std::size_t j = 0; j < kSums; ++j) {
      const double q = rounded(w[i + j], inverse, least_of(4), most_of(4));
      const double counted = importance.empty() ? q : q * static_cast<double>(importance[i + j]);
      wq[j] += static_cast<double>(w[i + j]) * counted;
      qq[j] += q * counted;
    }
  const double product = (wq[0] + wq[1]) + (wq[2] + wq[3]), square = (qq[0] + qq[1]) + (qq[2] + qq[3]);
  return square > 0 ? Fit{product * product / square, product / square} : Fit{};
}

// The integer that the largest weight becomes is tried around -8, as that reaches further than 7.
float scale_of_4(std::span<const float> w, std::span<const float> importance, float largest) {
  constexpr int kTries = 8;
  Fit best;
  for (int i = -kTries; i <= kTries; ++i) {
    const Fit fit = fit_of(w, importance, (static_cast<float>(least_of(4)) + 0.1f * static_cast<float>(i)) / largest);
    if (fit.gain > best.gain) best = fit;
  }
  return in_f16(best.scale);
}

}  // namespace

float scale_of_group(std::span<const float> w, std::span<const float> importance, int bits) {
  const auto larger = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
  const float largest = *std::ranges::max_element(w, larger);
  if (!std::ranges::all_of(w, [](float x) { return std::isfinite(x); })) return std::nanf("");
  if (largest == 0) return 0;
  return bits == 4 ? scale_of_4(w, importance, largest) : in_f16(std::fabs(largest) / static_cast<float>(most_of(8)));
}

float round_group(std::span<const float> w, int bits, std::span<std::int8_t> q, std::span<const float> importance) {
  const float scale = scale_of_group(w, importance, bits);
  if (std::isnan(scale)) return scale;
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  for (std::size_t i = 0; i < w.size(); ++i)
    q[i] = static_cast<std::int8_t>(rounded(w[i], inverse, least_of(bits), most_of(bits)));
  return scale;
}

std::shared_ptr<const graph::Weight> share(graph::Tensor tensor) {
  auto bytes = std::make_shared<const Bytes>(std::move(tensor.data));
  return std::make_shared<const graph::Weight>(tensor.shape, *bytes, graph::Backing{bytes});
}

SharedLayer share(RoundedLayer layer) {
  return {layer.bits, layer.blocks, layer.outputs, share(std::move(layer.weights)),
          layer.blocks ? nullptr : share(std::move(layer.scales))};
}

RoundedLayer empty_layer(std::int64_t outputs, std::int64_t inputs, const Groups& groups) {
  CHECK((groups.bits == 4 || groups.bits == 8) && groups.size > 0 && groups.size % 32 == 0);
  CHECK(inputs % groups.size == 0);
  return {groups.bits, nullptr, outputs,
          groups.bits == 4 ? graph::new_tensor(DType::kU8, {outputs, inputs / 2})
                           : graph::new_tensor(DType::kS8, {outputs, inputs}),
          graph::new_tensor(DType::kF16, {inputs / groups.size, outputs})};
}

void write_row(RoundedLayer& layer, std::int64_t output, std::span<const std::int8_t> q,
               std::span<const float> scales) {
  const std::int64_t outputs = layer.scales.shape.dims[1];
  auto* const to_scales = reinterpret_cast<F16*>(layer.scales.data.data());
  for (std::size_t group = 0; group < scales.size(); ++group)
    to_scales[static_cast<std::int64_t>(group) * outputs + output] = kernels::to_f16(scales[group]);
  std::uint8_t* to = layer.weights.data.data() + output * layer.weights.shape.dims[1];
  if (layer.bits == 8)
    std::memcpy(to, q.data(), q.size());
  else
    for (std::size_t i = 0; i < q.size(); i += 2) *to++ = static_cast<std::uint8_t>((q[i] + 8) | (q[i + 1] + 8) << 4);
}

void check_scale(float scale, const std::string& name) {
  if (!std::isfinite(scale)) fail(ErrorKind::kCorrupt, "'{}' has weights that are not finite, or too large", name);
}

std::vector<float> row_of(const graph::Weight& weights, std::int64_t output) {
  const std::int64_t k = weights.shape().dims[1];
  std::vector<float> out(static_cast<std::size_t>(k));
  const auto widen_all = [&]<typename T>(const T* from) {
    for (std::int64_t i = 0; i < k; ++i) out[static_cast<std::size_t>(i)] = kernels::widen(from[output * k + i]);
  };
  const std::uint8_t* const data = weights.data().data();
  switch (weights.shape().dtype) {
    case DType::kBF16:
      widen_all(reinterpret_cast<const kernels::BF16*>(data));
      break;
    case DType::kF16:
      widen_all(reinterpret_cast<const F16*>(data));
      break;
    default:
      widen_all(reinterpret_cast<const float*>(data));
  }
  return out;
}

RoundedLayer round_layer(const graph::Weight& from, const std::string& name, const Groups& groups, Pool& pool,
                         std::span<const float> importance) {
  const std::int64_t n = from.shape().dims[0], k = from.shape().dims[1];
  RoundedLayer out = empty_layer(n, k, groups);
  const auto size = static_cast<std::size_t>(groups.size);
  pool.run(n, [&](std::int64_t row) {
    const std::vector<float> w = row_of(from, row);
    std::vector<std::int8_t> q(w.size());
    std::vector<float> scales;
    for (std::size_t at = 0; at < w.size(); at += size) {
      const std::span<const float> counted = importance.empty() ? importance : importance.subspan(at, size);
      scales.push_back(
          round_group(std::span(w).subspan(at, size), groups.bits, std::span(q).subspan(at, size), counted));
      check_scale(scales.back(), name);
    }
    write_row(out, row, q, scales);
  });
  return out;
}

}  // namespace mlx::compress
