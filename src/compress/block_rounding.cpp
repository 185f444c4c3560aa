// Each part of a block is fitted alone: a few steps between integers are tried, and for the integers that each one
// gives the scale, and what is taken away, with the least squared error. Then the parts are rounded to what the block
// can hold, and their neighbours tried with the integers rounded again.

#include "compress/block_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "graph/new_tensor.h"

namespace mlx::compress {
namespace {

using kernels::BlockType;
using kernels::UnpackedBlock;

// What a type can hold: integers from 0 to most, parts of the scale and of the low.
struct Range {
  int most, least_part, most_part;
};
Range range_of(const BlockType& type) {
  switch (type.number) {
    case kernels::kQ4_0:
    case kernels::kQ4_1:
      return {15, 1, 1};
    case kernels::kQ5_0:
    case kernels::kQ5_1:
      return {31, 1, 1};
    case kernels::kQ2K:
      return {3, 0, 15};
    case kernels::kQ3K:
      return {7, -32, 31};
    case kernels::kQ4K:
      return {15, 0, 63};
    case kernels::kQ5K:
      return {31, 0, 63};
    default:
      return {63, -128, 127};
  }
}

constexpr int kBlockTries = 10;
constexpr float kTryStep = 0.1f;

float integer_at(float w, const Line& line, float inverse, int offset, int most) {
  constexpr float kWhole = 0x1.8p23f;  // numbers of its size have no fraction
  const float near = std::clamp((w + line.low) * inverse + static_cast<float>(offset), 0.0f, static_cast<float>(most));
  return (near + kWhole) - kWhole;
}
float inverse_of(float scale) {
  return scale != 0 ? 1.0f / scale : 0.0f;
}

// The weights of a part, and how often the error of each counts.
struct Counted {
  std::span<const float> w, by;
};

double error_of(const Counted& part, const Line& line, int offset, int most) {
  const float inverse = inverse_of(line.scale);
  float error = 0;
  for (std::size_t i = 0; i < part.w.size(); ++i) {
    const float q = integer_at(part.w[i], line, inverse, offset, most) - static_cast<float>(offset);
    const float off = line.scale * q - line.low - part.w[i];
    error += part.by[i] * (off * off);
  }
  return error;
}

// The line with the least squared error for the integers that `start` gives. A low is not negative.
Line fitted(const Counted& part, const Line& start, bool lowered, int offset, int most) {
  const float inverse = inverse_of(start.scale);
  float count = 0, sum_q = 0, sum_qq = 0, sum_w = 0, sum_wq = 0;
  for (std::size_t i = 0; i < part.w.size(); ++i) {
    const float x = part.w[i], by = part.by[i];
    const float q = integer_at(x, start, inverse, offset, most) - static_cast<float>(offset);
    count += by, sum_q += by * q, sum_qq += by * (q * q), sum_w += by * x, sum_wq += by * (x * q);
  }
  const float determinant = count * sum_qq - sum_q * sum_q;
  if (lowered && determinant > 0) {
    const Line line{(count * sum_wq - sum_q * sum_w) / determinant, (sum_q * sum_wq - sum_qq * sum_w) / determinant};
    if (line.low >= 0) return line;
  }
  return {sum_qq > 0 ? sum_wq / sum_qq : 0, 0};
}

Line best_line(const BlockType& type, const Counted& part) {
  const Range range = range_of(type);
  const auto [least, largest] = std::ranges::minmax(part.w);
  const float low = type.lowered ? std::max(0.0f, -least) : 0.0f;
  // Without a low the largest weight is the first integer, which reaches furthest.
  const float span = type.lowered ? largest + low : (-least > largest ? least : largest);
  const auto steps = static_cast<float>(type.lowered ? range.most : -type.offset);
  Line best{0, low};
  double best_error = error_of(part, best, type.offset, range.most);
  for (int i = -kBlockTries; span != 0 && i <= kBlockTries; ++i) {
    const float step = span / (steps + kTryStep * static_cast<float>(i) * (type.lowered ? 1.0f : 2.0f));
    const Line line = fitted(part, {step, low}, type.lowered, type.offset, range.most);
    const double error = error_of(part, line, type.offset, range.most);
    if (error < best_error) best = line, best_error = error;
  }
  return best;
}

// What the largest part stands for, as f16 holds it.
kernels::F16 unit_of(float largest, int part) {
  return kernels::to_f16(largest / static_cast<float>(part));
}

// The best of a part's neighbours in the block, and its integers.
void round_part(const BlockType& type, const Counted& of, const Line& wanted, std::size_t part, UnpackedBlock& block) {
  const Range range = range_of(type);
  const float scale = kernels::widen(block.scale), low = type.lowered ? kernels::widen(block.low) : 0.0f;
  const auto nearest = [](float x, float unit) { return unit != 0 ? static_cast<int>(std::nearbyint(x / unit)) : 0; };
  const int at = nearest(wanted.scale, scale), low_at = nearest(wanted.low, low);
  const int first_low = type.lowered && range.least_part > 0 ? 1 : 0;  // small blocks: always 1
  Line best;
  double best_error = INFINITY;
  for (int i = std::max(at - 1, range.least_part); i <= std::min(at + 1, range.most_part); ++i)
    for (int j = std::max(low_at - 1, first_low); j <= std::min(low_at + 1, type.lowered ? range.most_part : 0); ++j) {
      const Line line{scale * static_cast<float>(i), low * static_cast<float>(j)};
      const double error = error_of(of, line, type.offset, range.most);
      if (error >= best_error) continue;
      best = line, best_error = error;
      block.parts[part] = static_cast<std::int8_t>(i), block.lows[part] = static_cast<std::uint8_t>(j);
    }
  const float inverse = inverse_of(best.scale);
  for (std::size_t i = 0; i < of.w.size(); ++i)
    block.integers[part * of.w.size() + i] =
        static_cast<std::uint8_t>(integer_at(of.w[i], best, inverse, type.offset, range.most));
}

}  // namespace

bool round_block(const BlockType& type, std::span<const float> w, std::span<const float> importance,
                 UnpackedBlock& block) {
  static constexpr auto kOnce = [] {
    std::array<float, kernels::kBlockWeights> once{};
    once.fill(1);
    return once;
  }();
  if (!std::ranges::all_of(w, [](float x) { return std::isfinite(x); })) return false;
  if (importance.empty()) importance = std::span(kOnce).first(w.size());
  const auto size = static_cast<std::size_t>(type.part);
  const std::size_t parts = w.size() / size;
  const auto part_at = [&](std::size_t part) {
    return Counted{w.subspan(part * size, size), importance.subspan(part * size, size)};
  };
  const Range range = range_of(type);
  std::array<Line, kernels::kMostParts> lines;
  float largest = 0, largest_low = 0;  // by magnitude
  for (std::size_t part = 0; part < parts; ++part) {
    lines.at(part) = best_line(type, part_at(part));
    if (std::fabs(lines.at(part).scale) > std::fabs(largest)) largest = lines.at(part).scale;
    largest_low = std::max(largest_low, lines.at(part).low);
  }
  block.scale = unit_of(largest, type.lowered || range.least_part > 0 ? range.most_part : range.least_part);
  block.low = unit_of(largest_low, range.most_part);
  for (std::size_t part = 0; part < parts; ++part) round_part(type, part_at(part), lines.at(part), part, block);
  return std::isfinite(kernels::widen(block.scale)) && std::isfinite(kernels::widen(block.low));
}

int most_of(const BlockType& type) {
  return range_of(type).most;
}

RoundedLayer empty_blocks(const BlockType& type, std::int64_t outputs, std::int64_t inputs) {
  CHECK(inputs % type.weights == 0);
  RoundedLayer out;
  out.blocks = &type, out.outputs = outputs;
  out.weights = graph::new_tensor(graph::DType::kU8, {outputs * (inputs / type.weights) * type.bytes});
  return out;
}

RoundedLayer round_blocks(const BlockType& type, const graph::Weight& from, const std::string& name, Pool& pool,
                          std::span<const float> importance) {
  const std::int64_t n = from.shape().dims[0], blocks = from.shape().dims[1] / type.weights;
  const auto size = static_cast<std::size_t>(type.weights);
  RoundedLayer out = empty_blocks(type, n, from.shape().dims[1]);
  pool.run(n, [&](std::int64_t row) {
    const std::vector<float> w = row_of(from, row);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::size_t at = static_cast<std::size_t>(block) * size;
      UnpackedBlock unpacked{};
      if (!round_block(type, std::span(w).subspan(at, size),
                       importance.empty() ? importance : importance.subspan(at, size), unpacked))
        fail(ErrorKind::kCorrupt, "'{}' has weights that are not finite, or too large", name);
      pack_block(type, unpacked, out.weights.data.data() + (row * blocks + block) * type.bytes);
    }
  });
  return out;
}

}  // namespace mlx::compress
