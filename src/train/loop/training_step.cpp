// A batch is cut into micro-batches of equal size. Their gradients are averaged before the update, each with the share
// of the batch's labels that it has: where labels are masked, micro-batches have different numbers of them. On the host
// they are summed by StepSum, over all ranks.
#include "train/loop/training_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

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

// Whether images are fed as bytes, and augmented by the graph itself.
bool is_fed_raw(const data::Description& data, kernels::Backend backend) {
  return backend.can().augments_images && data.kind->raw;
}

// The forward graph of one part of the model.
graph::Partitioned part_of(const nn::Built& built, const dist::RankGrid& grid) {
  const int parts = grid.row().ranks();
  if (parts == 1) return {built.graph, {}};
  return graph::partition(built.graph, parts, grid.row().rank());
}

graph::Graph trained_graph(const nn::Built& built, const dist::RankGrid& grid, const TrainConfig& config,
                           const data::Description& data, kernels::Backend backend) {
  graph::Graph graph = graph::freeze(part_of(built, grid).graph, built.frozen);
  if (!is_fed_raw(data, backend)) return graph;
  graph::RawImages raw{data.kind->input, data::kPixelsInput, data::kChangesInput, data::kTableInput};
  raw.mixed = config.reading.augment.mixup > 0;
  raw.partner_pixels = data::kPartnerPixelsInput;
  raw.partner_changes = data::kPartnerChangesInput;
  raw.share = data::kShareInput;
  return graph::augment_inside(graph, raw);
}

// Finds an input by name.
graph::ValueId input_named(const graph::Graph& graph, std::string_view name) {
  for (const graph::ValueId id : graph.inputs)
    if (graph.value(id).name == name) return id;
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
      grid_(ranks, static_cast<int>(config.tp)),
      pool_(pool),
      raw_(is_fed_raw(data, backend)),
      part_(grid_, part_of(built, grid_).partition),
      training_(graph::to_training(trained_graph(built, grid_, config, data, backend), config.optimizer,
                                   loss_spec(config, data.targets),
                                   {precision_of(config, data, backend), backend.can()}, part_.partition())) {
  if (config.zero > 0 && grid_.column().ranks() > 1 && config.accumulate > 1) share_updates();
}

void TrainingStep::share_updates() {
  graph::SplitUpdates split = graph::split_updates(training_);
  training_ = split.rest;
  const std::vector<SummedValue> sums = StepSum::summed(training_, config_.accumulate, wire_of(config_), cuts_of());
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
  options.collectives = &part_;
  sums_.reset();
  session_.reset();  // first, so that two never exist at once
  session_ = std::make_unique<graph::Session>(training_.graph, tensors, options, pool_);
  if (config_.accumulate > 1 && !backend_.can().own_memory)
    sums_ = std::make_unique<StepSum>(training_, config_.accumulate, grid_.column(), wire_of(config_), !part_.divided(),
                                      shard_ ? cuts_of() : StepSum::CutsOf());
  collected_ = {training_.loss};
  if (counts()) collected_.insert(collected_.end(), {training_.correct, training_.counted});
}

std::int64_t TrainingStep::parts() const {
  return sums_ ? sums_->terms().size() : config_.accumulate;
}

// The labels of a part that count: not those that are masked. Numbers all count.
std::int64_t TrainingStep::labels_in(const data::BatchView& batch, std::int64_t part) const {
  std::int64_t labels = 1;
  for (const std::int64_t dim : batch.target_dims) labels *= dim;
  const std::int64_t each = labels / parts();
  if (training_.graph.value(training_.labels).dtype != graph::DType::kS32) return each;
  const auto* label = static_cast<const std::int32_t*>(batch.target) + part * each;
  return std::count_if(label, label + each, [](std::int32_t of) { return of >= 0; });
}

std::vector<double> TrainingStep::shares_of(const data::BatchView& batch) const {
  std::vector<double> shares(static_cast<std::size_t>(parts()), 1.0 / static_cast<double>(parts()));
  if (parts() == 1) return shares;
  std::int64_t all = 0;
  for (std::int64_t part = 0; part < parts(); ++part) all += labels_in(batch, part);
  if (all == 0) return shares;
  for (std::int64_t part = 0; part < parts(); ++part)
    shares[static_cast<std::size_t>(part)] = static_cast<double>(labels_in(batch, part)) / static_cast<double>(all);
  return shares;
}

std::vector<graph::Feed> TrainingStep::feeds(const data::BatchView& batch, std::int64_t part, std::int64_t step,
                                             double learning_rate) {
  const std::int64_t parts = this->parts();
  rate_ = static_cast<float>(learning_rate);
  if (sums_)
    accumulation_ = {0.0f, static_cast<float>(labels_in(batch, part))};
  else
    accumulation_ = {part == 0 ? 0.0f : 1.0f, static_cast<float>(shares_of(batch)[static_cast<std::size_t>(part)])};
  const double decay = average_decay(config_.ema, step);
  average_ = {static_cast<float>(decay), static_cast<float>(1 - decay)};
  std::vector<graph::Feed> all;
  const auto add_part = [&](graph::ValueId id, const void* data, std::vector<std::int64_t> dims) {
    const void* const from = part_of(data, dims, training_.graph.value(id).dtype, part, parts);
    all.push_back({id, from, std::move(dims)});
  };
  for (const data::BatchInput& input : batch.inputs) {
    const graph::ValueId id = input_named(training_.graph, input.name);
    if (input.of_all)
      all.push_back({id, input.data, input.dims});
    else
      add_part(id, input.data, input.dims);
  }
  add_part(training_.labels, batch.target, batch.target_dims);
  all.push_back({training_.learning_rate, &rate_, {1}});
  if (training_.accumulation != graph::kNone) all.push_back({training_.accumulation, accumulation_.data(), {2}});
  if (training_.average != graph::kNone) all.push_back({training_.average, average_.data(), {2}});
  return all;
}

graph::RunOptions TrainingStep::options(std::int64_t part, std::int64_t step) const {
  graph::RunOptions out;
  out.step = static_cast<std::uint64_t>(step);
  out.part = static_cast<std::uint64_t>((sums_ ? sums_->terms().begin + part : part) + worker_ * config_.accumulate);
  if (sums_ || part + 1 < config_.accumulate) out.last = training_.update_begin;
  out.guard = {training_.loss, training_.loss_end};
  return out;
}

void TrainingStep::launch(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  if (sums_) return launch_summed(batch, step, learning_rate);
  CHECK(!session_->staged() || staged_step_ == step);
  shares_ = shares_of(batch);
  for (std::int64_t part = 0; part < config_.accumulate; ++part) {
    if (!session_->staged()) session_->stage(feeds(batch, part, step, learning_rate), options(part, step));
    const bool whole = session_->run_staged();
    session_->collect(collected_);
    if (!whole) return;
  }
  collect_of_update();
}

void TrainingStep::collect_of_update() {
  if (training_.gradient_norm != graph::kNone) session_->collect({training_.gradient_norm});
  if (scales()) session_->collect({training_.loss_scale});
  if (training_.state_norm != graph::kNone) session_->collect({training_.state_norm});
}

std::vector<graph::Feed> TrainingStep::sum_parts(const data::BatchView& batch, std::int64_t step,
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
  const StepSum::Totals totals = sums_->finish(*session_, pool_);
  summed_ = {.loss = totals.loss, .correct = totals.correct, .counted = totals.counted};
  summed_.asked_to_stop = totals.asked_to_stop;
  if (!shard_ || !std::isfinite(totals.loss)) sums_->end_step();
  return fed;
}

graph::RunOptions TrainingStep::update_options(std::int64_t step) const {
  graph::RunOptions out;
  out.step = static_cast<std::uint64_t>(step);
  out.first = training_.update_begin;
  return out;
}

void TrainingStep::launch_summed(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  const std::vector<graph::Feed> fed = sum_parts(batch, step, learning_rate);
  if (!std::isfinite(summed_.loss)) return;
  if (shard_) {
    shard_->update(*session_, sums_->sums(), step, rate_, pool_);
    sums_->end_step();
  }
  if (training_.update_begin < training_.graph.nodes.size()) session_->run(fed, update_options(step));
  collect_of_update();
}

StepOutcome TrainingStep::finish() {
  StepOutcome outcome = summed_;
  const std::uint8_t* at = session_->collected().data();
  const auto next = [&] { return std::exchange(at, at + graph::Session::kCollected); };
  if (!sums_) {
    add_parts(outcome, next);
    outcome.asked_to_stop = asked_to_stop_;
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
  dist::GradientSum::Cost cost = sums_ ? sums_->cost() : dist::GradientSum::Cost{};
  cost.bytes_sent += part_.bytes_sent();
  cost.exchanging += part_.seconds();
  cost.waiting += part_.seconds();
  return cost;
}

// After a micro-batch whose loss is not finite nothing counts.
void TrainingStep::add_parts(StepOutcome& outcome, const std::function<const std::uint8_t*()>& next) const {
  for (std::int64_t part = 0; part < config_.accumulate; ++part) {
    const double loss = double{scalar<float>(next())};
    outcome.loss += loss * shares_[static_cast<std::size_t>(part)];
    if (counts()) {
      outcome.correct += scalar<std::int32_t>(next());
      outcome.counted += scalar<std::int32_t>(next());
    }
    if (!std::isfinite(loss)) return;
  }
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
  if (!sums_) return std::nullopt;
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
