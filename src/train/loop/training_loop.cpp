// The outline of a training: epochs of steps, and between them metrics, validation, checkpoints, interruption.
// Everything random is keyed by the step or the epoch, so that a resumed run has the same bits as one that was never
// stopped.

#include "train/loop/training_loop.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/process_use.h"
#include "dist/device_links.h"
#include "train/loop/balance.h"
#include "train/loop/diverged.h"
#include "train/loop/local_sgd.h"
#include "train/loop/outcome_log.h"
#include "train/loop/share_state.h"
#include "train/loop/starting_point.h"
#include "train/loop/training_step.h"
#include "train/loop/validation.h"

namespace mlx::train {
namespace {

constexpr const char* kDivergedHint = "lower [train] learning_rate, raise warmup, or set clip = 1.0";

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
        rank_config_(config_of_rank(config)),
        alone_(dist::lone_rank()),
        ranks_(options.ranks ? *options.ranks : *alone_),
        training_(built, rank_config_, data.train->describe(), options.backend,
                  config.local_sgd.wanted() ? *alone_ : ranks_, pool),
        meter_(ranks_, data.train->describe().kind->unit, pool.threads()),
        saved_(seconds_now()) {
    if (config.balance && ranks_.ranks() > 1)
      balance_ = std::make_unique<Balance>(sharers(), static_cast<int>(config.accumulate));
    source_ = data.train->batches(data.preprocessing, batch_options(), pool);
    steps_per_epoch_ = source_->batches();
    if (steps_per_epoch_ == 0) {
      fail(ErrorKind::kUsage, "{}: [train] batch = {} is larger than the {} {}", config.file, config.batch,
           source_->examples(), data.train->describe().examples_text(built.context));
    }
    total_steps_ = steps_per_epoch_ * config.epochs;
    meter_.set_micro_batches(config.accumulate / (config.local_sgd.wanted() ? 1 : sharers().ranks()));
    if (!config.local_sgd.wanted()) return;
    training_.be_worker(ranks_.rank());
    local_ = std::make_unique<LocalSgd>(ranks_, config.local_sgd, wire_of(config), steps_per_epoch_);
  }

  TrainingResult run() {
    const MemoryForecast memory = planned_memory();
    if (options_.tell) options_.tell(to_text(memory));
    restore();
    // Steps of an earlier process count neither in the bar's rate nor in its share.
    if (options_.profiler) options_.profiler->begin(ranks_);
    keep_spans(options_.profiler && !is_alone());
    progress_.begin("training", static_cast<std::uint64_t>(total_steps_ - now_.step), "steps");
    const double started = seconds_now();
    while (now_.step < total_steps_ && !out_of_patience(now_.selection, config_.selection)) run_epoch();
    if (keeps_state()) checkpoint();
    sink_.end();
    progress_.end();
    if (options_.profiler)
      options_.profiler->finish(training_.session(), local_ ? local_->spans() : training_.spans(),
                                training_.pipeline_spans());
    TrainingResult result = finished();
    result.memory = memory, result.from = from_;
    result.seconds = seconds_now() - started;
    result.peak_memory = held_at_peak(options_.backend);
    result.communication = communication();
    result.ranks = std::move(figures_);
    result.per_second = training_seconds_ > 0 ? static_cast<double>(trained_units_) / training_seconds_ : 0;
    return result;
  }

 private:
  data::BatchOptions batch_options() const {
    data::BatchOptions options = train::batch_options(config_, built_.context, training_.takes_raw());
    options.rank = sharers().rank();
    options.ranks = sharers().ranks();
    if (balance_) balance_->share(options);
    return options;
  }

  dist::GradientSum::Cost communication() const { return local_ ? local_->cost() : training_.communication(); }
  // The ranks that share a batch. The others have parts of the model.
  dist::Communicator& sharers() const { return part_of_model() ? training_.grid().column() : ranks_; }
  ModelPart& part() { return training_.part(); }
  bool decides() const { return ranks_.rank() == 0; }
  // Rank 0, and those that hold the other parts of its model.
  bool makes_checkpoints() const { return decides() || (part_of_model() && sharers().rank() == 0); }
  bool joins_checkpoints() const { return makes_checkpoints() || training_.shard(); }
  bool part_of_model() const { return training_.part().divided(); }
  bool is_alone() const { return ranks_.ranks() == 1; }
  void keep_spans(bool on) { local_ ? local_->keep_spans(on) : training_.keep_spans(on); }

  // If some rank would need more memory than is allowed, all end, and rank 0 says whose need that is.
  MemoryForecast planned_memory() {
    const int sharing = local_ ? 1 : sharers().ranks();
    const TrainingSize size{steps_per_epoch_, total_steps_, options_.resume,   options_.memory,
                            sharing,          decides(),    ranks_.encrypted()};
    MemoryForecast planned;
    std::optional<Error> refusal;
    try {
      planned = plan_memory(training_, built_, rank_config_, data_, size, options_.backend);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kUsage || is_alone()) throw;
      refusal = error;
    }
    share_refusal(ranks_, refusal);
    return planned;
  }

  // Parts of a model take their tensors one by one.
  CheckpointState starting_point() {
    CheckpointState state = train::starting_point(config_, built_, options_, sink_, total_steps_);
    if (!training_.state_is_spread()) complete(state);
    return state;
  }

  void restore() {
    if (decides()) now_ = starting_point();
    local_ ? local_->share(now_) : training_.share(now_);
    sink_.begin(now_.step);
    from_ = now_.step;
    training_.start(std::move(now_.tensors));
    training_.take_back(now_.waiting, now_.step, [this](std::int64_t step) { return rate_at(step); });
    now_.tensors.clear(), now_.waiting.clear();
    if (local_) local_->start(training_);
    settled_memory();  // there were two copies of the model; frees that memory for the steps
    if (local_ && local_->round_is_done()) return end_stopped_round();
    validate_epoch();
  }

  bool epoch_has_ended() const { return now_.step > 0 && now_.step % steps_per_epoch_ == 0; }

  // An earlier process was interrupted during validation, or before it.
  void validate_epoch() {
    if (epoch_has_ended() && now_.selection.last_step != now_.step) validate();
  }

  // This worker was stopped while it waited for others. What follows is what they do after their last step of the
  // round.
  void end_stopped_round() {
    end_round();
    if (verification_is_due()) verify_replicas();
    if (epoch_has_ended()) record_ranks();
    validate_epoch();
    if (now_.step < total_steps_ && checkpoint_is_due(now_.step - 1)) checkpoint();
  }

  double rate_at(std::int64_t step) const {
    return learning_rate_at(config_.schedule, step, steps_per_epoch_, total_steps_);
  }

  // Runs the rest of the current epoch. Steps that wait for their update ([train] async) are finished at its end.
  void run_epoch() {
    const std::int64_t epoch = now_.step / steps_per_epoch_;
    std::int64_t step = now_.step + training_.waits();  // the next to be launched
    if (now_.step % steps_per_epoch_ == 0) now_.epoch = {};
    const double started = seconds_now(), cpu = cpu_seconds();
    std::int64_t units = 0;
    source_->start(static_cast<std::uint64_t>(epoch), step % steps_per_epoch_);
    const data::BatchView* batch = next_batch();
    for (; batch; ++step) {
      const std::int64_t batch_units = batch->units;
      units += balance_ ? balance_->of_all(batch_units) : batch_units * sharers().ranks();
      if (!local_ && !is_alone() && progress_.interruption().signal() != 0) training_.ask_to_stop();
      training_.launch(*batch, step, rate_at(step));
      const bool ahead = training_.runs_ahead() && !options_.profiler;  // a profiler must tell steps apart
      if (ahead) batch = stage_next();
      const std::int64_t before = now_.step;
      const bool asked_to_stop = finish_steps((step + 1) % steps_per_epoch_ == 0 ? 0 : config_.async);
      if (options_.profiler) end_profiled_step();
      meter_.end_step(batch_units / config_.ranks_of_model(), communication());  // so that those of all ranks add up
      if (balance_ && balance_->change_after(now_.step % steps_per_epoch_ == 0, meter_)) share_batch(epoch);
      progress_.advance(static_cast<std::uint64_t>(now_.step - before));
      if (now_.step % 16 == 0) show(epoch);
      if (now_.step > before && now_.step % steps_per_epoch_ == 0) {
        end_epoch(units, seconds_now() - started, cpu_seconds() - cpu);
        show(epoch);
      }
      sink_.end_step();
      if (now_.step < total_steps_ && checkpoint_is_due(before)) checkpoint();
      if (asked_to_stop || (is_alone() && progress_.interruption().signal() != 0)) stop_interrupted();
      if (!ahead) batch = next_batch();
    }
  }

  // From the next step of the epoch on.
  void share_batch(std::int64_t epoch) {
    training_.share_batch(balance_->shares());
    meter_.set_micro_batches(balance_->own().size());
    source_ = data_.train->batches(data_.preprocessing, batch_options(), pool_);
    source_->start(static_cast<std::uint64_t>(epoch), now_.step - epoch * steps_per_epoch_);
  }

  // Makes and sends the next step's batch while the launched step computes.
  const data::BatchView* stage_next() {
    const data::BatchView* batch = source_->next();
    if (batch) training_.stage(*batch, now_.step + 1, rate_at(now_.step + 1));
    return batch;
  }

  const data::BatchView* next_batch() {
    meter_.begin_step();
    if (options_.profiler) options_.profiler->begin_step();
    const data::BatchView* batch = source_->next();
    meter_.batch_made();
    if (options_.profiler) options_.profiler->batch_made();
    return batch;
  }

  // Until so many wait. Returns whether some rank was asked to stop.
  bool finish_steps(std::int64_t waiting) {
    bool asked_to_stop = false;
    while (training_.waits() > waiting) {
      asked_to_stop = finish_step() || asked_to_stop;
      if (verification_is_due()) verify_replicas();
    }
    return asked_to_stop;
  }

  // Waits for the launched step. If its loss is not finite, nothing that it wrote is used. Returns whether some rank
  // was asked to stop.
  bool finish_step() {
    const StepOutcome outcome = training_.finish();
    const auto stop = [&](const std::string& what, bool done) {
      if (local_) end_diverged(local_->meet_diverged(fmt::format("{} at step {}", what, now_.step + 1)));
      stop_diverged(what, now_.step, done);
    };
    if (!std::isfinite(outcome.loss))
      stop(std::isnan(outcome.loss) ? "the loss is NaN" : "the loss is infinite", false);
    if (!outcome.state_finite) stop(fmt::format("'{}' is not finite", training_.first_not_finite()), true);
    ++now_.step;
    ranks_.activity().step = now_.step;
    if (local_) return finish_local_step(outcome), false;
    log_outcome(sink_, now_.epoch, config_, training_, now_.step, rate_at(now_.step - 1), outcome);
    if (!training_.scales()) return outcome.asked_to_stop;
    sink_.log_metric(now_.step, "train/loss_scale", outcome.loss_scale);
    if (outcome.loss_scale < 1)
      stop_diverged("the loss scale fell below 1, since gradients in fp16 were not finite", now_.step - 1, true);
    return outcome.asked_to_stop;
  }

  // A step of local SGD, of which the other workers hear at the end of the round.
  void finish_local_step(const StepOutcome& outcome) {
    local_->add(now_.step, outcome, training_.counts());
    const bool stops = progress_.interruption().signal() != 0;
    if (local_->round_is_done()) {
      end_round();
    } else if (stops || local_->others_stop()) {
      meet(LocalSgd::Word::kStops);
    }
  }

  void end_round() {
    meet(progress_.interruption().signal() != 0 ? LocalSgd::Word::kStops : LocalSgd::Word::kArrived);
    round_began_ = local_->round_begin();
    std::int64_t step = round_began_;
    for (const StepOutcome& outcome : local_->exchange(training_, pool_)) {
      const double rate = rate_at(step++);
      log_outcome(sink_, now_.epoch, config_, training_, step, rate, outcome);
    }
  }

  // All workers together. Returns if none stops.
  void meet(LocalSgd::Word::Kind own) {
    LocalSgd::Word word{.kind = own};
    if (decides() && was_due(local_->round_begin())) word.checkpoint = 1;
    const LocalSgd::Word answer = local_->meet(word);
    if (answer.kind == LocalSgd::Word::kDiverged) end_diverged(answer.what.data());
    if (answer.kind == LocalSgd::Word::kStops) stop_interrupted();
    checkpoint_wanted_ = answer.checkpoint != 0;
  }

  // Of local SGD between rounds: only then have all workers the same weights.
  bool verification_is_due() const {
    const std::int64_t every = options_.verify_every;
    if (every == 0 || (local_ && !local_->is_between_rounds())) return false;
    return now_.step / every > (local_ ? round_began_ : now_.step - 1) / every;
  }

  StateDigests digests_of_state() {
    if (local_) return {local_->common_digest(training_), {}};
    return digests_of(training_.state(), part().partition());
  }

  void verify_replicas() {
    if (is_alone()) return;
    training_.settle();
    check_replicas(ranks_, digests_of_state(), part().partition(), training_.grid().row().rank(), now_.step);
  }

  void end_epoch(std::int64_t units, double seconds, double cpu) {
    training_seconds_ += seconds;
    trained_units_ += units;
    sink_.log_metric(now_.step, fmt::format("speed/{}_per_second", data_.train->describe().kind->unit),
                     static_cast<double>(units) / seconds);
    sink_.log_metric(now_.step, "system/cores", cpu / seconds);
    sink_.log_metric(now_.step, "system/memory", static_cast<double>(resident_memory()));
    record_ranks();
    validate();
  }

  void end_profiled_step() {
    options_.profiler->end_step(training_.session(), now_.step, communication());
    if (options_.profiler->has_traced()) keep_spans(false);
  }

  void record_ranks() {
    std::vector<RankFigures> all = gather(ranks_, meter_.figures());
    if (!is_alone())
      for (const auto& [name, value] : rank_metrics(figures_, all)) sink_.log_metric(now_.step, name, value);
    figures_ = std::move(all);
  }

  void validate() {
    if (is_alone() && !data_.valid) return;
    graph::Tensors tensors;
    Validation made;
    if (part().said_by_first(data_.valid != nullptr) && makes_checkpoints()) {
      sink_.wait_for_checkpoint();  // so that its copy of the state and the copies here are not in memory together
      tensors = training_.whole_model();
    }
    if (data_.valid && decides()) made = evaluate_now(tensors);
    share_validation(ranks_, made);
    if (made.interrupted) stop_interrupted();
    if (made.metrics.empty()) return;
    for (const auto& [name, value] : made.metrics) sink_.log_metric(now_.step, "valid/" + name, value);
    if (!improves(now_.selection, config_.selection, made.metrics, now_.step)) return;
    improved_ = true;
    if (config_.selection.keep_best) now_.best = std::move(tensors);
  }

  Validation evaluate_now(const graph::Tensors& tensors) {
    check_finite(tensors);
    return train::validate(built_, tensors, data_, options_.backend, pool_, progress_.interruption());
  }

  bool was_due(std::int64_t step) const {
    return is_due_after(config_.checkpoint_every, step, now_.step, steps_per_epoch_, seconds_now() - saved_);
  }

  // After one of the steps that followed `before`. Of a time the first rank says it, since clocks differ.
  bool checkpoint_is_due(std::int64_t before) {
    if (local_) return std::exchange(checkpoint_wanted_, false);
    if (!joins_checkpoints()) return false;
    return config_.checkpoint_every.seconds > 0 ? training_.said_by_first(was_due(before)) : was_due(before);
  }

  // A checkpoint holds only finite values, and the whole model.
  void checkpoint() {
    sink_.wait_for_checkpoint();  // so that two copies of the state are not in memory together
    CheckpointState state = now_;
    const auto save = [&] { sink_.save_checkpoint(std::move(state), std::exchange(improved_, false)); };
    if (training_.state_is_spread()) {
      training_.gather_state([&](nn::LateTensors late) {
        state.late = std::move(late);
        save();
      });
    } else {
      state.tensors = training_.state();
      if (local_) local_->gather(state, local_->is_between_rounds());
      if (!decides()) return;
      state.waiting = training_.waiting();
      check_finite(state.tensors);
      save();
    }
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
    if (is_alone() && !local_ && config_.async == 0) {
      const auto origin = find_origin(
          training_, starting_point(), step, done, batch_of, [this](std::int64_t at) { return rate_at(at); },
          progress_);
      if (const std::string told = describe(origin); !told.empty()) message += ": " + told;
    }
    throw Error(ErrorKind::kDiverged, message, kDivergedHint);
  }

  [[noreturn]] void end_diverged(const std::string& message) {
    sink_.end();
    progress_.end();
    throw Error(ErrorKind::kDiverged, message, kDivergedHint);
  }

  [[noreturn]] void stop_interrupted() {
    const Interruption::Deferred deferred(progress_.interruption());
    training_.settle();
    sink_.wait_for_checkpoint();
    if (local_ || joins_checkpoints()) checkpoint();
    const bool kept = sink_.wait_for_checkpoint();
    sink_.end();
    progress_.end();
    throw Error(ErrorKind::kInterrupted,
                kept ? fmt::format("interrupted after step {} of {}; a checkpoint is kept", now_.step, total_steps_)
                     : fmt::format("interrupted after step {} of {}", now_.step, total_steps_),
                options_.how_to_resume);
  }

  void show(std::int64_t epoch) {
    std::string text = fmt::format("epoch {}/{}", epoch + 1, config_.epochs);
    // Of local SGD not before the epoch's first exchange.
    if (!local_ || now_.epoch.batches > 0) text += to_text(now_.epoch, training_.counts());
    progress_.note(text + to_text(now_.selection.last));
  }

  TrainingResult finished() {
    TrainingResult result;
    result.steps = result.kept = now_.step;
    result.stopped_early = now_.step < total_steps_;
    result.loss = now_.epoch.loss / static_cast<double>(std::max<std::int64_t>(1, now_.epoch.batches));
    if (training_.counts()) result.accuracy = share_of(now_.epoch.correct, now_.epoch.counted);
    result.valid = now_.selection.last;
    if (config_.selection.keep_best) {
      result.kept = now_.selection.best_step;
      result.valid = now_.selection.best;
      result.tensors = std::move(now_.best);
      return result;
    }
    if (makes_checkpoints()) result.tensors = training_.whole_model();
    check_finite(result.tensors);
    return result;
  }

  // Whether a checkpoint is made at the end. It takes all workers of local SGD, and all that have parts of the state.
  bool keeps_state() {
    const bool own = options_.keep_state && now_.step > from_ && decides();
    return local_ ? local_->first_says(own) : training_.said_by_first(own);
  }

  const TrainConfig& config_;
  const nn::Built& built_;
  const TrainingData& data_;
  const LoopOptions& options_;
  RunSink& sink_;
  Pool& pool_;
  Progress& progress_;
  TrainConfig rank_config_;                    // of this rank's own steps
  std::unique_ptr<dist::Communicator> alone_;  // for what it does alone
  dist::Communicator& ranks_;
  TrainingStep training_;
  std::unique_ptr<Balance> balance_;  // null if shares stay as they are
  std::unique_ptr<LocalSgd> local_;   // null if ranks exchange gradients in every step
  RankMeter meter_;
  std::vector<RankFigures> figures_;  // of all ranks, at the end of the last epoch; on rank 0
  std::unique_ptr<data::BatchSource> source_;
  std::int64_t steps_per_epoch_ = 0, total_steps_ = 0;
  CheckpointState now_;             // without the session's tensors
  bool improved_ = false;           // since the last checkpoint
  bool checkpoint_wanted_ = false;  // after this round of local SGD
  std::int64_t round_began_ = 0;    // steps done before the last round
  double saved_;                    // the time of the last checkpoint, or when this process began (seconds_now())
  double training_seconds_ = 0;
  std::int64_t from_ = 0;           // the step that this process began with
  std::int64_t trained_units_ = 0;  // in training_seconds_: images, rows or tokens
};

}  // namespace

TrainingResult run_training(const TrainConfig& config, const nn::Built& built, const TrainingData& data,
                            const LoopOptions& options, RunSink& sink, Pool& pool, Progress& progress) {
  const int ranks = options.ranks ? options.ranks->ranks() : 1;
  check_ranks(config, ranks);
  LoopOptions own = options;
  if (ranks > 1 && own.backend.can().own_memory) {
    const int device = dist::choose_device(*options.ranks, kernels::devices_of(own.backend));
    own.backend = kernels::on_device(own.backend, device);
  }
  return Loop(config, built, data, own, sink, pool, progress).run();
}

}  // namespace mlx::train
