// The outline of a training: epochs of steps, and between them metrics, validation, checkpoints, interruption.
// Everything random is keyed by the step or the epoch, so that a resumed run has the same bits as one that was never
// stopped.

#include "train/loop/training_loop.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/process_use.h"
#include "dist/replicas.h"
#include "train/evaluate/evaluate.h"
#include "train/loop/diverged.h"
#include "train/loop/share_state.h"
#include "train/loop/training_step.h"

namespace mlx::train {
namespace {

class Loop {
 public:
  Loop(const TrainConfig& config, const nn::Built& built, const TrainingData& data, const LoopOptions& options,
       RunSink& sink, Pool& pool, Progress& progress)
      : config_(config),
        built_(built),
        data_(data),
        options_(options),
        sink_(sink),
        pool_(pool),
        progress_(progress),
        alone_(options.ranks ? nullptr : dist::lone_rank()),
        ranks_(options.ranks ? *options.ranks : *alone_),
        training_(built, config, data.train->describe(), options.backend, ranks_, pool),
        source_(data.train->batches(data.preprocessing, batch_options(), pool)),
        saved_(seconds_now()) {
    steps_per_epoch_ = source_->batches();
    if (steps_per_epoch_ == 0) {
      fail(ErrorKind::kUsage, "{}: [train] batch = {} is larger than the {} {}", config.file, config.batch,
           source_->examples(), data.train->describe().examples_text(built.context));
    }
    total_steps_ = steps_per_epoch_ * config.epochs;
  }

  TrainingResult run() {
    const MemoryForecast memory = plan_memory(
        training_, built_, config_, data_,
        {steps_per_epoch_, total_steps_, options_.resume, options_.memory, ranks_.ranks()}, options_.backend);
    if (options_.tell) options_.tell(to_text(memory));
    restore();
    // Steps of an earlier process count neither in the bar's rate nor in its share.
    progress_.begin("training", static_cast<std::uint64_t>(total_steps_ - now_.step), "steps");
    const double started = seconds_now();
    while (now_.step < total_steps_ && !out_of_patience(now_.selection, config_.selection)) run_epoch();
    if (options_.keep_state && now_.step > from_ && decides()) checkpoint();
    sink_.end();
    progress_.end();
    if (options_.profiler) options_.profiler->finish(training_.session());
    TrainingResult result = finished();
    result.memory = memory;
    result.from = from_;
    result.seconds = seconds_now() - started;
    result.communication = training_.communication();
    result.peak_memory = held_at_peak();
    result.per_second = training_seconds_ > 0 ? static_cast<double>(trained_units_) / training_seconds_ : 0;
    return result;
  }

 private:
  data::BatchOptions batch_options() const {
    data::BatchOptions options;
    options.raw = training_.takes_raw();
    options.context = built_.context;
    options.batch = config_.batch;
    options.seed = config_.seed;
    options.shuffle = options.drop_last = true;
    options.augment = config_.reading.augment;
    options.rank = ranks_.rank();
    options.ranks = ranks_.ranks();
    return options;
  }

  bool decides() const { return ranks_.rank() == 0; }
  bool is_alone() const { return ranks_.ranks() == 1; }

  // The initial state of a run: its last checkpoint, else another run's, else fresh weights.
  CheckpointState starting_point() {
    if (std::optional<CheckpointState> stored = sink_.last_checkpoint()) return std::move(*stored);
    CheckpointState start;
    if (options_.from) {
      start = options_.from();
      judge_anew(start);
    } else {
      start.tensors = options_.initial ? *options_.initial : nn::initialize(built_, config_.seed);
    }
    return start;
  }

  // For another run's state: resets what is best, and how long there was no improvement. A best model in that state
  // still counts.
  void judge_anew(CheckpointState& state) const {
    state.selection.epochs_since = 0;
    if (config_.selection.keep_best && !state.best.empty()) return;
    state.best.clear();
    state.selection.best.clear();
    state.selection.best_step = state.selection.last_step = 0;  // validated again at the start
  }

  void restore() {
    if (decides()) now_ = checked_starting_point();
    share_state(ranks_, now_);
    sink_.begin(now_.step);
    from_ = now_.step;
    training_.start(std::move(now_.tensors));
    now_.tensors.clear();
    settled_memory();  // there were two copies of the model; frees that memory for the steps
    // The earlier process was interrupted during validation.
    const bool epoch_ended = now_.step > 0 && now_.step % steps_per_epoch_ == 0;
    if (epoch_ended && now_.selection.last_step != now_.step) validate();
  }

  CheckpointState checked_starting_point() {
    CheckpointState start = starting_point();
    if (start.step > total_steps_ && options_.from && !options_.resume) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: the run to continue has done {} of the {} steps in {} epochs", config_.file,
                              start.step, total_steps_, config_.epochs),
                  "set the total number of epochs: --set train.epochs=N");
    }
    return start;
  }

  double rate_at(std::int64_t step) const {
    return learning_rate_at(config_.schedule, step, steps_per_epoch_, total_steps_);
  }

  // Runs the rest of the current epoch.
  void run_epoch() {
    const std::int64_t epoch = now_.step / steps_per_epoch_, first = now_.step % steps_per_epoch_;
    if (first == 0) now_.epoch = {};
    const double started = seconds_now(), cpu = cpu_seconds();
    std::int64_t units = 0;
    source_->start(static_cast<std::uint64_t>(epoch), first);
    const data::BatchView* batch = next_batch();
    while (batch) {
      units += batch->units * ranks_.ranks();  // all have as many
      const double rate = rate_at(now_.step);
      if (!is_alone() && progress_.interruption().signal() != 0) training_.ask_to_stop();
      training_.launch(*batch, now_.step, rate);
      const bool ahead = training_.runs_ahead() && !options_.profiler;  // a profiler must tell steps apart
      if (ahead) batch = stage_next();
      const bool asked_to_stop = finish_step(rate);
      if (options_.verify_every > 0 && now_.step % options_.verify_every == 0) verify_replicas();
      if (options_.profiler) options_.profiler->end_step(training_.session(), now_.step);
      progress_.advance(1);
      if (now_.step % 16 == 0) show(epoch);
      if (now_.step % steps_per_epoch_ == 0) {
        end_epoch(units, seconds_now() - started, cpu_seconds() - cpu);
        show(epoch);
      }
      sink_.end_step();
      if (now_.step < total_steps_ && checkpoint_is_due()) checkpoint();
      if (asked_to_stop || (is_alone() && progress_.interruption().signal() != 0)) stop_interrupted();
      if (!ahead) batch = next_batch();
    }
  }

  // Makes and sends the next step's batch while the launched step computes.
  const data::BatchView* stage_next() {
    const data::BatchView* batch = source_->next();
    if (batch) training_.stage(*batch, now_.step + 1, rate_at(now_.step + 1));
    return batch;
  }

  const data::BatchView* next_batch() {
    if (!options_.profiler) return source_->next();
    options_.profiler->begin_step();
    const data::BatchView* batch = source_->next();
    options_.profiler->batch_made();
    return batch;
  }

  // Waits for the launched step. If its loss is not finite, nothing that it wrote is used. Returns whether some rank
  // was asked to stop.
  bool finish_step(double rate) {
    const StepOutcome outcome = training_.finish();
    if (!std::isfinite(outcome.loss))
      stop_diverged(std::isnan(outcome.loss) ? "the loss is NaN" : "the loss is infinite", now_.step, false);
    if (!outcome.state_finite)
      stop_diverged(fmt::format("'{}' is not finite", graph::first_not_finite(training_.state())), now_.step, true);
    ++now_.step;
    ranks_.activity().step = now_.step;
    now_.epoch.loss += outcome.loss;
    now_.epoch.correct += outcome.correct;
    now_.epoch.counted += outcome.counted;
    // A batch without a label that counts has no loss, and is left out of the mean.
    if (!training_.counts() || outcome.counted > 0) ++now_.epoch.batches;
    sink_.log_metric(now_.step, "train/loss", outcome.loss);
    if (config_.schedule.name != "constant" || config_.schedule.warmup > 0)
      sink_.log_metric(now_.step, "train/learning_rate", rate);
    if (training_.counts()) sink_.log_metric(now_.step, "train/accuracy", share(outcome.correct, outcome.counted));
    const bool taken = !training_.scales() || std::isfinite(outcome.gradient_norm);
    if (config_.optimizer.clip > 0 && taken) sink_.log_metric(now_.step, "train/gradient_norm", outcome.gradient_norm);
    if (!training_.scales()) return outcome.asked_to_stop;
    sink_.log_metric(now_.step, "train/loss_scale", outcome.loss_scale);
    if (outcome.loss_scale < 1)
      stop_diverged("the loss scale fell below 1, since gradients in fp16 were not finite", now_.step - 1, true);
    return outcome.asked_to_stop;
  }

  void verify_replicas() {
    if (is_alone()) return;
    Sha256 hash;
    for (const auto& [name, tensor] : training_.state()) {
      hash.update(as_bytes(name));
      hash.update(tensor.data);
    }
    try {
      dist::check_replicas(ranks_, hash.finish(), now_.step);
    } catch (Error& error) {
      if (error.kind == ErrorKind::kCorrupt && !decides()) error.kind = ErrorKind::kInterrupted;  // rank 0 says it
      throw;
    }
  }

  void end_epoch(std::int64_t units, double seconds, double cpu) {
    training_seconds_ += seconds;
    trained_units_ += units;
    sink_.log_metric(now_.step, fmt::format("speed/{}_per_second", data_.train->describe().kind->unit),
                     static_cast<double>(units) / seconds);
    sink_.log_metric(now_.step, "system/cores", cpu / seconds);
    sink_.log_metric(now_.step, "system/memory", static_cast<double>(resident_memory()));
    validate();
  }

  void validate() {
    if (is_alone() && !data_.valid) return;
    graph::Tensors tensors;
    Validation made;
    if (data_.valid) made = evaluate_now(tensors);
    share_validation(ranks_, made);
    if (made.interrupted) stop_interrupted();
    if (made.metrics.empty()) return;
    for (const auto& [name, value] : made.metrics) sink_.log_metric(now_.step, "valid/" + name, value);
    if (!improves(now_.selection, config_.selection, made.metrics, now_.step)) return;
    improved_ = true;
    if (config_.selection.keep_best) now_.best = std::move(tensors);
  }

  // Leaves the model in `tensors`.
  Validation evaluate_now(graph::Tensors& tensors) {
    sink_.wait_for_checkpoint();  // so that its copy of the state and the copies below are not in memory together
    tensors = training_.model();
    check_finite(tensors);
    nn::Model model;
    model.config = built_.config;
    model.graph = built_.graph;
    model.weights = std::make_shared<const graph::Weights>(graph::Weights::viewing(tensors));
    model.preprocessing = data_.preprocessing;
    NoProgress silent(progress_.interruption());
    try {
      const Evaluation evaluation = evaluate(model, *data_.valid, options_.backend, pool_, silent);
      Validation out{{{"loss", evaluation.loss}}};
      out.metrics.insert(out.metrics.end(), evaluation.metrics.begin(), evaluation.metrics.end());
      return out;
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kInterrupted) throw;
      return {.interrupted = true};
    }
  }

  bool checkpoint_is_due() const {
    return decides() && is_due(config_.checkpoint_every, now_.step, steps_per_epoch_, seconds_now() - saved_);
  }

  // A checkpoint holds only finite values.
  void checkpoint() {
    CheckpointState state = now_;
    state.tensors = training_.state();
    check_finite(state.tensors);
    sink_.save_checkpoint(std::move(state), std::exchange(improved_, false));
    saved_ = seconds_now();
  }

  void check_finite(const graph::Tensors& tensors) {
    const std::string name = graph::first_not_finite(tensors);
    if (!name.empty()) stop_diverged(fmt::format("'{}' is not finite", name), now_.step - 1, true);
  }

  // `step`: the last step that ran, counted from 0. `done`: it ran to its end and wrote the state.
  [[noreturn]] void stop_diverged(const std::string& what, std::int64_t step, bool done) {
    sink_.end();
    progress_.end();
    const BatchOf batch_of = [this](std::int64_t at) -> const data::BatchView& {
      source_->start(static_cast<std::uint64_t>(at / steps_per_epoch_), at % steps_per_epoch_);
      return *source_->next();
    };
    std::string message = fmt::format("{} at step {}", what, step + 1);
    if (is_alone()) {
      const auto origin = find_origin(
          training_, starting_point(), step, done, batch_of, [this](std::int64_t at) { return rate_at(at); },
          progress_);
      if (const std::string told = describe(origin); !told.empty()) message += ": " + told;
    }
    throw Error(ErrorKind::kDiverged, message, "lower [train] learning_rate, raise warmup, or set clip = 1.0");
  }

  [[noreturn]] void stop_interrupted() {
    const Interruption::Deferred deferred(progress_.interruption());
    sink_.wait_for_checkpoint();
    if (decides()) checkpoint();
    const bool kept = sink_.wait_for_checkpoint();
    sink_.end();
    progress_.end();
    throw Error(ErrorKind::kInterrupted,
                kept ? fmt::format("interrupted after step {} of {}; a checkpoint is kept", now_.step, total_steps_)
                     : fmt::format("interrupted after step {} of {}", now_.step, total_steps_),
                options_.how_to_resume);
  }

  void show(std::int64_t epoch) {
    const EpochSums& sums = now_.epoch;
    std::string text = fmt::format("epoch {}/{}  loss {:.4f}", epoch + 1, config_.epochs,
                                   sums.loss / static_cast<double>(std::max<std::int64_t>(1, sums.batches)));
    if (training_.counts()) text += fmt::format("  acc {:.2f} %", 100 * share(sums.correct, sums.counted));
    const Metrics& valid = now_.selection.last;
    for (std::size_t i = 0; i < std::min<std::size_t>(valid.size(), 2); ++i)
      text += fmt::format("  valid {} {:.4f}", valid[i].first, valid[i].second);
    progress_.note(text);
  }

  TrainingResult finished() {
    TrainingResult result;
    result.steps = result.kept = now_.step;
    result.stopped_early = now_.step < total_steps_;
    result.loss = now_.epoch.loss / static_cast<double>(std::max<std::int64_t>(1, now_.epoch.batches));
    if (training_.counts()) result.accuracy = share(now_.epoch.correct, now_.epoch.counted);
    result.valid = now_.selection.last;
    if (config_.selection.keep_best) {
      result.kept = now_.selection.best_step;
      result.valid = now_.selection.best;
      result.tensors = std::move(now_.best);
      return result;
    }
    result.tensors = training_.model();
    check_finite(result.tensors);
    return result;
  }

  std::int64_t held_at_peak() const {
    const kernels::Backend backend = options_.backend;
    return backend.can().own_memory ? static_cast<std::int64_t>(backend.device().peak_bytes()) : peak_memory();
  }

  static double share(std::int64_t part, std::int64_t all) {
    return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, all));
  }

  const TrainConfig& config_;
  const nn::Built& built_;
  const TrainingData& data_;
  const LoopOptions& options_;
  RunSink& sink_;
  Pool& pool_;
  Progress& progress_;
  std::unique_ptr<dist::Communicator> alone_;  // null if there are others
  dist::Communicator& ranks_;
  TrainingStep training_;
  std::unique_ptr<data::BatchSource> source_;
  std::int64_t steps_per_epoch_ = 0, total_steps_ = 0;
  CheckpointState now_;    // without the session's tensors
  bool improved_ = false;  // since the last checkpoint
  double saved_;           // the time of the last checkpoint, or when this process began (seconds_now())
  double training_seconds_ = 0;
  std::int64_t from_ = 0;           // the step that this process began with
  std::int64_t trained_units_ = 0;  // in training_seconds_: images, rows or tokens
};

}  // namespace

TrainingResult run_training(const TrainConfig& config, const nn::Built& built, const TrainingData& data,
                            const LoopOptions& options, RunSink& sink, Pool& pool, Progress& progress) {
  return Loop(config, built, data, options, sink, pool, progress).run();
}

}  // namespace mlx::train
