// Buckets and the thread that exchanges them, in the order in which they are filled. That order is the same on all
// ranks, because all run the same graph.
#include "dist/gradient_sum.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <future>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace mlx::dist {

namespace {

// How long the thread leaves messages alone if steps may wait and nobody waits for sums: asking for messages takes time
// of the cores that compute.
constexpr std::chrono::microseconds kShortestRest{50}, kLongestRest{1000};

}  // namespace

GradientSum::GradientSum(Communicator& communicator, int terms, const std::vector<Array>& arrays, bool in_background,
                         int waiting)
    : communicator_(communicator),
      held_(terms_of(communicator.rank(), communicator.ranks(), terms)),
      term_(held_.begin),
      layout_(layout_of(arrays, communicator.ranks())),
      open_(static_cast<std::size_t>(waiting) + 1),
      thread_(communicator.ranks() > 1 && in_background ? std::make_unique<Background>() : nullptr) {
  for (const BucketLayout::Bucket& of : layout_.buckets) {
    const TreeSum sum(of.elements, communicator.rank(), communicator.ranks(), terms, of.wire, of.bounds);
    buckets_.push_back({std::vector<TreeSum>(open_.size(), sum), of.arrays, of.arrays});
  }
}

GradientSum::~GradientSum() = default;

// What is on its way at the same time has different tags.
int GradientSum::tag_of(std::size_t bucket, std::size_t slot) const {
  return static_cast<int>((slot * buckets_.size() + bucket) % (Communicator::kTags - 2));
}

void GradientSum::add(std::size_t i, std::span<const float> data) {
  const BucketLayout::Place& place = layout_.places[i];
  Bucket& bucket = buckets_[place.bucket];
  CHECK(bucket.missing > 0 && static_cast<std::int64_t>(data.size()) == place.count);
  TreeSum& sum = bucket.sums[slot_of(made_)];
  sum.put(place.begin, data);
  if (--bucket.missing > 0) return;
  sum.add();
  if (!sum.is_complete() || !thread_) return;
  const std::size_t slot = slot_of(made_);
  {
    const std::lock_guard lock(mutex_);
    ++open_[slot];
  }
  post([this, slot, at = place.bucket] { exchange(at, slot); });
}

void GradientSum::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    ++posted_;
    wake_.notify_one();
  }
  thread_->post([this, job = std::move(job)] {
    try {
      job();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failed_ = true;
      changed_.notify_all();
      throw;
    }
  });
}

void GradientSum::between(const std::function<void()>& exchange) {
  if (!thread_) return exchange();
  const auto done = std::make_shared<std::promise<void>>();  // the thread may still be in it when this goes on
  post([&exchange, done, this] {
    ++begun_;
    try {
      exchange();
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
    }
    see_to_under_way();
  });
  done->get_future().get();
}

// Until the thread has another job.
void GradientSum::see_to_under_way() {
  for (auto most = kShortestRest; !under_way_.empty() && posted_ == begun_; most = std::min(2 * most, kLongestRest)) {
    advance_all();
    if (open_.size() > 1) rest(most);
  }
}

// Begins a bucket's exchange, and sees to those that are under way until the next bucket is filled.
void GradientSum::exchange(std::size_t bucket, std::size_t slot) {
  const double began = seconds_now();
  TreeSum& sum = buckets_[bucket].sums[slot];
  const std::int64_t sent = sum.begin(communicator_, tag_of(bucket, slot));
  under_way_.push_back({&sum, slot, {static_cast<int>(bucket), began, 0, sent}});
  ++begun_;
  see_to_under_way();
  const std::lock_guard lock(mutex_);
  cost_.exchanging += seconds_now() - began;
  cost_.bytes_sent += sent;
}

void GradientSum::rest(std::chrono::microseconds most) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, most, [this] { return awaited_ || posted_ != begun_; });
}

// What is under way: each may wait for a message before it sends the next. If nothing ends, waits for the first a
// little.
void GradientSum::advance_all() {
  for (std::size_t i = 0; i < under_way_.size();) {
    if (!under_way_[i].sum->advance(communicator_, i > 0)) {
      ++i;
      continue;
    }
    under_way_[i].span.seconds = seconds_now() - under_way_[i].span.start;
    keep(under_way_[i].span);
    const std::size_t slot = under_way_[i].slot;
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
    const std::lock_guard lock(mutex_);
    --open_[slot];
    changed_.notify_all();
  }
}

void GradientSum::gather(std::size_t at) {
  CHECK(open_.size() == 1);
  const double began = seconds_now();
  TreeSum& sum = buckets_[at].sums[first_];
  const std::int64_t sent = sum.gather(communicator_, tag_of(at, first_));
  under_way_.push_back({&sum, first_, {static_cast<int>(at), began, 0, sent}});
  {
    const std::lock_guard lock(mutex_);
    ++open_[first_];
  }
  advance_all();
  const std::lock_guard lock(mutex_);
  cost_.exchanging += seconds_now() - began;
  cost_.bytes_sent += sent;
}

void GradientSum::finish_gathers() {
  const double began = seconds_now();
  while (!under_way_.empty()) advance_all();
  const double seconds = seconds_now() - began;
  keep({-1, began, seconds, 0});
  const std::lock_guard lock(mutex_);
  cost_.exchanging += seconds;
  cost_.waiting += seconds;
}

void GradientSum::end_term() {
  for (Bucket& bucket : buckets_) {
    CHECK(bucket.missing == 0);
    bucket.missing = bucket.arrays;
  }
  if (++term_ < held_.end) return;
  term_ = held_.begin;
  ++made_;
}

void GradientSum::wait() {
  CHECK(made_ > 0);
  const double began = seconds_now();
  if (thread_ && open_.size() > 1) {
    std::unique_lock lock(mutex_);
    awaited_ = true;
    wake_.notify_one();
    changed_.wait(lock, [this] { return failed_ || open_[first_] == 0; });
    awaited_ = false;
    const bool failed = failed_;
    lock.unlock();
    if (failed) thread_->wait();  // throws it
  } else if (thread_) {
    thread_->wait();
  }
  for (std::size_t at = 0; !thread_ && communicator_.ranks() > 1 && at < buckets_.size(); ++at) {
    ++posted_;
    {
      const std::lock_guard lock(mutex_);
      ++open_[first_];
    }
    exchange(at, first_);
  }
  const double seconds = seconds_now() - began;
  keep({-1, began, seconds, 0});
  const std::lock_guard lock(mutex_);
  cost_.waiting += seconds;
}

void GradientSum::settle() {
  if (!thread_) return;
  {
    const std::lock_guard lock(mutex_);
    awaited_ = true;
    wake_.notify_one();
  }
  thread_->wait();
  const std::lock_guard lock(mutex_);
  awaited_ = false;
}

void GradientSum::keep(const Span& span) {
  const std::lock_guard lock(mutex_);
  if (keeps_spans_) spans_.push_back(span);
}

std::span<float> GradientSum::sum_in(std::size_t slot, std::size_t i) {
  const BucketLayout::Place& place = layout_.places[i];
  return {buckets_[place.bucket].sums[slot].result() + place.begin, static_cast<std::size_t>(place.count)};
}

std::span<float> GradientSum::sum(std::size_t i) {
  return sum_in(first_, i);
}

std::span<const float> GradientSum::sum_of_waiting(int step, std::size_t i) const {
  const BucketLayout::Place& place = layout_.places[i];
  const TreeSum& sum = buckets_[place.bucket].sums[slot_of(step)];
  return {sum.result() + place.begin, static_cast<std::size_t>(place.count)};
}

std::vector<std::span<float>> GradientSum::restore() {
  CHECK(static_cast<std::size_t>(made_) + 1 < open_.size());
  const std::size_t slot = slot_of(made_++);
  for (Bucket& bucket : buckets_) bucket.sums[slot].restore();
  std::vector<std::span<float>> out;
  for (std::size_t i = 0; i < arrays(); ++i) out.push_back(sum_in(slot, i));
  return out;
}

std::span<float> GradientSum::own(std::size_t i) {
  const std::span<float> all = sum(i);
  if (!is_owned(i)) return all;
  const ArrayPiece piece = piece_of(layout_, i, communicator_.rank());
  return all.subspan(static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.size()));
}

void GradientSum::end_step() {
  CHECK(made_ > 0);
  for (Bucket& bucket : buckets_) bucket.sums[first_].clear();
  first_ = slot_of(1);
  --made_;
}

// A node of each level of the tree over the rank's own terms, and one more of a share that is no node; and what
// arrives: a chunk of each node of each other rank, or half of the array in rounds, of two ranks the whole.
std::int64_t GradientSum::memory(std::int64_t bytes, int ranks, int terms, Wire wire, bool shared_anew) {
  const bool uneven = shared_anew && ranks > 1;
  const auto own = static_cast<unsigned>(uneven ? most_of_shares(ranks, terms) : (terms + ranks - 1) / ranks);
  const std::int64_t nodes = std::max<std::int64_t>(1, std::bit_width(own - 1)) + (uneven ? 1 : 0);
  if (!uneven && TreeSum::halves(ranks)) return bytes * nodes + (ranks == 2 ? bytes : bytes / 2);
  const std::int64_t arriving = (ranks > 1 ? bytes : 0) * (uneven ? 2 : 1);
  const std::int64_t packed =
      wire == Wire::kBF16 ? arriving : 0;  // what leaves and what arrives, of half the size each
  return bytes * nodes + arriving + packed;
}

void GradientSum::share(const Shares& shares) {
  held_ = shares[static_cast<std::size_t>(communicator_.rank())];
  term_ = held_.begin;
  for (Bucket& bucket : buckets_)
    for (TreeSum& sum : bucket.sums) sum.share(shares);
}

void GradientSum::keep_spans(bool on) {
  const std::lock_guard lock(mutex_);
  keeps_spans_ = on;
}

std::vector<GradientSum::Span> GradientSum::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

GradientSum::Cost GradientSum::cost() const {
  const std::lock_guard lock(mutex_);
  return cost_;
}

}  // namespace mlx::dist
