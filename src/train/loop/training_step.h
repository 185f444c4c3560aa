// One step of a training: its micro-batches run through the session. On a GPU it is launched, and waited for only when
// its metrics are read, so that the next batch can be made and sent meanwhile. Used by the training loop.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/batches.h"
#include "data/dataset.h"
#include "dist/communicator.h"
#include "graph/passes/passes.h"
#include "graph/session/not_finite.h"
#include "nn/family.h"
#include "train/config/config.h"
#include "train/loop/device_step_sum.h"
#include "train/loop/model_part.h"
#include "train/loop/norm_exchange.h"
#include "train/loop/optimizer_shard.h"
#include "train/loop/part_graph.h"
#include "train/loop/pipeline.h"
#include "train/loop/step_sum.h"

namespace mlx::train {

struct StepOutcome {
  double loss = 0;  // mean over the examples or tokens that count
  std::int64_t correct = 0, counted = 0;
  double gradient_norm = 0;    // before clipping; 0 if gradients are not clipped
  double loss_scale = 0;       // for the next step; 0 if losses are not scaled
  bool state_finite = true;    // weights, and everything else that outlives the step, afterwards
  bool asked_to_stop = false;  // some rank was
};

// For a training with loss scaling: the initial state graph::kLossScale.
graph::Tensor first_loss_scale();

class TrainingStep {
 public:
  // All of them must outlive it. A batch is this rank's share of a step's. Where ranks hold parts of the model
  // (TrainConfig::tp and pp), those of a row have the same share; everything here is about this rank's part.
  TrainingStep(const nn::Built& built, const TrainConfig& config, const data::Description& data,
               kernels::Backend backend, dist::Communicator& ranks, Pool& pool);

  // Draws its random numbers as worker `worker` of local SGD: each has others. Call before start().
  void be_worker(int worker) { worker_ = worker; }
  // All ranks that share a batch call it: gives each the first one's state, as far as it holds it.
  void share(CheckpointState& whole) { shard_ ? shard_->share(whole) : part_.share(whole, training_.graph); }
  // Sets weights, and what else outlives a step, to `tensors`. Averages that it lacks start as the weights.
  void start(graph::Tensors tensors);
  // After start(), between steps: other micro-batches for each rank.
  void share_batch(const dist::Shares& shares) { sums_->share(shares); }
  // Launches step `step`, counted from 0; finish() returns its outcome. If the loss is not finite, a CPU ends the step
  // there, with the parameters unchanged. A GPU, where nothing checks the loss in between, finishes the step and spoils
  // them; then only start() may follow. `batch` is not read after launch() returns.
  void launch(const data::BatchView& batch, std::int64_t step, double learning_rate);
  // Of the first launched step that was not finished. With [train] async it is then that it changes the parameters.
  StepOutcome finish();
  // Steps that were launched and not finished: before a launch at most TrainConfig::async.
  std::int64_t waits() const { return static_cast<std::int64_t>(launched_.size()); }
  // Until the sums of all of them are there.
  void settle() {
    if (sums_) sums_->sums().settle();
  }
  // What waits, for a checkpoint; and after start() the same from there, of the steps from `step` on.
  std::vector<graph::Tensors> waiting() { return waits() > 0 ? sums_->waiting() : std::vector<graph::Tensors>{}; }
  void take_back(const std::vector<graph::Tensors>& waiting, std::int64_t step,
                 const std::function<double(std::int64_t step)>& learning_rate);
  // Both, with this batch and not a staged one.
  StepOutcome run(const data::BatchView& batch, std::int64_t step, double learning_rate);
  // True if a step continues after launch(), so that staging the next one early pays: on a GPU.
  bool runs_ahead() const { return session_->runs_ahead(); }
  // Sets the batch of the next launch(), which must stay valid until then. A GPU receives it while it computes the step
  // before. run() and start() drop it.
  void stage(const data::BatchView& batch, std::int64_t step, double learning_rate);

  // Runs the same step again from the parameters before it, up to the first non-finite value; nullopt if everything is
  // finite. Stops in the middle of the step: only start() may follow.
  std::optional<graph::NotFinite> explain(const data::BatchView& batch, std::int64_t step, double learning_rate);

  // True if predictions are right or wrong, which they are not for numbers.
  bool counts() const { return counts_; }
  // True if the loss is scaled. A step whose gradients are not finite then changes only the scale.
  bool scales() const { return training_.loss_scale != graph::kNone; }
  // Whether its batches are raw (data/batches.h): of images, if the backend augments them.
  bool takes_raw() const { return raw_; }
  const graph::Graph& graph() const { return training_.graph; }
  const graph::Graph& forward() const { return built_.graph; }
  const graph::TrainingGraph& training() const { return training_; }
  // Replaces the graph by another form of it, with at least the same values. Call before start().
  void use(graph::TrainingGraph training) { training_ = std::move(training); }
  int threads() const { return pool_.threads(); }
  graph::Session& session() { return *session_; }
  // Tells all ranks in the next step's outcome.
  void ask_to_stop();
  dist::GradientSum::Cost communication() const;
  // When it communicated, while that is kept; for a trace.
  void keep_spans(bool on) {
    if (sums_) sums_->keep_spans(on);
    if (pipeline_) pipeline_->keep_spans(on);
  }
  std::vector<PipelineSpan> pipeline_spans() const {
    return pipeline_ ? pipeline_->spans() : std::vector<PipelineSpan>{};
  }
  std::vector<dist::GradientSum::Span> spans() const {
    return sums_ ? sums_->spans() : std::vector<dist::GradientSum::Span>{};
  }
  // Everything that outlives a step: what a checkpoint holds, unless ranks have parts of it. Then gather_state() hands
  // out the whole on the first rank (ModelPart).
  graph::Tensors state() const;
  bool state_is_spread() const { return part_.divided() || shard_; }
  void gather_state(const std::function<void(nn::LateTensors)>& take);
  // The name of what is not finite of it; the same on all ranks that have parts.
  std::string first_not_finite();
  // What the first rank says, if ranks have parts of the state; else `own`.
  bool said_by_first(bool own) { return shard_ ? shard_->said_by_first(own) : part_.said_by_first(own); }
  graph::Tensors model() const;  // of the forward graph; averages replace weights if they are kept
  // The same of all ranks with parts of the model, on the first of them; nothing on the others.
  graph::Tensors whole_model() { return part_.divided() ? part_.whole_model(*session_, built_.graph) : model(); }
  const dist::RankGrid& grid() const { return grid_; }
  ModelPart& part() { return part_; }
  const ModelPart& part() const { return part_; }
  const OptimizerShard* shard() const { return shard_.get(); }  // null unless ranks share the optimizer's state

 private:
  void share_updates();
  StepSum::CutsOf cuts_of() const;
  void launch_summed(const data::BatchView& batch, std::int64_t step, double learning_rate);
  void launch_on_device(const data::BatchView& batch, std::int64_t step, double learning_rate);
  void sum_on_device(const data::BatchView& batch, std::int64_t step, double learning_rate);
  // Return what the last part was fed, for the update.
  std::vector<graph::Feed> run_parts(const data::BatchView& batch, std::int64_t step, double learning_rate);
  std::vector<graph::Feed> sum_parts(const data::BatchView& batch, std::int64_t step, double learning_rate);
  void finish_sums();
  void update_summed(std::int64_t step, double learning_rate);
  void set_rates(std::int64_t step, double learning_rate);
  // Of a stage of a pipeline.
  void launch_pipelined(const data::BatchView& batch, std::int64_t step, double learning_rate);
  std::vector<graph::Feed> run_pipeline(const data::BatchView& batch, std::int64_t step, double learning_rate);
  std::vector<std::int64_t> sizes_of_part(const data::BatchView& batch) const;
  const graph::Stage& stage() const { return part_.partition().stage; }
  graph::RunOptions update_options(std::int64_t step) const;
  dist::Terms terms() const;  // the micro-batches of this rank's share of a batch, among those of all
  std::int64_t parts() const { return terms().size(); }
  // The feeds of micro-batch `part`; they point to the members below.
  std::vector<graph::Feed> feeds(const data::BatchView& batch, std::int64_t part, std::int64_t step,
                                 double learning_rate);
  graph::RunOptions options(std::int64_t part, std::int64_t step) const;
  std::int64_t labels_in(const data::BatchView& batch, std::int64_t part) const;
  void collect_of_update();
  // Of the launched step, from what was collected.
  StepSum::Totals totals_of_parts(const std::function<const std::uint8_t*()>& next);

  const nn::Built& built_;
  const TrainConfig& config_;
  kernels::Backend backend_;
  dist::RankGrid grid_;
  Pool& pool_;
  bool raw_, counts_ = false, labels_are_classes_ = false;
  graph::Partitioned held_;
  ModelPart part_;
  std::optional<NormExchange> norms_;  // if batch norms are synchronised
  graph::TrainingGraph training_;
  std::unique_ptr<OptimizerShard> shard_;
  std::unique_ptr<graph::Session> session_;
  std::unique_ptr<DeviceStepSum> device_sums_;  // the same on a GPU
  std::unique_ptr<StepSum> sums_;               // on the host; null if a batch has one part
  std::unique_ptr<StepSum> late_sums_;          // of what waits for the first stage; null if nothing does
  std::unique_ptr<Pipeline> pipeline_;          // null if this rank's part of the model is not a stage of it
  StepOutcome summed_;                          // of the launched step, if it has sums
  struct Launched {
    std::int64_t step = 0;
    double learning_rate = 0;
  };
  std::deque<Launched> launched_;  // and not finished
  std::vector<graph::Feed> fed_;   // to the last micro-batch; the rates are those of the update that follows
  bool asked_to_stop_ = false;
  std::vector<graph::ValueId> collected_;  // of one micro-batch, in the order of StepOutcome
  std::int64_t staged_step_ = 0;
  int worker_ = 0;
  float rate_ = 0;
  std::array<float, 2> accumulation_{}, average_{};
};

}  // namespace mlx::train
