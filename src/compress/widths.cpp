// Bisection over an order of layers (widths.h).

#include "compress/widths.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace mlx::compress {
namespace {

std::string loss_text(const Bound& bound, const Likeness& likeness) {
  if (bound.rise && likeness.rise() > *bound.rise)
    return fmt::format("the perplexity rises by {:.3g} %, more than {:.3g} %", 100 * likeness.rise(),
                       100 * *bound.rise);
  return fmt::format("the divergence is {:.3g}, more than {:.3g}", likeness.kl_divergence, bound.kl.value_or(0));
}

class WidthSearch {
 public:
  WidthSearch(const QuantizedLayers& quantized, const Bound& bound, Comparison& held_out, Comparison& calibration,
              Pool& pool, Progress& progress)
      : quantized_(quantized),
        bound_(bound),
        held_out_(held_out),
        calibration_(calibration),
        pool_(pool),
        progress_(progress) {
    out_.of.assign(quantized.layers.size(), 0);
  }

  Widths run() {
    if (try_widths(out_.of)) return std::move(out_);
    const std::size_t steps = quantized_.layers[0].widths.size();
    for (std::size_t width = 0; width < steps; ++width) {
      const std::vector<std::size_t> order = worst_first(width);
      const bool last = width + 1 == steps;
      // With the last layer stored too, nothing would be quantized.
      if (widen_until_it_holds(order, width, order.size() - (last ? 1 : 0))) return std::move(out_);
      if (last) fail_for(width);
      out_.of.assign(out_.of.size(), width + 1);
    }
    CHECK(false);
  }

 private:
  bool try_widths(const std::vector<std::size_t>& widths) {
    const Likeness likeness = held_out_.with(with_widths(quantized_, widths, pool_), progress_);
    if (!bound_.holds(likeness)) return false;
    out_.likeness = likeness;
    return true;
  }

  static std::vector<std::size_t> widened(std::size_t layers, const std::vector<std::size_t>& order, std::size_t count,
                                          std::size_t width) {
    std::vector<std::size_t> out(layers, width);
    for (std::size_t i = 0; i < count; ++i) out[order[i]] = width + 1;
    return out;
  }

  // The fewest layers of the order that make it hold, if at most so many do.
  bool widen_until_it_holds(const std::vector<std::size_t>& order, std::size_t width, std::size_t most) {
    const auto with = [&](std::size_t count) { return widened(out_.of.size(), order, count, width); };
    if (most == 0 || !try_widths(with(most))) return false;
    std::size_t fails = 0, holds = most;
    while (holds - fails > 1) {
      const std::size_t middle = fails + (holds - fails) / 2;
      (try_widths(with(middle)) ? holds : fails) = middle;
    }
    out_.of = with(holds);
    return true;
  }

  // By what the divergence falls by for each byte more.
  std::vector<std::size_t> worst_first(std::size_t width) {
    const std::size_t layers = out_.of.size();
    const std::vector<std::size_t> all(layers, width);
    const double before = calibration_.with(with_widths(quantized_, all, pool_), progress_).kl_divergence;
    std::vector<double> gains, worth;
    for (std::size_t i = 0; i < layers; ++i) {
      std::vector<std::size_t> one = all;
      one[i] = width + 1;
      gains.push_back(before - calibration_.with(with_widths(quantized_, one, pool_), progress_).kl_divergence);
      worth.push_back(gains[i] / static_cast<double>(bytes_at(i, width + 1) - bytes_at(i, width)));
    }
    out_.gains = std::move(gains);
    std::vector<std::size_t> order(layers);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return worth[i]; });
    return order;
  }

  std::int64_t bytes_at(std::size_t layer, std::size_t width) const {
    const QuantizedLayer& of = quantized_.layers[layer];
    return width < of.widths.size() ? of.widths[width].bytes()
                                    : std::max(of.stored_bytes, of.widths.back().bytes() + 1);
  }

  [[noreturn]] void fail_for(std::size_t width) {
    const std::vector<std::size_t> all(out_.of.size(), width);
    const Likeness likeness = held_out_.with(with_widths(quantized_, all, pool_), progress_);
    throw Error(ErrorKind::kNo,
                fmt::format("with all layers in {} {}; the bound does not hold with a single one of them either",
                            name_of(quantized_.layers[0].widths[width]), loss_text(bound_, likeness)),
                "allow a greater loss, or keep the model as it is");
  }

  const QuantizedLayers& quantized_;
  const Bound& bound_;
  Comparison &held_out_, &calibration_;
  Pool& pool_;
  Progress& progress_;
  Widths out_;
};

}  // namespace

bool Bound::holds(const Likeness& likeness) const {
  return (!rise || likeness.rise() <= *rise) && (!kl || likeness.kl_divergence <= *kl);
}

Widths find_widths(const QuantizedLayers& quantized, const Bound& bound, Comparison& held_out, Comparison& calibration,
                   Pool& pool, Progress& progress) {
  return WidthSearch(quantized, bound, held_out, calibration, pool, progress).run();
}

}  // namespace mlx::compress
