// Compares logits row by row (likeness.h).

#include "compress/likeness.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "infer/session.h"

namespace mlx::compress {
namespace {

constexpr std::int64_t kMostLogits = std::int64_t{1} << 22;

struct RowLikeness {
  double nats_before = 0, nats = 0, kl = 0;
  bool agree = false, counted = false;
};

// log of the sum of exp.
double log_sum(std::span<const float> x, double largest) {
  double sum = 0;
  for (const float each : x) sum += std::exp(static_cast<double>(each) - largest);
  return largest + std::log(sum);
}

RowLikeness compared(std::span<const float> before, std::span<const float> after, std::int32_t label) {
  const auto first = std::ranges::max_element(before), second = std::ranges::max_element(after);
  const double all_before = log_sum(before, *first), all_after = log_sum(after, *second);
  double kl = 0;  // sum of p (log p - log q)
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double was = before[i], is = after[i];
    kl += std::exp(was - all_before) * (was - is);
  }
  const auto at = static_cast<std::size_t>(label);
  return {all_before - static_cast<double>(before[at]), all_after - static_cast<double>(after[at]),
          std::max(0.0, kl + all_after - all_before), first - before.begin() == second - after.begin(), true};
}

nn::Model in_f32(nn::Model model) {
  model.weights = std::make_shared<const graph::Weights>(nn::in_f32(model.graph, *model.weights));
  return model;
}

}  // namespace

double Likeness::perplexity_before() const {
  return std::exp(nats_before);
}
double Likeness::perplexity() const {
  return std::exp(nats);
}
double Likeness::rise() const {
  return std::expm1(nats - nats_before);
}

std::int64_t compared_at_once(const TextWindows& windows, std::int64_t vocabulary) {
  return std::max<std::int64_t>(1, kMostLogits / (windows.length * vocabulary));
}

struct Comparison::Runner {
  Runner(nn::Model about, const Engine& engine)
      : model(in_f32(std::move(about)), engine.backend, engine.pool), session(model) {}

  infer::Logits run(const TextWindows& windows, std::int64_t first, std::int64_t count) {
    data::BatchView batch;
    batch.count = count;
    batch.inputs = {{"ids", windows.window(first), {count, windows.length}}};
    const infer::Logits logits = session.run(batch, count);
    for (std::int64_t i = 0; i < logits.rows * logits.width; ++i)
      if (!std::isfinite(logits.values[i])) fail(ErrorKind::kNo, "what the model says is not finite");
    return logits;
  }

  infer::Model model;
  infer::Session session;
};

Comparison::Comparison(nn::Model before, TextWindows windows, bool keep, const Engine& engine)
    : windows_(std::move(windows)),
      engine_(engine),
      runner_(std::make_unique<Runner>(std::move(before), engine)),
      keep_(keep) {}

Comparison::~Comparison() = default;

std::span<const float> Comparison::before(std::size_t batch, std::int64_t first, std::int64_t count) {
  if (keep_ && batch < kept_.size()) return kept_[batch];
  const infer::Logits logits = runner_->run(windows_, first, count);
  const std::span<const float> values(logits.values, static_cast<std::size_t>(logits.rows * logits.width));
  if (!keep_) return values;
  kept_.emplace_back(values.begin(), values.end());
  return kept_.back();
}

Likeness Comparison::with(nn::Model after, Progress& progress) {
  Runner other(std::move(after), engine_);
  const graph::Graph& graph = other.model.graph();
  const std::int64_t width = graph.value(graph.outputs[0]).dims.back().size;
  const std::int64_t step = compared_at_once(windows_, width);
  Likeness out;
  progress.begin("comparing", static_cast<std::uint64_t>(windows_.count), "windows");
  for (std::int64_t first = 0; first < windows_.count; first += step) {
    progress.check_interrupted();
    const std::int64_t count = std::min(step, windows_.count - first), rows = count * windows_.length;
    const std::span<const float> was = before(static_cast<std::size_t>(first / step), first, count);
    const infer::Logits is = other.run(windows_, first, count);
    std::vector<RowLikeness> each(static_cast<std::size_t>(rows));
    engine_.pool.run(rows, [&](std::int64_t row) {
      const std::int32_t label = windows_.labels[static_cast<std::size_t>(first * windows_.length + row)];
      if (label < 0 || label >= width) return;
      const auto at = static_cast<std::size_t>(row * width), size = static_cast<std::size_t>(width);
      each[static_cast<std::size_t>(row)] = compared(was.subspan(at, size), {is.values + at, size}, label);
    });
    for (const RowLikeness& row : each) {
      if (!row.counted) continue;
      ++out.tokens;
      out.nats_before += row.nats_before, out.nats += row.nats, out.kl_divergence += row.kl;
      out.top1 += row.agree ? 1 : 0;
    }
    progress.advance(static_cast<std::uint64_t>(count));
  }
  progress.end();
  if (out.tokens == 0) fail(ErrorKind::kUsage, "nothing of the text that models are compared on is to be predicted");
  const auto tokens = static_cast<double>(out.tokens);
  out.nats_before /= tokens, out.nats /= tokens, out.kl_divergence /= tokens, out.top1 /= tokens;
  return out;
}

}  // namespace mlx::compress
