// An epoch keeps sums and not means, so that a resumed one has the same.
#include "train/loop/outcome_log.h"

#include <algorithm>
#include <cmath>

namespace mlx::train {

double share_of(std::int64_t correct, std::int64_t counted) {
  return static_cast<double>(correct) / static_cast<double>(std::max<std::int64_t>(1, counted));
}

void log_outcome(RunSink& sink, EpochSums& epoch, const TrainConfig& config, const TrainingStep& training,
                 std::int64_t step, double learning_rate, const StepOutcome& outcome) {
  epoch.loss += outcome.loss;
  epoch.correct += outcome.correct;
  epoch.counted += outcome.counted;
  // A batch without a label that counts has no loss, and is left out of the mean.
  if (!training.counts() || outcome.counted > 0) ++epoch.batches;
  sink.log_metric(step, "train/loss", outcome.loss);
  if (config.schedule.name != "constant" || config.schedule.warmup > 0)
    sink.log_metric(step, "train/learning_rate", learning_rate);
  if (training.counts()) sink.log_metric(step, "train/accuracy", share_of(outcome.correct, outcome.counted));
  const bool taken = !training.scales() || std::isfinite(outcome.gradient_norm);
  if (config.optimizer.clip > 0 && taken) sink.log_metric(step, "train/gradient_norm", outcome.gradient_norm);
}

}  // namespace mlx::train
