// A checkpoint of this run or another, or weights.
#include "train/loop/starting_point.h"

#include <optional>
#include <utility>

#include "base/error.h"

namespace mlx::train {
namespace {

// For another run's state: resets what is best, and how long there was no improvement. A best model in that state
// still counts.
void judge_anew(const TrainConfig& config, CheckpointState& state) {
  state.selection.epochs_since = 0;
  if (config.selection.keep_best && !state.best.empty()) return;
  state.best.clear();
  state.selection.best.clear();
  state.selection.best_step = state.selection.last_step = 0;  // validated again at the start
}

}  // namespace

CheckpointState starting_point(const TrainConfig& config, const nn::Built& built, const LoopOptions& options,
                               RunSink& sink, std::int64_t total_steps) {
  if (std::optional<CheckpointState> stored = sink.last_checkpoint()) return std::move(*stored);
  CheckpointState start;
  if (!options.from) {
    start.tensors = options.initial ? *options.initial : nn::initialize(built, config.seed);
    return start;
  }
  start = options.from();
  judge_anew(config, start);
  if (start.step > total_steps && !options.resume) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: the run to continue has done {} of the {} steps in {} epochs", config.file, start.step,
                            total_steps, config.epochs),
                "set the total number of epochs: --set train.epochs=N");
  }
  return start;
}

}  // namespace mlx::train
