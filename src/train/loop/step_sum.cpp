// Which values of a training graph are summed, and where their sums go.
#include "train/loop/step_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace mlx::train {
namespace {

std::int64_t elements_of(const graph::Value& value) {
  std::int64_t count = 1;
  for (const graph::Dim& dim : value.dims) count *= dim.bound({});
  return count;
}

std::span<const float> floats(ByteView bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

ByteView raw_bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

constexpr std::int64_t kFew = 1 << 16;  // elements
// In a checkpoint: the suffix of what a running statistic was before a step, and the name of the counters.
constexpr const char *kBefore = "/before", *kCounters = "counters";

graph::Tensor tensor_of(std::span<const float> values) {
  graph::Tensor out;
  out.shape.rank = 1;
  out.shape.dims[0] = static_cast<std::int64_t>(values.size());
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(values.data());
  out.data.assign(bytes, bytes + values.size_bytes());
  return out;
}

void copy_named(const graph::Tensors& from, const std::string& name, std::span<float> to) {
  const auto found = from.find(name);
  if (found == from.end() || found->second.data.size() != to.size_bytes())
    fail(ErrorKind::kCorrupt, "the checkpoint has no '{}' of this size of a step that waits", name);
  std::memcpy(to.data(), found->second.data.data(), to.size_bytes());
}

std::vector<dist::SummedArray> sizes_of(const std::vector<SummedValue>& values) {
  std::vector<dist::SummedArray> sizes;
  sizes.reserve(values.size());
  for (const SummedValue& value : values) sizes.push_back(value.array);
  return sizes;
}

template <typename T>
T scalar(ByteView bytes) {
  T out;
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

}  // namespace

std::vector<StepSum::Array> StepSum::arrays_of(const graph::TrainingGraph& training, SummedNodes nodes) {
  std::vector<Array> arrays;
  const graph::Graph& graph = training.graph;
  for (std::size_t node = nodes.begin; node < std::min(nodes.end, training.update_begin); ++node) {
    for (const graph::ValueId id : graph.nodes[node].outputs) {
      if (id == graph::kNone || graph.value(id).role != graph::Role::kState) continue;
      const bool mean = !graph.value(id).name.ends_with(graph::kGradientSum);
      arrays.push_back({id, node, mean, mean ? 1 - graph.nodes[node].attrs.momentum : 0});
    }
  }
  return arrays;
}

std::vector<SummedValue> StepSum::summed(const graph::TrainingGraph& training, std::int64_t micro_batches,
                                         dist::Wire wire, SummedNodes nodes, const CutsOf& cuts_of) {
  std::vector<SummedValue> out{{"", {micro_batches * static_cast<std::int64_t>(kSlots) + 1}}};
  for (const Array& array : arrays_of(training, nodes)) {
    const graph::Value& value = training.graph.value(array.value);
    dist::SummedArray& of = out.emplace_back(SummedValue{value.name, {elements_of(value)}}).array;
    if (array.mean) continue;
    of.wire = wire;
    of.owned = static_cast<bool>(cuts_of);
    if (cuts_of) of.cuts = cuts_of(of.count);
  }
  return out;
}

StepSum::StepSum(const graph::TrainingGraph& training, std::int64_t micro_batches, dist::Communicator& ranks,
                 dist::Wire wire, bool in_background, SummedNodes nodes, const CutsOf& cuts_of, int waiting)
    : training_(training),
      micro_batches_(micro_batches),
      arrays_(arrays_of(training, nodes)),
      sum_(ranks, static_cast<int>(micro_batches), sizes_of(summed(training, micro_batches, wire, nodes, cuts_of)),
           in_background, waiting),
      part_(sum_.terms().begin),
      waits_(waiting > 0) {
  for (const Array& array : arrays_) elements_ += elements_of(training.graph.value(array.value));
}

StepSum::Means StepSum::means_in(graph::Session& session) const {
  Means out(arrays_.size());
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (!arrays_[i].mean) continue;
    const graph::Value& value = training_.graph.value(arrays_[i].value);
    const auto* const data = static_cast<const float*>(session.state(value.name));
    out[i].assign(data, data + elements_of(value));
  }
  return out;
}

// Each micro-batch begins with the statistics of before the step. Those in the session are what the last one has made.
void StepSum::begin_part(graph::Session& session, std::int64_t labels) {
  const bool first = part_ == terms().begin, set = !first || !before_.empty();
  labels_ = labels;
  taken_ = 0;
  counters_taken_ = false;
  if (before_.empty()) current_ = means_in(session);
  if (first) before_.push_back(current_);
  for (std::size_t i = 0; set && i < arrays_.size(); ++i)
    if (arrays_[i].mean) session.set_state(arrays_[i].value, raw_bytes_of(before_.back()[i]));
}

void StepSum::take(graph::Session& session, std::size_t node) {
  if (node + 1 >= training_.loss_end && !counters_taken_) take_counters(session);
  std::size_t end = taken_;
  while (end < arrays_.size() && arrays_[end].node <= node) ++end;
  take_arrays(session, end);
}

void StepSum::take_counters(graph::Session& session) {
  counters_taken_ = true;
  counters_.assign(static_cast<std::size_t>(micro_batches_) * kSlots + 1, 0.0f);
  float* const own = counters_.data() + static_cast<std::size_t>(part_) * kSlots;
  if (training_.loss != graph::kNone) own[kLoss] = scalar<float>(session.value(training_.loss));
  own[kLabels] = static_cast<float>(labels_);
  if (training_.correct != graph::kNone) {
    own[kCorrect] = static_cast<float>(scalar<std::int32_t>(session.value(training_.correct)));
    own[kCounted] = static_cast<float>(scalar<std::int32_t>(session.value(training_.counted)));
  }
  if (part_ + 1 == terms().end && asked_to_stop_) counters_.back() = 1.0f;
  sum_.add(0, counters_);
}

void StepSum::take_arrays(graph::Session& session, std::size_t end) {
  for (; taken_ < end; ++taken_) sum_.add(taken_ + 1, floats(session.value(arrays_[taken_].value)));
}

void StepSum::end_part(graph::Session& session) {
  if (!counters_taken_) take_counters(session);
  take_arrays(session, arrays_.size());
  sum_.end_term();
  if (++part_ == terms().end) part_ = terms().begin;
}

// The loss of a micro-batch without labels is 0.
StepSum::Totals StepSum::totals(std::int64_t& labels) {
  const std::span<const float> counters = sum_.sum(0);
  Totals out;
  double loss = 0;
  for (std::size_t part = 0; part < static_cast<std::size_t>(micro_batches_); ++part) {
    const float* const of = counters.data() + part * kSlots;
    labels += static_cast<std::int64_t>(of[kLabels]);
    loss += double{of[kLoss]} * double{of[kLabels]};
    out.correct += static_cast<std::int64_t>(of[kCorrect]);
    out.counted += static_cast<std::int64_t>(of[kCounted]);
  }
  out.loss = loss / static_cast<double>(std::max<std::int64_t>(1, labels));
  out.asked_to_stop = counters.back() > 0;
  return out;
}

StepSum::Totals StepSum::finish(graph::Session& session, Pool& pool, const std::function<void(Totals&)>& share) {
  sum_.wait();
  std::int64_t labels = 0;
  Totals out = totals(labels);
  if (share) share(out);
  const float by_label = 1.0f / static_cast<float>(std::max<std::int64_t>(1, labels));
  const float by_part = 1.0f / static_cast<float>(micro_batches_);
  const auto write = [&](std::int64_t i) {
    const Array& array = arrays_[static_cast<std::size_t>(i)];
    const std::span<float> sum = sum_.own(static_cast<std::size_t>(i) + 1);
    for (float& element : sum) element *= array.mean ? by_part : by_label;
    if (sum_.is_owned(static_cast<std::size_t>(i) + 1)) return;
    if (array.mean && waits_) take_mean(static_cast<std::size_t>(i), sum);
    session.set_state(array.value, raw_bytes_of(sum));
  };
  const auto count = static_cast<std::int64_t>(std::isfinite(out.loss) ? arrays_.size() : 0);
  if (elements_ > kFew) {
    pool.run(count, write);
  } else {
    for (std::int64_t i = 0; i < count; ++i) write(i);  // waking other threads would take longer
  }
  before_.pop_front();
  return out;
}

// The step began with statistics that lack those of the steps before it that waited: with the newer ones it would have
// kept the same share of them.
void StepSum::take_mean(std::size_t i, std::span<float> mean) {
  const std::vector<float>& before = before_.front()[i];
  for (std::size_t at = 0; at < mean.size(); ++at) {
    mean[at] += arrays_[i].kept * (current_[i][at] - before[at]);
    current_[i][at] = mean[at];
  }
}

std::vector<graph::Tensors> StepSum::waiting() {
  sum_.settle();
  std::vector<graph::Tensors> out(static_cast<std::size_t>(sum_.waits()));
  for (int step = 0; step < sum_.waits(); ++step) {
    graph::Tensors& tensors = out[static_cast<std::size_t>(step)];
    std::vector<float> counters(sum_.sum_of_waiting(step, 0).begin(), sum_.sum_of_waiting(step, 0).end());
    counters.back() = 0;  // whoever goes on was not asked to stop
    tensors[kCounters] = tensor_of(counters);
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const std::string& name = training_.graph.value(arrays_[i].value).name;
      tensors[name] = tensor_of(sum_.sum_of_waiting(step, i + 1));
      if (arrays_[i].mean) tensors[name + kBefore] = tensor_of(before_[static_cast<std::size_t>(step)][i]);
    }
  }
  return out;
}

void StepSum::take_back(graph::Session& session, const std::vector<graph::Tensors>& waiting) {
  current_ = means_in(session);
  for (const graph::Tensors& tensors : waiting) {
    const std::vector<std::span<float>> sums = sum_.restore();
    copy_named(tensors, kCounters, sums[0]);
    Means& before = before_.emplace_back(current_);  // of the right sizes
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const std::string& name = training_.graph.value(arrays_[i].value).name;
      copy_named(tensors, name, sums[i + 1]);
      if (arrays_[i].mean) copy_named(tensors, name + kBefore, before[i]);
    }
  }
}

}  // namespace mlx::train
