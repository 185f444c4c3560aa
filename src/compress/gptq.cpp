// A slice of outputs goes through all inputs in blocks: within a block the weights behind an input are changed at once,
// those behind the block when it is done, a tile of columns at a time, so that the factor's rows are read from a cache.

#include "compress/gptq.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "compress/block_rounding.h"

namespace mlx::compress {
namespace {

constexpr std::int64_t kOutputs = 16;   // of a slice
constexpr std::int64_t kInputs = 128;   // of a block
constexpr std::int64_t kColumns = 256;  // of a tile

// The lines of a few outputs in groups, on which weights are with integers q from least() to most().
class GroupLines {
 public:
  GroupLines(const Groups& groups, const std::string& name) : groups_(groups), name_(name) {}
  std::int64_t part() const { return groups_.size; }
  int least() const { return least_of(groups_.bits); }
  int most() const { return most_of(groups_.bits); }

  void add(std::span<const float> w, std::span<const float> importance, std::vector<Line>& lines) {
    const auto size = static_cast<std::size_t>(groups_.size);
    for (std::size_t at = 0; at < w.size(); at += size) {
      scales_.push_back(scale_of_group(w.subspan(at, size), importance.subspan(at, size), groups_.bits));
      check_scale(scales_.back(), name_);
      lines.push_back({scales_.back(), 0});
    }
  }
  // The integers of output `i` of them, which is `output` of the layer.
  void write(std::size_t i, std::span<const std::int8_t> q, std::int64_t output, RoundedLayer& to) const {
    const std::size_t groups = q.size() / static_cast<std::size_t>(groups_.size);
    write_row(to, output, q, std::span(scales_).subspan(i * groups, groups));
  }

 private:
  Groups groups_;
  const std::string& name_;
  std::vector<float> scales_;  // [count][groups]
};

// The same in blocks.
class BlockLines {
 public:
  BlockLines(const kernels::BlockType& type, const std::string& name) : type_(type), name_(name) {}
  std::int64_t part() const { return type_.part; }
  int least() const { return -type_.offset; }
  int most() const { return most_of(type_) - type_.offset; }

  void add(std::span<const float> w, std::span<const float> importance, std::vector<Line>& lines) {
    const auto size = static_cast<std::size_t>(type_.weights);
    for (std::size_t at = 0; at < w.size(); at += size) {
      kernels::UnpackedBlock& block = blocks_.emplace_back();
      if (!round_block(type_, w.subspan(at, size), importance.subspan(at, size), block))
        fail(ErrorKind::kCorrupt, "'{}' has weights that are not finite, or too large", name_);
      const float scale = kernels::widen(block.scale), low = kernels::widen(block.low);
      for (std::int64_t i = 0; i < type_.weights / type_.part; ++i)
        lines.push_back({scale * static_cast<float>(block.parts[i]),
                         type_.lowered ? low * static_cast<float>(block.lows[i]) : 0.0f});
    }
  }
  void write(std::size_t i, std::span<const std::int8_t> q, std::int64_t output, RoundedLayer& to) {
    const auto size = static_cast<std::size_t>(type_.weights);
    const std::size_t count = q.size() / size;
    std::uint8_t* bytes =
        to.weights.data.data() + static_cast<std::size_t>(output) * count * static_cast<std::size_t>(type_.bytes);
    for (std::size_t at = 0; at < count; ++at, bytes += type_.bytes) {
      kernels::UnpackedBlock& block = blocks_[i * count + at];
      for (std::size_t j = 0; j < size; ++j)
        block.integers[j] = static_cast<std::uint8_t>(q[at * size + j] + type_.offset);
      pack_block(type_, block, bytes);
    }
  }

 private:
  const kernels::BlockType& type_;
  const std::string& name_;
  std::vector<kernels::UnpackedBlock> blocks_;  // [count][blocks]
};

template <typename Lines>
class Slice {
 public:
  Slice(const graph::Weight& weights, Lines lines, const InverseFactor& factor, std::span<const float> importance,
        std::int64_t first, std::int64_t count)
      : factor_(factor), form_(std::move(lines)), n_(weights.shape().dims[1]), first_(first), count_(count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<float> w = row_of(weights, first + i);
      form_.add(w, importance, lines_);
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

  void write(RoundedLayer& to) {
    const auto n = static_cast<std::size_t>(n_);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i)
      form_.write(i, std::span(q_).subspan(i * n, n), first_ + static_cast<std::int64_t>(i), to);
  }

 private:
  const double* factor_row(std::int64_t position) const { return factor_.upper.data() + position * n_; }

  void round_block(std::int64_t i, std::int64_t begin, std::int64_t end) {
    double* const left = left_.data() + i * n_;
    double* const errors = errors_.data() + i * kInputs;
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t input = factor_.order[static_cast<std::size_t>(at)];
      const Line& line = lines_[static_cast<std::size_t>((i * n_ + input) / form_.part())];
      const double scale = line.scale, low = line.low;
      const double q = scale == 0 ? 0
                                  : std::clamp(std::nearbyint((left[at] + low) / scale),
                                               static_cast<double>(form_.least()), static_cast<double>(form_.most()));
      q_[static_cast<std::size_t>(i * n_ + input)] = static_cast<std::int8_t>(q);
      const double* const row = factor_row(at);
      const double error = errors[at - begin] = (left[at] - (scale * q - low)) / row[at];
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
  Lines form_;
  std::int64_t n_, first_, count_;
  std::vector<Line> lines_;     // [count][parts]
  std::vector<double> left_;    // [count][inputs], in the factor's order
  std::vector<std::int8_t> q_;  // [count][inputs]
  std::vector<double> errors_;  // [count][kInputs]
};

}  // namespace

RoundedLayer gptq(const graph::Weight& weights, const std::string& name, const InverseFactor& factor,
                  std::span<const float> importance, const WeightType& type, Pool& pool) {
  const std::int64_t outputs = weights.shape().dims[0], inputs = weights.shape().dims[1];
  CHECK(static_cast<std::int64_t>(factor.order.size()) == inputs);
  RoundedLayer out =
      type.blocks ? empty_blocks(*type.blocks, outputs, inputs) : empty_layer(outputs, inputs, type.groups);
  const auto round_slices = [&](const auto& lines) {
    pool.run((outputs + kOutputs - 1) / kOutputs, [&](std::int64_t slice) {
      const std::int64_t first = slice * kOutputs;
      Slice part(weights, lines, factor, importance, first, std::min(kOutputs, outputs - first));
      part.run();
      part.write(out);
    });
  };
  if (type.blocks)
    round_slices(BlockLines(*type.blocks, name));
  else
    round_slices(GroupLines(type.groups, name));
  return out;
}

}  // namespace mlx::compress
