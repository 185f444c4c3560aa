// One step is: batch, learning rate, session.run, three numbers read. Everything random is keyed by the step or the
// epoch, so that a resumed run continues with the bits of one that was never stopped.

#include "train/training_loop.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "train/batches.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

namespace mlx::train {
namespace {

constexpr std::uint64_t kHoldOutEpoch = ~std::uint64_t{0};  // an epoch's number that no training reaches
constexpr double kFlushSeconds = 1.0;

class Loop {
 public:
  Loop(registry::Repository& repository, const TrainConfig& config, const nn::Built& built, const TrainingData& data,
       const LoopOptions& options, Progress& progress)
      : repository_(repository),
        config_(config),
        built_(built),
        data_(data),
        options_(options),
        progress_(progress),
        training_(graph::to_training(built.graph, config.optimizer, config.label_smoothing)),
        input_(training_.graph.find(data::input_name(data.train.about.kind))),
        source_(batches_of(data.train, data.preprocessing, batch_options(config), repository.pool())) {
    CHECK(input_ != graph::kNone);
    steps_per_epoch_ = source_->batches();
    total_steps_ = steps_per_epoch_ * config.epochs;
    checkpoint_steps_ =
        std::max<std::int64_t>(1, std::llround(config.checkpoint_every * static_cast<double>(steps_per_epoch_)));
  }

  TrainingResult run() {
    restore();
    progress_.begin("training", static_cast<std::uint64_t>(total_steps_), "steps");
    progress_.advance(static_cast<std::uint64_t>(step_));
    const std::int64_t first_step = step_;
    started_ = flushed_ = seconds_now();
    while (step_ < total_steps_) run_epoch(step_ / steps_per_epoch_, step_ % steps_per_epoch_);
    flush();
    progress_.end();
    if (options_.profiler) options_.profiler->finish(*session_);
    result_.steps = step_;
    result_.seconds = seconds_now() - started_;
    result_.images_per_second = static_cast<double>((step_ - first_step) * config_.batch) / training_seconds_;
    if (step_ == first_step) result_.images_per_second = 0;
    result_.tensors = forward_tensors();
    return result_;
  }

 private:
  static data::Loader::Options batch_options(const TrainConfig& config) {
    data::Loader::Options options;
    options.batch = config.batch;
    options.seed = config.seed;
    options.shuffle = options.drop_last = true;
    options.augment = config.augment;
    return options;
  }

  void restore() {
    graph::Tensors tensors;
    if (options_.resume) {
      if (std::optional<CheckpointState> state = load_checkpoint(repository_, options_.run, options_.key)) {
        step_ = state->step;
        tensors = std::move(state->tensors);
      }
      registry::resume_run(repository_, options_.run, step_);
    }
    if (tensors.empty()) tensors = nn::initialize(built_.graph, built_.family, config_.seed);
    graph::SessionOptions session;
    session.level = options_.level;
    session.seed = config_.seed;
    session.training = true;
    session_ = std::make_unique<graph::Session>(training_.graph, tensors, session, repository_.pool());
  }

  void run_epoch(std::int64_t epoch, std::int64_t first_batch) {
    double loss_sum = 0;
    std::int64_t correct = 0, counted = 0, batches = 0;
    const double epoch_started = seconds_now();
    source_->start(static_cast<std::uint64_t>(epoch), first_batch);
    while (const data::BatchView* batch = next_batch()) {
      const Outcome outcome = train_step(*batch);
      if (options_.profiler) options_.profiler->end_step(*session_, step_);
      loss_sum += outcome.loss;
      correct += outcome.correct;
      counted += outcome.counted;
      ++batches;
      progress_.advance(1);
      if (step_ % 16 == 0) {
        progress_.note(fmt::format("epoch {}/{}  loss {:.4f}  acc {:.2f} %", epoch + 1, config_.epochs,
                                   loss_sum / static_cast<double>(batches), percent(correct, counted)));
      }
      const bool last = step_ % steps_per_epoch_ == 0;
      if (last) {
        const double seconds = seconds_now() - epoch_started;
        training_seconds_ += seconds;
        point("speed/images_per_second", static_cast<double>(batches * config_.batch) / seconds);
        result_.loss = loss_sum / static_cast<double>(batches);
        result_.accuracy = counted ? static_cast<double>(correct) / static_cast<double>(counted) : 0;
        validate();
      }
      if (seconds_now() - flushed_ > kFlushSeconds) flush();
      if (step_ % checkpoint_steps_ == 0 && step_ < total_steps_) checkpoint();
      if (g_interrupted.load() != 0) stop_interrupted();
    }
  }

  const data::BatchView* next_batch() {
    if (!options_.profiler) return source_->next();
    options_.profiler->begin_step();
    const data::BatchView* batch = source_->next();
    options_.profiler->batch_made();
    return batch;
  }

  struct Outcome {
    double loss = 0;
    std::int64_t correct = 0, counted = 0;
  };

  Outcome train_step(const data::BatchView& batch) {
    const auto rate = static_cast<float>(learning_rate_at(config_.schedule, step_, steps_per_epoch_, total_steps_));
    session_->run({{input_, batch.input, batch.input_dims},
                   {training_.labels, batch.target, batch.target_dims},
                   {training_.learning_rate, &rate, {1}}},
                  static_cast<std::uint64_t>(step_));
    Outcome outcome;
    outcome.loss = static_cast<double>(scalar<float>(training_.loss));
    outcome.correct = scalar<std::int32_t>(training_.correct);
    outcome.counted = scalar<std::int32_t>(training_.counted);
    ++step_;
    if (!std::isfinite(outcome.loss)) {
      flush();
      progress_.end();
      throw Error(ErrorKind::kNo, fmt::format("the loss is {} at step {}", outcome.loss, step_),
                  "lower [train] learning_rate or raise warmup");
    }
    point("train/loss", outcome.loss);
    point("train/accuracy",
          static_cast<double>(outcome.correct) / std::max<double>(1, static_cast<double>(outcome.counted)));
    return outcome;
  }

  template <typename T>
  T scalar(graph::ValueId value) const {
    T out;
    std::memcpy(&out, session_->output(value).data(), sizeof out);
    return out;
  }

  void validate() {
    if (data_.valid.about.count == 0) return;
    nn::Model model;
    model.graph = built_.graph;
    model.tensors = forward_tensors();
    model.preprocessing = data_.preprocessing;
    NoProgress silent;
    const Evaluation evaluation = evaluate(model, data_.valid, options_.level, repository_.pool(), silent);
    result_.valid_loss = evaluation.loss;
    result_.valid_accuracy = evaluation.accuracy();
    best_ = evaluation.accuracy() > best_accuracy_;
    best_accuracy_ = std::max(best_accuracy_, evaluation.accuracy());
    point("valid/loss", evaluation.loss);
    point("valid/accuracy", evaluation.accuracy());
  }

  // A checkpoint that cannot be written costs safety, not the training.
  bool checkpoint() {
    flush();
    try {
      save_checkpoint(repository_, options_.run, options_.key, {step_, session_->tensors()}, best_);
      best_ = false;
      return true;
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kIo) throw;
      progress_.warn(fmt::format("no checkpoint at step {}: {}; training goes on", step_, error.message));
      return false;
    }
  }

  [[noreturn]] void stop_interrupted() {
    const bool kept = checkpoint();
    progress_.end();
    throw Error(ErrorKind::kInterrupted,
                kept ? fmt::format("interrupted after step {} of {}; a checkpoint is kept", step_, total_steps_)
                     : fmt::format("interrupted after step {} of {}", step_, total_steps_),
                fmt::format("go on with: mlx train -c {} --resume run:{}", config_.file, options_.run));
  }

  void point(const char* name, double value) { points_.push_back({step_, name, value, unix_micros()}); }

  void flush() {
    flushed_ = seconds_now();
    if (points_.empty()) return;
    try {
      registry::log_metrics(repository_, options_.run, points_);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kIo) throw;
      progress_.warn(fmt::format("metrics up to step {} are not recorded: {}", step_, error.message));
    }
    points_.clear();
  }

  graph::Tensors forward_tensors() const {
    graph::Tensors all = session_->tensors(), out;
    for (const graph::Value& value : built_.graph.values) {
      const auto found = all.find(value.name);
      if (found != all.end()) out.insert(all.extract(found));
    }
    return out;
  }

  static double percent(std::int64_t part, std::int64_t all) {
    return all ? 100.0 * static_cast<double>(part) / static_cast<double>(all) : 0;
  }

  registry::Repository& repository_;
  const TrainConfig& config_;
  const nn::Built& built_;
  const TrainingData& data_;
  const LoopOptions& options_;
  Progress& progress_;
  graph::TrainingGraph training_;
  graph::ValueId input_;
  std::unique_ptr<data::BatchSource> source_;
  std::unique_ptr<graph::Session> session_;
  std::int64_t steps_per_epoch_ = 0, total_steps_ = 0, checkpoint_steps_ = 1, step_ = 0;
  std::vector<registry::MetricPoint> points_;
  double started_ = 0, flushed_ = 0, training_seconds_ = 0;
  double best_accuracy_ = -1;
  bool best_ = false;
  TrainingResult result_;
};

}  // namespace

TrainingData load_training_data(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                                Progress& progress) {
  TrainingData out;
  out.train = data::load(store, dataset, config.train_split, progress);
  if (!config.valid_split.empty()) {
    out.valid = data::load(store, dataset, config.valid_split, progress);
  } else if (config.valid_count > 0) {
    const data::Split all = std::move(out.train);
    const std::int64_t count = all.about.count;
    if (config.valid_count >= count) {
      fail(ErrorKind::kUsage, "{}: [data] hold_out = {} leaves nothing of the {} examples of split '{}'", config.file,
           config.valid_count, count, config.train_split);
    }
    std::vector<std::int64_t> order = data::shuffled(count, config.seed, kHoldOutEpoch);
    const auto cut = order.begin() + config.valid_count;
    std::sort(order.begin(), cut);
    std::sort(cut, order.end());
    out.valid = data::pick(all, {order.begin(), cut});
    out.train = data::pick(all, {cut, order.end()});
  }
  if (config.batch > out.train.about.count) {
    fail(ErrorKind::kUsage, "{}: [train] batch = {} is larger than the {} training examples", config.file, config.batch,
         out.train.about.count);
  }
  const data::Description& about = out.train.about;
  out.preprocessing = {about.height, about.width, about.channels, data::measure(out.train.images)};
  return out;
}

TrainingResult run_training(registry::Repository& repository, const TrainConfig& config, const nn::Built& built,
                            const TrainingData& data, const LoopOptions& options, Progress& progress) {
  return Loop(repository, config, built, data, options, progress).run();
}

}  // namespace mlx::train
