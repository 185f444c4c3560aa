// A batch is cut into micro-batches of equal size. Their gradients are averaged before the update, each with the share
// of the batch's labels that it has: where labels are masked, micro-batches have different numbers of them.
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

graph::Graph trained_graph(const nn::Built& built, const TrainConfig& config, const data::Description& data,
                           kernels::Backend backend) {
  graph::Graph graph = graph::freeze(built.graph, built.frozen);
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
                           kernels::Backend backend, Pool& pool)
    : built_(built),
      config_(config),
      backend_(backend),
      pool_(pool),
      raw_(is_fed_raw(data, backend)),
      training_(graph::to_training(trained_graph(built, config, data, backend), config.optimizer,
                                   loss_spec(config, data.targets),
                                   {precision_of(config, data, backend), backend.can()})) {}

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
  session_.reset();  // first, so that two never exist at once
  session_ = std::make_unique<graph::Session>(training_.graph, tensors, options, pool_);
  collected_ = {training_.loss};
  if (counts()) collected_.insert(collected_.end(), {training_.correct, training_.counted});
}

std::vector<double> TrainingStep::shares_of(const data::BatchView& batch) const {
  const std::int64_t parts = config_.accumulate;
  std::vector<double> shares(static_cast<std::size_t>(parts), 1.0 / static_cast<double>(parts));
  if (parts == 1 || training_.graph.value(training_.labels).dtype != graph::DType::kS32) return shares;
  std::int64_t labels = 1;
  for (const std::int64_t dim : batch.target_dims) labels *= dim;
  const auto* label = static_cast<const std::int32_t*>(batch.target);
  const auto counted = [&](std::int64_t begin, std::int64_t end) {
    return static_cast<double>(std::count_if(label + begin, label + end, [](std::int32_t each) { return each >= 0; }));
  };
  const double all = counted(0, labels);
  if (all == 0) return shares;
  const std::int64_t each = labels / parts;
  for (std::int64_t part = 0; part < parts; ++part)
    shares[static_cast<std::size_t>(part)] = counted(part * each, (part + 1) * each) / all;
  return shares;
}

std::vector<graph::Feed> TrainingStep::feeds(const data::BatchView& batch, std::int64_t part, std::int64_t step,
                                             double learning_rate) {
  const std::int64_t parts = config_.accumulate;
  rate_ = static_cast<float>(learning_rate);
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
  out.part = static_cast<std::uint64_t>(part);
  if (part + 1 < config_.accumulate) out.last = training_.update_begin;
  out.guard = {training_.loss, training_.loss_end};
  return out;
}

void TrainingStep::launch(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  CHECK(!session_->staged() || staged_step_ == step);
  shares_ = shares_of(batch);
  for (std::int64_t part = 0; part < config_.accumulate; ++part) {
    if (!session_->staged()) session_->stage(feeds(batch, part, step, learning_rate), options(part, step));
    const bool whole = session_->run_staged();
    session_->collect(collected_);
    if (!whole) return;
  }
  if (training_.gradient_norm != graph::kNone) session_->collect({training_.gradient_norm});
  if (scales()) session_->collect({training_.loss_scale});
  if (training_.state_norm != graph::kNone) session_->collect({training_.state_norm});
}

// After a micro-batch whose loss is not finite nothing counts.
StepOutcome TrainingStep::finish() {
  StepOutcome outcome;
  const std::uint8_t* at = session_->collected().data();
  const auto next = [&] { return std::exchange(at, at + graph::Session::kCollected); };
  for (std::int64_t part = 0; part < config_.accumulate; ++part) {
    const double loss = double{scalar<float>(next())};
    outcome.loss += loss * shares_[static_cast<std::size_t>(part)];
    if (counts()) {
      outcome.correct += scalar<std::int32_t>(next());
      outcome.counted += scalar<std::int32_t>(next());
    }
    if (!std::isfinite(loss)) return outcome;
  }
  if (training_.gradient_norm != graph::kNone) outcome.gradient_norm = double{scalar<float>(next())};
  if (scales()) outcome.loss_scale = double{scalar<kernels::LossScale>(next()).scale};
  outcome.state_finite =
      training_.state_norm != graph::kNone ? std::isfinite(scalar<float>(next())) : session_->state_is_finite();
  return outcome;
}

StepOutcome TrainingStep::run(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  stage(batch, step, learning_rate);
  launch(batch, step, learning_rate);
  return finish();
}

void TrainingStep::stage(const data::BatchView& batch, std::int64_t step, double learning_rate) {
  session_->stage(feeds(batch, 0, step, learning_rate), options(0, step));
  staged_step_ = step;
}

std::optional<graph::NotFinite> TrainingStep::explain(const data::BatchView& batch, std::int64_t step,
                                                      double learning_rate) {
  for (std::int64_t part = 0; part < config_.accumulate; ++part) {
    const std::vector<graph::Feed> fed = feeds(batch, part, step, learning_rate);
    std::optional<graph::NotFinite> found = graph::find_not_finite(*session_, fed, options(part, step));
    if (found) return found;
  }
  return std::nullopt;
}

graph::Tensors TrainingStep::state() const {
  return session_->tensors([](const graph::Value& value) { return !value.name.ends_with(graph::kGradientSum); });
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
