// Rounds of local SGD. All that workers compute together is summed in the tree of dist/sum_tree.h, so that the same
// workers get the same bits again.
#include "train/loop/local_sgd.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "dist/collectives.h"
#include "train/loop/share_state.h"

namespace mlx::train {
namespace {

constexpr int kTag = dist::Communicator::kTags - 2;
constexpr double kLookEvery = 0.05;  // seconds

std::int64_t count_of(const graph::Value& value) {
  std::int64_t count = 1;
  for (const graph::Dim& dim : value.dims) count *= dim.bound({});
  return count;
}

std::vector<float> floats_in(const graph::Tensor& tensor) {
  std::vector<float> out(tensor.data.size() / sizeof(float));
  std::memcpy(out.data(), tensor.data.data(), tensor.data.size());
  return out;
}

// Another worker's state, alone in a message.
WorkerState only_worker(const Bytes& bytes, int rank) {
  CheckpointState state = decode_checkpoint(bytes, fmt::format("rank {}'s state", rank));
  if (state.local.workers.empty()) fail(ErrorKind::kCorrupt, "rank {} has sent no state", rank);
  state.local.workers[0].tensors = std::move(state.tensors);  // of worker 0 they have no prefix
  return std::move(state.local.workers[0]);
}

// The same step of all workers.
StepOutcome together(const std::vector<std::vector<StepRecord>>& workers, std::size_t step) {
  StepOutcome out;
  double labels = 0;
  for (const std::vector<StepRecord>& worker : workers) {
    const StepRecord& own = worker[step];
    out.loss += own.loss * own.labels;
    labels += own.labels;
    out.gradient_norm += own.gradient_norm / static_cast<double>(workers.size());
    out.correct += own.correct;
    out.counted += own.counted;
  }
  out.loss /= std::max(1.0, labels);
  return out;
}

}  // namespace

TrainConfig config_of_rank(TrainConfig config) {
  if (config.local_sgd.wanted()) config.batch /= config.local_sgd.workers;
  return config;
}

LocalSgd::LocalSgd(dist::Communicator& ranks, const LocalSgdConfig& config, dist::Wire wire, std::int64_t steps)
    : ranks_(ranks), config_(config), wire_(wire), steps_(steps), words_(static_cast<std::size_t>(ranks.ranks())) {
  CHECK(config.workers == ranks.ranks());
}

// Of the forward graph, and averages of its weights: all else is the optimizer's.
std::vector<LocalSgd::Array> LocalSgd::arrays_of(const graph::Graph& training, const graph::Graph& forward) {
  std::vector<Array> out;
  for (std::size_t i = 0; i < training.values.size(); ++i) {
    const graph::Value& value = training.values[i];
    const bool weight = value.role == graph::Role::kParameter;
    const bool mean = value.role == graph::Role::kState &&
                      (value.name.ends_with(graph::kAverage) || forward.find(value.name) != graph::kNone);
    if (!weight && !mean) continue;
    const auto count = static_cast<std::size_t>(count_of(value));
    out.push_back({static_cast<graph::ValueId>(i), value.name, count, weight, {}, {}});
  }
  return out;
}

std::span<const float> LocalSgd::floats_of(TrainingStep& training, const Array& array) {
  return {static_cast<const float*>(training.session().state(array.name)), array.count};
}

bool LocalSgd::is_exchanged(const std::string& name) const {
  return std::ranges::any_of(arrays_, [&](const Array& array) { return array.name == name; });
}

std::int64_t LocalSgd::round_end() const {
  return std::min(begin_ + config_.sync_every, (begin_ / steps_ + 1) * steps_);
}

void LocalSgd::share(CheckpointState& state) {
  const bool first = ranks_.rank() == 0;
  const auto workers = static_cast<std::size_t>(config_.workers);
  std::vector<WorkerState> all = std::exchange(state.local.workers, {});
  if (first && all.empty()) all.assign(workers, {.step = state.step, .round = {}, .tensors = {}});
  if (first && all.size() != workers) {
    throw Error(ErrorKind::kConflict,
                fmt::format("the checkpoint has {} workers, and there are {}", all.size(), workers),
                "local SGD continues with as many ranks as it began with");
  }
  state.local.workers.resize(1);  // a state with an outer step
  share_state(ranks_, state);
  WorkerState own = first ? std::move(all[0]) : WorkerState{};
  for (std::size_t i = 1; first && i < workers; ++i) {
    CheckpointState of;
    of.tensors = std::exchange(all[i].tensors, {});
    of.local.workers = {std::move(all[i])};
    dist::send_bytes(ranks_, static_cast<int>(i), encode_checkpoint(of));
  }
  if (!first) own = only_worker(dist::receive_bytes(ranks_, 0), 0);
  weights_ = std::move(state.local.weights);
  momentum_ = std::move(state.local.momentum);
  state.local = {};
  own.tensors.merge(state.tensors);
  state.tensors = std::move(own.tensors);
  state.step = step_ = own.step;
  round_ = std::move(own.round);
  begin_ = step_ - static_cast<std::int64_t>(round_.size());
}

void LocalSgd::start(TrainingStep& training) {
  arrays_ = arrays_of(training.graph(), training.forward());
  std::vector<dist::GradientSum::Array> sizes;
  for (Array& array : arrays_) {
    sizes.push_back({static_cast<std::int64_t>(array.count), array.weight ? wire_ : dist::Wire::kF32});
    if (!array.weight) continue;
    const auto before = weights_.find(array.name), momentum = momentum_.find(array.name);
    const std::span<const float> now = floats_of(training, array);
    array.before = before == weights_.end() ? std::vector<float>(now.begin(), now.end()) : floats_in(before->second);
    array.momentum = momentum == momentum_.end() ? std::vector<float>(array.count) : floats_in(momentum->second);
    if (array.before.size() != array.count || array.momentum.size() != array.count)
      fail(ErrorKind::kCorrupt, "the checkpoint's outer step of '{}' has another size", array.name);
  }
  weights_.clear(), momentum_.clear();
  sum_ = std::make_unique<dist::GradientSum>(ranks_, static_cast<int>(config_.workers), sizes);
}

void LocalSgd::add(std::int64_t step, const StepOutcome& outcome, bool counts) {
  step_ = step;
  round_.push_back({.loss = outcome.loss,
                    .labels = counts ? static_cast<double>(outcome.counted) : 1.0,
                    .gradient_norm = outcome.gradient_norm,
                    .correct = outcome.correct,
                    .counted = outcome.counted});
}

void LocalSgd::begin_round() {
  if (std::exchange(listens_, true)) return;
  looked_ = seconds_now();
  for (int from = 0; from < ranks_.ranks(); ++from) {
    words_[static_cast<std::size_t>(from)] = {};
    if (from == ranks_.rank()) continue;
    hearing_.push_back(ranks_.receive(from, kTag, &words_[static_cast<std::size_t>(from)], sizeof(Word)));
  }
}

bool LocalSgd::others_stop() {
  begin_round();
  if (seconds_now() - looked_ < kLookEvery) return false;
  looked_ = seconds_now();
  bool out = false;
  std::size_t from = 0;
  for (dist::Communicator::Transfer& one : hearing_) {
    if (from == static_cast<std::size_t>(ranks_.rank())) ++from;
    if (ranks_.advance({&one, 1}) && words_[from].kind != Word::kArrived) out = true;
    ++from;
  }
  ranks_.activity().waits_for = -1;
  return out;
}

LocalSgd::Word LocalSgd::meet(const Word& own) {
  begin_round();
  const double began = seconds_now();
  std::vector<dist::Communicator::Transfer> saying;
  for (int to = 0; to < ranks_.ranks(); ++to)
    if (to != ranks_.rank()) saying.push_back(ranks_.send(to, kTag, &own, sizeof own));
  ranks_.wait(saying);
  ranks_.wait(hearing_);
  hearing_.clear();
  listens_ = false;
  words_[static_cast<std::size_t>(ranks_.rank())] = own;
  const double waited = seconds_now() - began;
  waited_ += waited;
  if (keeps_spans_) met_.push_back({-1, began, waited, 0});
  Word out = *std::ranges::max_element(words_, {}, &Word::kind);
  out.checkpoint = words_[0].checkpoint;
  return out;
}

std::string LocalSgd::meet_diverged(const std::string& what) {
  Word word{.kind = Word::kDiverged};
  const std::string text = ranks_.ranks() == 1 ? what : fmt::format("{} of {}", what, ranks_.name());
  std::copy_n(text.data(), std::min(text.size(), word.what.size() - 1), word.what.data());
  return meet(word).what.data();
}

std::vector<StepOutcome> LocalSgd::exchange(TrainingStep& training, Pool& pool) {
  std::vector<float> moved;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const Array& array = arrays_[i];
    const std::span<const float> now = floats_of(training, array);
    if (!array.weight) {
      sum_->add(i, now);
      continue;
    }
    moved.resize(now.size());
    for (std::size_t at = 0; at < now.size(); ++at) moved[at] = array.before[at] - now[at];
    sum_->add(i, moved);
  }
  sum_->end_term();
  sum_->wait();
  pool.run(static_cast<std::int64_t>(arrays_.size()),
           [&](std::int64_t i) { take_outer_step(training, static_cast<std::size_t>(i)); });
  sum_->end_step();
  std::vector<StepOutcome> outcomes = gather_outcomes();
  begin_ = step_;
  round_.clear();
  return outcomes;
}

// Nesterov's momentum in the form of Sutskever et al. 2013, as of the inner sgd.
void LocalSgd::take_outer_step(TrainingStep& training, std::size_t i) {
  Array& array = arrays_[i];
  const std::span<float> sum = sum_->sum(i);
  const float share = 1.0f / static_cast<float>(config_.workers);
  const auto rate = static_cast<float>(config_.learning_rate), momentum = static_cast<float>(config_.momentum);
  for (std::size_t at = 0; at < sum.size(); ++at) {
    const float mean = sum[at] * share;
    if (!array.weight) {
      sum[at] = mean;
      continue;
    }
    array.momentum[at] = momentum * array.momentum[at] + mean;
    sum[at] = array.before[at] -= rate * (mean + momentum * array.momentum[at]);
  }
  training.session().set_state(array.value, {reinterpret_cast<const std::uint8_t*>(sum.data()), sum.size_bytes()});
}

std::vector<StepOutcome> LocalSgd::gather_outcomes() {
  std::vector<std::vector<StepRecord>> all(static_cast<std::size_t>(config_.workers), round_);
  std::vector<dist::Communicator::Transfer> transfers;
  const std::size_t bytes = round_.size() * sizeof(StepRecord);
  if (ranks_.rank() > 0) transfers.push_back(ranks_.send(0, kTag, round_.data(), bytes));
  for (int from = 1; ranks_.rank() == 0 && from < ranks_.ranks(); ++from)
    transfers.push_back(ranks_.receive(from, kTag, all[static_cast<std::size_t>(from)].data(), bytes));
  ranks_.wait(transfers);
  std::vector<StepOutcome> out;
  for (std::size_t step = 0; ranks_.rank() == 0 && step < round_.size(); ++step) out.push_back(together(all, step));
  return out;
}

graph::Tensors LocalSgd::outer(const graph::Tensors& like, std::vector<float> Array::*part) const {
  graph::Tensors out;
  for (const Array& array : arrays_) {
    if (!array.weight) continue;
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>((array.*part).data());
    graph::Tensor& tensor = out[array.name];
    tensor.shape = like.at(array.name).shape;
    tensor.data.assign(bytes, bytes + (array.*part).size() * sizeof(float));
  }
  return out;
}

void LocalSgd::gather(CheckpointState& state, bool between_rounds) {
  WorkerState own{.step = step_, .round = round_, .tensors = {}};
  if (ranks_.rank() > 0) {
    CheckpointState out;
    out.tensors = std::move(state.tensors);
    if (between_rounds) std::erase_if(out.tensors, [&](const auto& entry) { return is_exchanged(entry.first); });
    out.local.workers = {std::move(own)};
    return dist::send_bytes(ranks_, 0, encode_checkpoint(out));
  }
  if (!between_rounds) state.local.weights = outer(state.tensors, &Array::before);
  state.local.momentum = outer(state.tensors, &Array::momentum);
  state.local.workers = {std::move(own)};
  for (int from = 1; from < ranks_.ranks(); ++from)
    state.local.workers.push_back(only_worker(dist::receive_bytes(ranks_, from), from));
}

bool LocalSgd::first_says(bool own) {
  Bytes bytes{static_cast<std::uint8_t>(own ? 1 : 0)};
  dist::broadcast(ranks_, 0, bytes);
  return bytes.at(0) != 0;
}

Digest LocalSgd::common_digest(TrainingStep& training) const {
  Sha256 hash;
  for (const Array& array : arrays_) {
    for (const std::span<const float> floats : {floats_of(training, array), std::span<const float>(array.momentum)})
      hash.update({reinterpret_cast<const std::uint8_t*>(floats.data()), floats.size_bytes()});
  }
  return hash.finish();
}

void LocalSgd::keep_spans(bool on) {
  keeps_spans_ = on;
  sum_->keep_spans(on);
}

std::vector<dist::GradientSum::Span> LocalSgd::spans() const {
  std::vector<dist::GradientSum::Span> out = sum_->spans();
  out.insert(out.end(), met_.begin(), met_.end());
  return out;
}

dist::GradientSum::Cost LocalSgd::cost() const {
  dist::GradientSum::Cost out = sum_->cost();
  out.waiting += waited_;
  return out;
}

LocalSgd::Memory LocalSgd::memory(const graph::Graph& training, const graph::Graph& forward,
                                  const LocalSgdConfig& config, dist::Wire wire) {
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(float));
  std::int64_t weights = 0, exchanged = 0, all = 0;
  for (const Array& array : arrays_of(training, forward)) {
    exchanged += static_cast<std::int64_t>(array.count) * kElement;
    if (array.weight) weights += static_cast<std::int64_t>(array.count) * kElement;
  }
  for (const graph::Value& value : training.values) {
    const bool held = value.role == graph::Role::kParameter || value.role == graph::Role::kState;
    if (held && !value.name.ends_with(graph::kGradientSum)) all += count_of(value) * kElement;
  }
  const int workers = static_cast<int>(config.workers);
  return {2 * weights + dist::GradientSum::memory(exchanged, workers, workers, wire),
          2 * weights + (workers - 1) * all};
}

}  // namespace mlx::train
