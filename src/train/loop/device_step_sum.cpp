// What is summed and when, and what the host knows of it.
#include "train/loop/device_step_sum.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "dist/all_gather.h"

namespace mlx::train {
namespace {

std::vector<dist::SummedArray> sizes_on_device(const graph::TrainingGraph& training, std::int64_t micro_batches) {
  std::vector<dist::SummedArray> out;
  for (const SummedValue& value : StepSum::summed(training, micro_batches, dist::Wire::kF32, {}, {}))
    if (!value.name.empty()) out.push_back(value.array);
  return out;
}

std::size_t float_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(float);
}

}  // namespace

DeviceStepSum::DeviceStepSum(const graph::TrainingGraph& training, std::int64_t micro_batches,
                             dist::Communicator& ranks, const kernels::Device& device)
    : ranks_(ranks),
      device_(device),
      arrays_(StepSum::arrays_of(training, {})),
      sizes_(sizes_on_device(training, micro_batches)),
      links_(ranks.ranks() > 1 ? dist::join_devices(ranks, device) : nullptr),
      sum_(device, links_.get(), static_cast<int>(micro_batches), sizes_),
      before_(arrays_.size()),
      whole_{training.update_begin},
      micro_batches_(micro_batches) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (!arrays_[i].mean) continue;
    before_[i] = graph::allocate(float_bytes(count_of(i)), device);
    if (!before_[i]) fail(ErrorKind::kMissing, "GPU: no memory is left for running statistics");
  }
  for (const std::size_t last : sum_.ends_of_buckets()) in_stretches_.push_back(arrays_[last].node + 1);
  if (in_stretches_.empty() || in_stretches_.back() < training.update_begin)
    in_stretches_.push_back(training.update_begin);
  in_stretches_.erase(std::unique(in_stretches_.begin(), in_stretches_.end()), in_stretches_.end());
}

// What each rank has of each of its micro-batches, in the order of all of them.
template <typename T>
std::vector<T> DeviceStepSum::of_all(std::span<const T> own) {
  if (ranks_.ranks() == 1) return {own.begin(), own.end()};
  const double began = seconds_now();
  const auto terms = static_cast<int>(micro_batches_);
  const auto most = static_cast<std::size_t>((terms + ranks_.ranks() - 1) / ranks_.ranks());
  std::vector<T> sent(most), came(most * static_cast<std::size_t>(ranks_.ranks())), out;
  std::ranges::copy(own, sent.begin());
  const auto bytes = [](auto& values) { return reinterpret_cast<std::uint8_t*>(values.data()); };
  host_bytes_ +=
      dist::all_gather(ranks_, {bytes(sent), sent.size() * sizeof(T)}, {bytes(came), came.size() * sizeof(T)}).bytes;
  for (int rank = 0; rank < ranks_.ranks(); ++rank) {
    const auto first = came.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank) * most);
    out.insert(out.end(), first, first + dist::terms_of(rank, ranks_.ranks(), terms).size());
  }
  host_seconds_ += seconds_now() - began;
  return out;
}

void DeviceStepSum::begin_step(std::span<const std::int64_t> labels) {
  CHECK(static_cast<int>(labels.size()) == terms().size());
  labels_.assign(labels.begin(), labels.end());
  all_labels_ = 0;
  for (const std::int64_t of_part : of_all(labels)) all_labels_ += of_part;
  part_ = 0;
}

const std::vector<std::size_t>& DeviceStepSum::stretches(std::int64_t part) const {
  return links_ && part + 1 == terms().size() ? in_stretches_ : whole_;
}

// Each micro-batch begins with the statistics of before the step. Those in the session are what the last one has made.
void DeviceStepSum::begin_part(graph::Session& session) {
  taken_ = 0;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (!arrays_[i].mean) continue;
    void* const now = session.state_on_device(arrays_[i].value);
    void* const before = before_[i].get();
    device_.copy(part_ == 0 ? before : now, part_ == 0 ? now : before, float_bytes(count_of(i)), device_.stream);
  }
}

void DeviceStepSum::take(graph::Session& session, std::size_t end) {
  for (; taken_ < arrays_.size() && arrays_[taken_].node < end; ++taken_)
    sum_.add(taken_, static_cast<const float*>(session.state_on_device(arrays_[taken_].value)));
}

void DeviceStepSum::end_part() {
  sum_.end_term();
  ++part_;
}

void DeviceStepSum::finish(graph::Session& session) {
  sum_.finish();
  const float by_label = 1.0f / static_cast<float>(std::max<std::int64_t>(1, all_labels_));
  const float by_part = 1.0f / static_cast<float>(micro_batches_);
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    auto* const to = static_cast<float*>(session.state_on_device(arrays_[i].value));
    device_.scale(to, sum_.sum(i), arrays_[i].mean ? by_part : by_label, count_of(i), device_.stream);
  }
  sum_.end_step();
}

// The loss of a micro-batch without labels is 0.
StepSum::Totals DeviceStepSum::totals(std::vector<Counters> own, bool asked_to_stop) {
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i].labels = labels_.at(i);
    own[i].asked_to_stop = asked_to_stop ? 1 : 0;
  }
  StepSum::Totals out;
  std::int64_t labels = 0;
  for (const Counters& of : of_all<Counters>(own)) {
    labels += of.labels;
    out.loss += of.loss * static_cast<double>(of.labels);
    out.correct += of.correct;
    out.counted += of.counted;
    out.asked_to_stop = out.asked_to_stop || of.asked_to_stop != 0;
  }
  out.loss /= static_cast<double>(std::max<std::int64_t>(1, labels));
  return out;
}

dist::GradientSum::Cost DeviceStepSum::cost() const {
  return {sum_.bytes_sent() + host_bytes_, host_seconds_, host_seconds_};
}

std::int64_t DeviceStepSum::memory(const graph::TrainingGraph& training, std::int64_t micro_batches, int ranks) {
  const std::vector<dist::SummedArray> sizes = sizes_on_device(training, micro_batches);
  std::int64_t bytes = dist::DeviceSum::memory(sizes, ranks, static_cast<int>(micro_batches));
  const std::vector<StepSum::Array> arrays = StepSum::arrays_of(training, {});
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (arrays[i].mean) bytes += static_cast<std::int64_t>(float_bytes(sizes[i].count));
  return bytes;
}

}  // namespace mlx::train
