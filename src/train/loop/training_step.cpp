// A batch is cut into micro-batches of equal size. Their gradients are averaged before the update, each with the share
// of the batch's labels that it has: where labels are masked, micro-batches have different numbers of them. They are
// summed over all ranks, by StepSum on the host and by DeviceStepSum on a GPU.
#include "train/loop/training_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "kernels/loss_scale.h"

namespace mlx::train {
namespace {

// Warms up, like TensorFlow's moving averages, so that the first, random weights lose their influence soon.
double average_decay(double ema, std::int64_t step) {
  const auto t = static_cast<double>(step);
  return std::min(ema, (1 + t) / (10 + t));
}

// Part `part` of `parts` along the first dimension.
const void* part_of(const void* data, std::vector<std::int64_t>& dims, graph::DType dtype, std::int64_t part,
                    std::int64_t parts) {
  std::size_t bytes = kernels::size_of(dtype);
  for (std::size_t i = 1; i < dims.size(); ++i) bytes *= static_cast<std::size_t>(dims[i]);
  dims[0] /= parts;
  return static_cast<const std::uint8_t*>(data) + static_cast<std::size_t>(part * dims[0]) * bytes;
}

// Finds an input by name; kNone if another stage has it.
graph::ValueId input_named(const graph::Graph& graph, std::string_view name, bool required) {
  for (const graph::ValueId id : graph.inputs)
    if (graph.value(id).name == name) return id;
  if (!required) return graph::kNone;
  fail(ErrorKind::kUsage, "the graph has no input '{}'", name);
}

template <typename T>
T scalar(const std::uint8_t* bytes) {
  T out;
  std::memcpy(&out, bytes, sizeof out);
  return out;
}

}  // namespace

graph::Tensor first_loss_scale() {
  graph::Tensor tensor;
  tensor.shape.rank = 1;
  tensor.shape.dims[0] = 2;
  const kernels::LossScale start{kernels::kFirstLossScale, 0.0f};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&start);
  tensor.data.assign(bytes, bytes + sizeof start);
  return tensor;
}

TrainingStep::TrainingStep(const nn::Built& built, const TrainConfig& config, const data::Description& data,
                           kernels::Backend backend, dist::Communicator& ranks, Pool& pool)
    : built_(built),
      config_(config),
      backend_(backend),
      grid_(ranks, static_cast<int>(config.tp), static_cast<int>(config.pp)),
      pool_(pool),
      raw_(is_fed_raw(data, backend)),
      held_(part_of_model(built, config, grid_.row().rank())),
      part_(grid_, held_.partition),
      training_(training_graph_of(
          built, config, data, backend, held_,
          dist::terms_of(grid_.column().rank(), grid_.column().ranks(), static_cast<int>(config.accumulate)).size())) {
  const std::string loss = loss_spec(config, data.targets).name;
  counts_ = loss != "mse" && loss != "huber";
  labels_are_classes_ = loss == "softmax";
  if (synchronises_norms(config)) {
    CHECK(config.accumulate == grid_.column().ranks() && !part_.divided());
    norms_.emplace(grid_.column());
  }
  if (shares_updates(config, grid_.column().ranks())) share_updates();
}

void TrainingStep::share_updates() {
  graph::SplitUpdates split = graph::split_updates(training_);
  training_ = split.rest;
  const std::vector<SummedValue> sums = StepSum::summed(training_, config_.accumulate, wire_of(config_), {}, cuts_of());
  shard_ = std::make_unique<OptimizerShard>(std::move(split), sums, grid_.column(), backend_);
}

StepSum::CutsOf TrainingStep::cuts_of() const {
  return [this](std::int64_t elements) { return OptimizerShard::cuts_of(elements, backend_); };
}

void TrainingStep::start(graph::Tensors tensors) {
  for (const graph::Value& value : training_.graph.values) {
    const std::string average = value.name + graph::kAverage;
    if (value.role != graph::Role::kParameter || training_.graph.find(average) == graph::kNone) continue;
    const auto weights = tensors.find(value.name);
    if (weights != tensors.end()) tensors.try_emplace(average, weights->second);
  }
  if (training_.loss_scale != graph::kNone) tensors.try_emplace(graph::kLossScale, first_loss_scale());
  graph::SessionOptions options;
  options.backend = backend_;
  options.seed = config_.seed;
  options.training = true;
  options.collectives = norms_ ? static_cast<graph::Collectives*>(&*norms_) : &part_;
  options.kept = training_.kept();
  launched_.clear();
  device_sums_.reset();
  sums_.reset();
  late_sums_.reset();
  session_.reset();  // first, so that two never exist at once
  session_ = std::make_unique<graph::Session>(training_.graph, tensors, options, pool_);
  if (config_.sums_micro_batches() && backend_.can().own_memory) {
    device_sums_ = std::make_unique<DeviceStepSum>(training_, config_.accumulate, grid_.column(), backend_.device());
  } else if (config_.sums_micro_batches()) {
    const std::size_t late = training_.stage.late_begin;
    const auto sums_of = [&](SummedNodes nodes) {
      return std::make_unique<StepSum>(training_, config_.accumulate, grid_.column(), wire_of(config_),
                                       !part_.divided(), nodes, shard_ ? cuts_of() : StepSum::CutsOf(),
                                       static_cast<int>(config_.async));
    };
    sums_ = sums_of({0, late});
    if (norms_) norms_->meet(sums_->sums());
    if (late < training_.update_begin) late_sums_ = sums_of({late, training_.update_begin});
  }
  if (!stage().is_whole()) {
    CHECK(sums_);
    pipeline_ = std::make_unique<Pipeline>(training_, stage(), grid_.pipeline(), static_cast<int>(parts()),
                                           grid_.stage().ranks() == 1);
  }
  collected_ = {training_.loss};
  if (counts()) collected_.insert(collected_.end(), {training_.correct, training_.counted});
}

dist::Terms TrainingStep::terms() const {
  if (device_sums_) return device_sums_->terms();
  return sums_ ? sums_->terms() : dist::Terms{0, 1};
}

// The labels of a part that count: not those that are masked. Numbers all count.
std::int64_t TrainingStep::labels_in(const data::BatchView& batch, std::int64_t part) const {
  std::int64_t labels = 1;
  for (const std::int64_t dim : batch.target_dims) labels *= dim;
  const std::int64_t each = labels / parts();
  if (!labels_are_classes_) return each;
  const auto* label = static_cast<const std::int32_t*>(batch.target) + part * each;
  return std::count_if(label, label + each, [](std::int32_t of) { return of >= 0; });
}

void TrainingStep::set_rates(std::int64_t step, double learning_rate) {
  rate_ = static_cast<float>(learning_rate);
  const double decay = average_decay(config_.ema, step);
  average_ = {static_cast<float>(decay), static_cast<float>(1 - decay)};
}

std::vector<graph::Feed> TrainingStep::feeds(const data::BatchView& batch, std::int64_t part, std::int64_t step,
                                             double learning_rate) {
  const std::int64_t parts = this->parts();
  set_rates(step, learning_rate);
  accumulation_ = {0.0f, static_cast<float>(labels_in(batch, part))};
  std::vector<graph::Feed> all;
  const auto add_part = [&](graph::ValueId id, const void* data, std::vector<std::int64_t> dims) {
    const void* const from = part_of(data, dims, training_.graph.value(id).dtype, part, parts);
    all.push_back({id, from, std::move(dims)});
  };
  for (const data::BatchInput& input : batch.inputs) {
    const graph::ValueId id = input_named(training_.graph, input.name, stage().is_whole());
    if (id == graph::kNone) continue;
    if (input.of_all)
      all.push_back({id, input.data, input.dims});
    else
      add_part(id, input.data, input.dims);
  }
  if (training_.labels != graph::kNone) add_part(training_.labels, batch.target, batch.target_dims);
  all.push_back({training_.learning_rate, &rate_, {1}});
  if (training_.accumulation != graph::kNone) all.push_back({training_.accumulation, accumulation_.data(), {2}});
  if (training_.average != graph::kNone) all.push_back({training_.average, average_.data(), {2}});
  return all;
}

graph::RunOptions TrainingStep::options(std::int64_t part, std::int64_t step) const {
  graph::RunOptions out;
  out.step = static_cast<std::uint64_t>(step);
  out.part = static_cast<std::uint64_t>(terms().begin + part + worker_ * config_.accumulate);
  if (sums_) out.last = training_.update_begin;
  if (device_sums_) out.last = device_sums_->stretches(part).front();
  // A rank whose loss is not finite still takes part in what the others wait for.
  if (!norms_) out.guard = {training_.loss, training_.loss_end};
  return out;
}

void TrainingStep::launch(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  launched_.push_back({step, learning_rate});
  if (pipeline_) return launch_pipelined(batch, step, learning_rate);
  if (sums_) return launch_summed(batch, step, learning_rate);
  CHECK(!session_->staged() || staged_step_ == step);
  if (device_sums_) return launch_on_device(batch, step, learning_rate);
  if (!session_->staged()) session_->stage(feeds(batch, 0, step, learning_rate), options(0, step));
  const bool whole = session_->run_staged();
  session_->collect(collected_);
  if (whole) collect_of_update();
}

// Launches all micro-batches, and the messages between them; nothing is waited for.
void TrainingStep::sum_on_device(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  std::vector<std::int64_t> labels;
  for (std::int64_t part = 0; part < parts(); ++part) labels.push_back(labels_in(batch, part));
  device_sums_->begin_step(labels);
  for (std::int64_t part = 0; part < parts(); ++part) {
    graph::RunOptions stretch = options(part, step);
    if (!session_->staged()) session_->stage(feeds(batch, part, step, learning_rate), stretch);
    device_sums_->begin_part(*session_);
    for (const std::size_t end : device_sums_->stretches(part)) {
      stretch.last = end;
      stretch.first == 0 ? static_cast<void>(session_->run_staged()) : session_->run_on(stretch);
      device_sums_->take(*session_, end);
      stretch.first = end;
    }
    session_->collect(collected_);
    device_sums_->end_part();
  }
  device_sums_->finish(*session_);
}

void TrainingStep::launch_on_device(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  sum_on_device(batch, step, learning_rate);
  session_->run_on(update_options(step));
  collect_of_update();
}

void TrainingStep::collect_of_update() {
  if (training_.gradient_norm != graph::kNone) session_->collect({training_.gradient_norm});
  if (scales()) session_->collect({training_.loss_scale});
  if (training_.state_norm != graph::kNone) session_->collect({training_.state_norm});
}

std::vector<graph::Feed> TrainingStep::run_parts(const data::BatchView& batch, std::int64_t step,
                                                 double learning_rate) {
  std::vector<graph::Feed> fed;
  for (std::int64_t part = 0; part < parts(); ++part) {
    fed = feeds(batch, part, step, learning_rate);
    sums_->begin_part(*session_, labels_in(batch, part));
    graph::RunOptions options = this->options(part, step);
    options.after = [this](std::size_t node) {
      sums_->take(*session_, node);
      return true;
    };
    session_->run(fed, options);
    sums_->end_part(*session_);
  }
  return fed;
}

void TrainingStep::finish_sums() {
  const StepSum::Totals totals = sums_->finish(*session_, pool_);
  summed_ = {.loss = totals.loss, .correct = totals.correct, .counted = totals.counted};
  summed_.asked_to_stop = totals.asked_to_stop;
  if (!shard_ || !std::isfinite(totals.loss)) sums_->end_step();
}

std::vector<graph::Feed> TrainingStep::sum_parts(const data::BatchView& batch, std::int64_t step,
                                                 double learning_rate) {
  std::vector<graph::Feed> fed = run_parts(batch, step, learning_rate);
  finish_sums();
  return fed;
}

graph::RunOptions TrainingStep::update_options(std::int64_t step) const {
  graph::RunOptions out;
  out.step = static_cast<std::uint64_t>(step);
  out.first = training_.update_begin;
  return out;
}

void TrainingStep::launch_summed(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  fed_ = run_parts(batch, step, learning_rate);
  if (config_.async == 0) update_summed(step, learning_rate);
}

void TrainingStep::update_summed(std::int64_t step, double learning_rate) {
  finish_sums();
  if (!std::isfinite(summed_.loss)) return;
  set_rates(step, learning_rate);
  if (shard_) {
    shard_->update(*session_, sums_->sums(), step, rate_, pool_);
    sums_->end_step();
  }
  if (training_.update_begin < training_.graph.nodes.size()) session_->run(fed_, update_options(step));
  collect_of_update();
}

void TrainingStep::take_back(const std::vector<graph::Tensors>& waiting, std::int64_t step,
                             const std::function<double(std::int64_t step)>& learning_rate) {
  if (waiting.empty()) return;
  if (static_cast<std::int64_t>(waiting.size()) > config_.async)
    fail(ErrorKind::kCorrupt, "the checkpoint has {} steps that wait, and [train] async is {}", waiting.size(),
         config_.async);
  sums_->take_back(*session_, waiting);
  for (std::size_t i = 0; i < waiting.size(); ++i, ++step) launched_.push_back({step, learning_rate(step)});
}

// The sizes of a micro-batch, by symbol: those of its labels.
std::vector<std::int64_t> TrainingStep::sizes_of_part(const data::BatchView& batch) const {
  const graph::Graph& graph = training_.graph;
  std::vector<std::int64_t> sizes(graph.symbols.size(), batch.target_dims.size() > 1 ? batch.target_dims[1] : 1);
  const int symbol = graph.value(graph.inputs.at(0)).dims.at(0).symbol();
  if (symbol >= 0) sizes[static_cast<std::size_t>(symbol)] = batch.target_dims.at(0) / parts();
  return sizes;
}

// The micro-batches of a stage, in the order of the pipeline. Their gradients are added in that of the micro-batches.
std::vector<graph::Feed> TrainingStep::run_pipeline(const data::BatchView& batch, std::int64_t step,
                                                    double learning_rate) {
  std::vector<graph::Feed> fed;
  pipeline_->begin_step(sizes_of_part(batch));
  for (const PipelineAction& action : pipeline_->schedule()) {
    fed = feeds(batch, action.micro_batch, step, learning_rate);
    pipeline_->feed(action, fed);
    graph::RunOptions options = this->options(action.micro_batch, step);
    pipeline_->choose(action, options);
    StepSum* const sums = action.kind == PipelineAction::kForward ? nullptr
                          : action.kind == PipelineAction::kLate  ? late_sums_.get()
                                                                  : sums_.get();
    if (sums) sums->begin_part(*session_, labels_in(batch, action.micro_batch));
    options.after = [&](std::size_t node) {
      if (sums) sums->take(*session_, node);
      pipeline_->take(action, *session_, node);
      return true;
    };
    const double began = seconds_now();
    session_->run(fed, options);
    pipeline_->keep(action, began);
    if (sums) sums->end_part(*session_);
  }
  pipeline_->end_step();
  return fed;
}

void TrainingStep::launch_pipelined(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  const std::vector<graph::Feed> fed = run_pipeline(batch, step, learning_rate);
  const StepSum::Totals totals = sums_->finish(*session_, pool_, [&](StepSum::Totals& of_step) {
    const auto* const own = reinterpret_cast<const std::uint8_t*>(&of_step);
    Bytes said(own, own + sizeof of_step);
    const bool asked = of_step.asked_to_stop;
    pipeline_->share_from_last(said);
    CHECK(said.size() == sizeof of_step);
    std::memcpy(&of_step, said.data(), sizeof of_step);
    of_step.asked_to_stop = asked;  // finish() asks all ranks of the model
  });
  sums_->end_step();
  if (late_sums_) {
    late_sums_->finish(*session_, pool_);
    late_sums_->end_step();
  }
  summed_ = {.loss = totals.loss, .correct = totals.correct, .counted = totals.counted};
  summed_.asked_to_stop = totals.asked_to_stop;
  if (!std::isfinite(summed_.loss)) return;
  pipeline_->update(*session_, fed, update_options(step));
  collect_of_update();
  pipeline_->share_weights(*session_);
}

StepOutcome TrainingStep::finish() {
  const Launched first = launched_.front();
  launched_.pop_front();
  if (device_sums_) device_sums_->wait();
  if (config_.async > 0) update_summed(first.step, first.learning_rate);
  StepOutcome outcome = summed_;
  const std::uint8_t* at = session_->collected().data();
  const auto next = [&] { return std::exchange(at, at + graph::Session::kCollected); };
  if (!sums_) {
    const StepSum::Totals totals = totals_of_parts(next);
    outcome.loss = totals.loss, outcome.correct = totals.correct, outcome.counted = totals.counted;
    outcome.asked_to_stop = totals.asked_to_stop;
  }
  outcome.asked_to_stop = part_.any(outcome.asked_to_stop);
  if (!std::isfinite(outcome.loss)) return outcome;
  if (training_.gradient_norm != graph::kNone) outcome.gradient_norm = double{scalar<float>(next())};
  if (shard_) outcome.gradient_norm = shard_->gradient_norm();
  if (scales()) outcome.loss_scale = double{scalar<kernels::LossScale>(next()).scale};
  const bool finite =
      training_.state_norm != graph::kNone ? std::isfinite(scalar<float>(next())) : session_->state_is_finite();
  outcome.state_finite = !part_.any(!finite) && (!shard_ || shard_->finite());
  return outcome;
}

void TrainingStep::ask_to_stop() {
  asked_to_stop_ = true;
  if (sums_) sums_->ask_to_stop();
}

dist::GradientSum::Cost TrainingStep::communication() const {
  dist::GradientSum::Cost cost = sums_          ? sums_->cost()
                                 : device_sums_ ? device_sums_->cost()
                                                : dist::GradientSum::Cost{};
  if (late_sums_) {
    const dist::GradientSum::Cost late = late_sums_->cost();
    cost.bytes_sent += late.bytes_sent;
    cost.exchanging += late.exchanging;
    cost.waiting += late.waiting;
  }
  if (pipeline_) {
    cost.bytes_sent += pipeline_->bytes_sent();
    cost.exchanging += pipeline_->seconds();
    cost.waiting += pipeline_->seconds();
  }
  if (norms_) {
    cost.bytes_sent += norms_->bytes_sent();
    cost.exchanging += norms_->seconds();
    cost.waiting += norms_->seconds();
  }
  cost.bytes_sent += part_.bytes_sent();
  cost.exchanging += part_.seconds();
  cost.waiting += part_.seconds();
  return cost;
}

StepSum::Totals TrainingStep::totals_of_parts(const std::function<const std::uint8_t*()>& next) {
  std::vector<DeviceStepSum::Counters> own(static_cast<std::size_t>(parts()));
  for (DeviceStepSum::Counters& part : own) {
    part.loss = double{scalar<float>(next())};
    if (!counts()) continue;
    part.correct = scalar<std::int32_t>(next());
    part.counted = scalar<std::int32_t>(next());
  }
  if (device_sums_) return device_sums_->totals(std::move(own), asked_to_stop_);
  return {own[0].loss, own[0].correct, own[0].counted, asked_to_stop_};
}

StepOutcome TrainingStep::run(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  if (!sums_) stage(batch, step, learning_rate);
  launch(batch, step, learning_rate);
  return finish();
}

void TrainingStep::stage(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  session_->stage(feeds(batch, 0, step, learning_rate), options(0, step));
  staged_step_ = step;
}

std::optional<graph::NotFinite> TrainingStep::explain(const data::BatchView& batch, std::int64_t step,
                                                      double learning_rate) {
  std::vector<graph::Feed> fed;
  for (std::int64_t part = 0; part < parts(); ++part) {
    fed = feeds(batch, part, step, learning_rate);
    std::optional<graph::NotFinite> found = graph::find_not_finite(*session_, fed, options(part, step));
    if (found) return found;
  }
  if (!sums_ && !device_sums_) return std::nullopt;
  if (device_sums_)
    sum_on_device(batch, step, learning_rate);
  else
    fed = sum_parts(batch, step, learning_rate);
  return graph::find_not_finite(*session_, fed, update_options(step));
}

graph::Tensors TrainingStep::state() const {
  return session_->tensors([](const graph::Value& value) { return !value.name.ends_with(graph::kGradientSum); });
}

void TrainingStep::gather_state(const std::function<void(nn::LateTensors)>& take) {
  shard_ ? shard_->gather_state(*session_, take) : part_.gather_state(*session_, take);
}

std::string TrainingStep::first_not_finite() {
  std::string own = graph::first_not_finite(state());
  if (!shard_) return part_.first_of(own);
  return shard_->first_of(own.empty() ? shard_->first_not_finite() : own);
}

graph::Tensors TrainingStep::model() const {
  graph::Tensors out, all = session_->tensors([&](const graph::Value&value) {
    return value.name.ends_with(graph::kAverage) || built_.graph.find(value.name) != graph::kNone;
  });
  for (const graph::Value& value : built_.graph.values) {
    auto found = all.find(value.name);
    if (found == all.end()) continue;
    const auto average = all.find(value.name + graph::kAverage);
    const bool averaged = value.role == graph::Role::kParameter && average != all.end();
    out.emplace(value.name, std::move(averaged ? average->second : found->second));
  }
  return out;
}

}  // namespace mlx::train
