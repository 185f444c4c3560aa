// One step of a training: its micro-batches through the session. On a GPU it is launched, and waited for once, when its
// metrics are asked for, so that the next batch can be made and sent meanwhile. Used by the training loop.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/batches.h"
#include "data/dataset.h"
#include "graph/not_finite.h"
#include "graph/passes.h"
#include "nn/family.h"
#include "train/config.h"

namespace mlx::train {

struct StepOutcome {
  double loss = 0;  // mean over the micro-batches
  std::int64_t correct = 0, counted = 0;
  double gradient_norm = 0;  // before clipping; 0 where gradients are not clipped
  double loss_scale = 0;     // for the next step; 0 where losses are not scaled
  bool state_finite = true;  // weights, and all else that outlives the step, as it left them
};

// Of a training whose losses are scaled: the state graph::kLossScale as it starts.
graph::Tensor first_loss_scale();

class TrainingStep {
 public:
  // All of them outlive it.
  TrainingStep(const nn::Built& built, const TrainConfig& config, const data::Description& data,
               kernels::Backend backend, Pool& pool);

  // From here on: weights, and what else outlives a step, as `tensors` says. Averages that it lacks start as the
  // weights.
  void start(graph::Tensors tensors);
  // Step `step`, counted from 0; finish() tells what came of it. If the loss is not finite, a CPU ends the step there,
  // with the parameters as before; a GPU, where nobody looks at the loss in between, does it to its end and spoils
  // them: start() comes next, or nothing. `batch` is not read any more once launch() returns.
  void launch(const data::BatchView& batch, std::int64_t step, double learning_rate);
  StepOutcome finish();
  // Both, of this batch and not of a staged one.
  StepOutcome run(const data::BatchView& batch, std::int64_t step, double learning_rate);
  // Whether a step goes on after launch(), so that staging the next one early pays: on a GPU.
  bool runs_ahead() const { return session_->runs_ahead(); }
  // The batch of the next launch(), which stays valid until that; a GPU is sent it while the step before computes.
  // run() and start() drop it.
  void stage(const data::BatchView& batch, std::int64_t step, double learning_rate);

  // The same step again from parameters as they were before it, up to what is the first not to be finite; nullopt where
  // everything is. Ends in the middle of the step: start() comes next, or nothing.
  std::optional<graph::NotFinite> explain(const data::BatchView& batch, std::int64_t step, double learning_rate);

  // Whether predictions are right or wrong, as they are not where they are numbers.
  bool counts() const { return training_.correct != graph::kNone; }
  // Whether the loss is scaled: then a step whose gradients are not finite changes nothing but the scale.
  bool scales() const { return training_.loss_scale != graph::kNone; }
  // Whether its batches are raw (data/batches.h): of images, if the backend augments them.
  bool takes_raw() const { return raw_; }
  const graph::Graph& graph() const { return training_.graph; }
  const graph::TrainingGraph& training() const { return training_; }
  // Another form of the same graph, of the same values and more; before start().
  void use(graph::TrainingGraph training) { training_ = std::move(training); }
  int threads() const { return pool_.threads(); }
  graph::Session& session() { return *session_; }
  graph::Tensors state() const;  // all that outlives a step: what a checkpoint holds
  graph::Tensors model() const;  // of the forward graph; averages in the place of weights where they are kept

 private:
  // Micro-batch `part`; they point to the members below.
  std::vector<graph::Feed> feeds(const data::BatchView& batch, std::int64_t part, std::int64_t step,
                                 double learning_rate);
  graph::RunOptions options(std::int64_t part, std::int64_t step) const;

  const nn::Built& built_;
  const TrainConfig& config_;
  kernels::Backend backend_;
  Pool& pool_;
  bool raw_;
  graph::TrainingGraph training_;
  std::unique_ptr<graph::Session> session_;
  std::vector<graph::ValueId> collected_;  // of a micro-batch, in the order of StepOutcome
  std::int64_t staged_step_ = 0;
  float rate_ = 0;
  std::array<float, 2> accumulation_{}, average_{};
};

}  // namespace mlx::train
