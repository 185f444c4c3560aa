// See live.h.
#include "monitor/live.h"

#include <algorithm>
#include <new>
#include <utility>

#include "monitor/observe.h"

namespace mlx::monitor {

Live::Live(std::shared_ptr<const infer::Model> model, const Reference& reference, std::uint64_t window,
           const DriftOptions& options)
    : model_(std::move(model)),
      columns_(as_fed(*model_, reference.columns)),
      size_(window),
      options_(options),
      window_(columns_),
      persistence_(options.persist),
      thread_([this] { work(); }) {}

Live::~Live() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Live::answered(std::vector<float> examples, std::vector<float> logits) {
  Part part{std::move(examples), std::move(logits)};
  {
    const std::lock_guard lock(mutex_);
    if (waiting_floats_ + part.size() > kMostWaiting) {
      state_.dropped += part.logits.size() / static_cast<std::size_t>(model_->signature().width());
      return;
    }
    waiting_floats_ += part.size();
    waiting_.push_back(std::move(part));
  }
  changed_.notify_one();
}

Live::State Live::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::vector<std::string> Live::take_news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void Live::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const Part part = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_floats_ -= part.size();
    lock.unlock();
    bool seen = true;
    try {
      look_at(part);
    } catch (const std::bad_alloc&) {
      seen = false;  // a server without memory goes on answering
    }
    lock.lock();
    if (!seen) state_.dropped += part.logits.size() / static_cast<std::size_t>(model_->signature().width());
  }
}

// A window may end within a request.
void Live::look_at(const Part& part) {
  const std::int64_t width = model_->signature().width(), size = model_->signature().example;
  const std::int64_t count = static_cast<std::int64_t>(part.logits.size()) / width;
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t room = static_cast<std::int64_t>(size_ - window_.items());
    const std::int64_t taken = std::min(count - i, room);
    observe_fed(*model_, part.examples.data() + i * size, {part.logits.data() + i * width, taken, width}, window_);
    i += taken;
    {
      const std::lock_guard lock(mutex_);
      state_.items += static_cast<std::uint64_t>(taken);
    }
    if (window_.items() == size_) judge();
  }
}

void Live::judge() {
  Drift drift = compare(columns_, window_, options_);
  persistence_.see(drift);
  window_.clear();
  const std::lock_guard lock(mutex_);
  ++state_.windows;
  state_.columns = std::move(drift.columns), state_.drifted = persistence_.drifted();
  if (!state_.drifted.empty()) ++state_.drifted_windows;
  for (const std::string& name : state_.drifted)
    if (std::ranges::find(news_, name) == news_.end()) news_.push_back(name);
}

}  // namespace mlx::monitor
