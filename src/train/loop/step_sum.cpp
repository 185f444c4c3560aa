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

constexpr std::int64_t kFew = 1 << 16;  // elements

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
      arrays.push_back({id, node, !graph.value(id).name.ends_with(graph::kGradientSum)});
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
                 dist::Wire wire, bool in_background, SummedNodes nodes, const CutsOf& cuts_of)
    : training_(training),
      micro_batches_(micro_batches),
      arrays_(arrays_of(training, nodes)),
      sum_(ranks, static_cast<int>(micro_batches), sizes_of(summed(training, micro_batches, wire, nodes, cuts_of)),
           in_background),
      part_(sum_.terms().begin),
      before_(arrays_.size()) {
  for (const Array& array : arrays_) elements_ += elements_of(training.graph.value(array.value));
}

void StepSum::begin_part(graph::Session& session, std::int64_t labels) {
  const bool first = part_ == terms().begin;
  labels_ = labels;
  taken_ = 0;
  counters_taken_ = false;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const graph::Value& value = training_.graph.value(arrays_[i].value);
    if (!arrays_[i].mean) continue;
    if (!first) {
      session.set_state(arrays_[i].value, before_[i]);
      continue;
    }
    const auto* const data = static_cast<const std::uint8_t*>(session.state(value.name));
    before_[i].assign(data, data + elements_of(value) * static_cast<std::int64_t>(sizeof(float)));
  }
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
  ++part_;
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
    session.set_state(array.value, {reinterpret_cast<const std::uint8_t*>(sum.data()), sum.size_bytes()});
  };
  const auto count = static_cast<std::int64_t>(std::isfinite(out.loss) ? arrays_.size() : 0);
  if (elements_ > kFew) {
    pool.run(count, write);
  } else {
    for (std::int64_t i = 0; i < count; ++i) write(i);  // waking other threads would take longer
  }
  part_ = terms().begin;
  return out;
}

}  // namespace mlx::train
