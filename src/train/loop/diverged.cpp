// Repeats the last step node by node, or all steps since the last checkpoint.
#include "train/loop/diverged.h"

#include <cmath>
#include <utility>

namespace mlx::train {
namespace {

std::optional<Origin> at(std::int64_t step, std::optional<graph::NotFinite> found) {
  if (!found) return std::nullopt;
  return Origin{step + 1, std::move(*found)};
}

}  // namespace

std::optional<Origin> find_origin(TrainingStep& training, const CheckpointState& good, std::int64_t step, bool done,
                                  const BatchOf& batch_of, const RateOf& rate_of, Progress& progress) {
  std::optional<graph::NotFinite> found;
  if (!training.runs_ahead() && !done) {
    found = training.explain(batch_of(step), step, rate_of(step));
    if (found && !found->node.empty()) return at(step, std::move(found));
  }
  training.start(good.tensors);
  progress.begin("looking for its origin", static_cast<std::uint64_t>(step + 1 - good.step), "steps");
  for (std::int64_t again = good.step; again <= step && progress.interruption().signal() == 0; ++again) {
    const graph::Tensors before = training.state();
    const StepOutcome outcome = training.run(batch_of(again), again, rate_of(again));
    progress.advance(1);
    const bool scaled = !training.scales() || outcome.loss_scale >= 1;
    if (std::isfinite(outcome.loss) && scaled && outcome.state_finite) continue;
    training.start(before);
    found = training.explain(batch_of(again), again, rate_of(again));
    progress.end();
    return at(again, std::move(found));
  }
  progress.end();
  return at(step, std::move(found));
}

std::string describe(const std::optional<Origin>& origin) {
  if (!origin) return {};
  const graph::NotFinite& what = origin->what;
  if (what.node.empty()) return fmt::format("'{}' is not finite at step {}", what.value, origin->step);
  return fmt::format("{} ({}) was the first to become non-finite, at step {}", what.node, what.op, origin->step);
}

}  // namespace mlx::train
