// The batching thread: take what waits, gather it into the session's input, run, scatter the logits.
#include "serve/batcher.h"

#include <algorithm>
#include <exception>

#include "base/clock.h"

namespace mlx::serve {

Batcher::Batcher(infer::Session& session, std::int64_t queue_limit, ModelMetrics& metrics)
    : session_(session), queue_limit_(queue_limit), metrics_(metrics), thread_([this] { work(); }) {}

void Batcher::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool Batcher::submit(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_ > 0 && waiting_ + job->examples.count > queue_limit_) return false;
    waiting_ += job->examples.count;
    queue_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

std::int64_t Batcher::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

// Waits for jobs; empty at the end.
std::vector<Batcher::Part> Batcher::take(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  std::vector<Part> parts;
  for (std::int64_t room = session_.max_batch(); room > 0 && !queue_.empty();) {
    const std::shared_ptr<Job> job = queue_.front();
    const std::int64_t count = std::min(room, job->examples.count - taken_of_first_);
    parts.push_back({job, taken_of_first_, count});
    taken_of_first_ += count;
    waiting_ -= count;
    room -= count;
    if (taken_of_first_ == job->examples.count) {
      queue_.pop_front();
      taken_of_first_ = 0;
    }
  }
  return parts;
}

void Batcher::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    std::vector<Part> parts = take(lock);
    lock.unlock();
    if (parts.empty()) return;
    compute(parts);
    for (Part& part : parts) {
      if (part.first + part.count != part.job->examples.count) continue;
      const auto done = std::move(part.job->done);
      done(std::move(part.job));
    }
  }
}

void Batcher::compute(const std::vector<Part>& parts) {
  const std::int64_t example = session_.model().signature().example;
  const double started = seconds_now();
  std::int64_t count = 0;
  for (const Part& part : parts) {
    std::copy_n(part.job->examples.values.begin() + static_cast<std::ptrdiff_t>(part.first * example),
                part.count * example, session_.input() + count * example);
    count += part.count;
  }
  try {
    const infer::Logits logits = session_.run(count);
    const float* next = logits.values;
    for (const Part& part : parts) {
      part.job->logits.insert(part.job->logits.end(), next, next + part.count * logits.width);
      next += part.count * logits.width;
    }
  } catch (const std::exception& error) {
    for (const Part& part : parts) part.job->error = error.what();
  }
  metrics_.batch(count, seconds_now() - started);
}

}  // namespace mlx::serve
