// A slice of outputs goes through all inputs in blocks: within a block the weights behind an input are changed at once,
// those behind the block when it is done, a tile of columns at a time, so that the factor's rows are read from a cache.

#include "compress/gptq.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace mlx::compress {
namespace {

constexpr std::int64_t kOutputs = 16;   // of a slice
constexpr std::int64_t kInputs = 128;   // of a block
constexpr std::int64_t kColumns = 256;  // of a tile

class Slice {
 public:
  Slice(const graph::Weight& weights, const std::string& name, const InverseFactor& factor,
        std::span<const float> importance, const Groups& groups, std::int64_t first, std::int64_t count)
      : factor_(factor), groups_(groups), n_(weights.shape().dims[1]), first_(first), count_(count) {
    const auto size = static_cast<std::size_t>(groups.size);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<float> w = row_of(weights, first + i);
      for (std::size_t at = 0; at < w.size(); at += size) {
        scales_.push_back(scale_of_group(std::span(w).subspan(at, size), importance.subspan(at, size), groups.bits));
        check_scale(scales_.back(), name);
      }
      for (const std::int64_t input : factor.order) left_.push_back(double{w[static_cast<std::size_t>(input)]});
    }
    q_.resize(left_.size());
    errors_.resize(static_cast<std::size_t>(count * kInputs));
  }

  void run() {
    for (std::int64_t begin = 0; begin < n_; begin += kInputs) {
      const std::int64_t end = std::min(n_, begin + kInputs);
      for (std::int64_t i = 0; i < count_; ++i) round_block(i, begin, end);
      for (std::int64_t column = end; column < n_; column += kColumns)
        for (std::int64_t i = 0; i < count_; ++i) change_behind(i, begin, end, column, std::min(n_, column + kColumns));
    }
  }

  void write(RoundedLayer& to) const {
    const auto n = static_cast<std::size_t>(n_), groups = static_cast<std::size_t>(n_ / groups_.size);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i)
      write_row(to, first_ + static_cast<std::int64_t>(i), std::span(q_).subspan(i * n, n),
                std::span(scales_).subspan(i * groups, groups));
  }

 private:
  const double* factor_row(std::int64_t position) const { return factor_.upper.data() + position * n_; }

  void round_block(std::int64_t i, std::int64_t begin, std::int64_t end) {
    double* const left = left_.data() + i * n_;
    double* const errors = errors_.data() + i * kInputs;
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t input = factor_.order[static_cast<std::size_t>(at)];
      const auto scale = static_cast<double>(scales_[static_cast<std::size_t>((i * n_ + input) / groups_.size)]);
      const double q = scale == 0
                           ? 0
                           : std::clamp(std::nearbyint(left[at] / scale), static_cast<double>(least_of(groups_.bits)),
                                        static_cast<double>(most_of(groups_.bits)));
      q_[static_cast<std::size_t>(i * n_ + input)] = static_cast<std::int8_t>(q);
      const double* const row = factor_row(at);
      const double error = errors[at - begin] = (left[at] - scale * q) / row[at];
      for (std::int64_t behind = at + 1; behind < end; ++behind) left[behind] -= error * row[behind];
    }
  }

  void change_behind(std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t first, std::int64_t last) {
    double* const left = left_.data() + i * n_;
    const double* const errors = errors_.data() + i * kInputs;
    for (std::int64_t at = begin; at < end; ++at) {
      const double error = errors[at - begin];
      const double* const row = factor_row(at);
      for (std::int64_t behind = first; behind < last; ++behind) left[behind] -= error * row[behind];
    }
  }

  const InverseFactor& factor_;
  Groups groups_;
  std::int64_t n_, first_, count_;
  std::vector<float> scales_;   // [count][groups]
  std::vector<double> left_;    // [count][inputs], in the factor's order
  std::vector<std::int8_t> q_;  // [count][inputs]
  std::vector<double> errors_;  // [count][kInputs]
};

}  // namespace

RoundedLayer gptq(const graph::Weight& weights, const std::string& name, const InverseFactor& factor,
                  std::span<const float> importance, const Groups& groups, Pool& pool) {
  const std::int64_t outputs = weights.shape().dims[0], inputs = weights.shape().dims[1];
  CHECK(static_cast<std::int64_t>(factor.order.size()) == inputs);
  RoundedLayer out = empty_layer(outputs, inputs, groups);
  pool.run((outputs + kOutputs - 1) / kOutputs, [&](std::int64_t slice) {
    const std::int64_t first = slice * kOutputs;
    Slice part(weights, name, factor, importance, groups, first, std::min(kOutputs, outputs - first));
    part.run();
    part.write(out);
  });
  return out;
}

}  // namespace mlx::compress
