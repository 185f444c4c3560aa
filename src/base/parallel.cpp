// The thread pool and the background thread.
//
// A run() publishes a job that stands on the caller's stack; workers and the caller claim slices from its counter.
// Graph operations are short and follow each other closely, so threads spin for a moment before they sleep. The mutex
// guards the list of jobs and who is inside one; slices themselves are claimed without it.

#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/control_group.h"
#include "base/error.h"

namespace mlx {
namespace {

constexpr std::chrono::microseconds kSpin{40};

// True while this thread runs a body of any pool: a nested run() must not wait for threads that may wait for it.
thread_local bool t_inside_body = false;

class InsideBody {
 public:
  InsideBody() : before_(std::exchange(t_inside_body, true)) {}
  ~InsideBody() { t_inside_body = before_; }
  InsideBody(const InsideBody&) = delete;
  InsideBody& operator=(const InsideBody&) = delete;

 private:
  bool before_;
};

// Looks at `done` until it holds or kSpin has passed; returns whether it holds.
template <typename Condition>
bool spin_until(Condition done) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      __builtin_ia32_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace

namespace {

int cores_in_mask() {
  // The kernel's mask may be longer than cpu_set_t, so the buffer grows until it fits.
  for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 2) {
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(cpus) / sizeof(cpu_set_t));
    const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) == 0) return std::max(1, CPU_COUNT_S(bytes, mask.data()));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

// Those of its mask (sched_setaffinity(2)), or fewer where a control group has a quota: more threads than it allows
// would all be stopped together for the rest of each period.
int cores() {
  const int mask = cores_in_mask();
  const double quota = group_limits().cpus.value_or(mask);
  return quota < mask ? std::max(1, static_cast<int>(std::ceil(quota))) : mask;
}

struct Pool::Job {
  Job(std::int64_t slices, const std::function<void(std::int64_t)>& f, bool later = false)
      : count(slices), body(f), is_ahead(later) {}

  const std::int64_t count;
  const std::function<void(std::int64_t)>& body;
  const bool is_ahead;                            // nobody waits for it yet
  alignas(64) std::atomic<std::int64_t> next{0};  // first slice that nobody has claimed; at least `count` when all are
  alignas(64) std::atomic<int> workers{0};        // pool threads inside drain(); written under the pool's mutex
  std::atomic_flag failed;
  std::exception_ptr error;  // written by the one that set `failed`

  bool has_slices() const { return next.load(std::memory_order_relaxed) < count; }

  // Runs a slice; false if none is left.
  bool run_one() {
    const std::int64_t slice = next.fetch_add(1, std::memory_order_relaxed);
    if (slice >= count) return false;
    try {
      body(slice);
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
      leave_out_rest();
    }
    return true;
  }
  void drain() {
    const InsideBody inside;
    while (run_one()) {
    }
  }
  void leave_out_rest() { next.store(count, std::memory_order_relaxed); }
};

struct Pool::State {
  std::mutex mutex;
  std::condition_variable wake;         // workers: there is a job, or the end
  std::condition_variable finished;     // callers: a worker has left a job
  std::vector<Job*> jobs;               // whose callers are in run()
  std::atomic<std::uint64_t> epoch{0};  // counts published jobs and the end; written under the mutex
  int sleeping_workers = 0;
  int sleeping_callers = 0;
  bool stopping = false;
  std::vector<std::thread> workers;

  // The mutex is held. A job that somebody waits for comes first.
  Job* claimable() {
    Job* ahead = nullptr;
    for (Job* const job : jobs) {
      if (!job->has_slices()) continue;
      if (!job->is_ahead) return job;
      if (!ahead) ahead = job;
    }
    return ahead;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      if (Job* const job = claimable()) {
        help(*job, lock);
      } else if (stopping) {
        return;
      } else {
        await_change(lock);
      }
    }
  }

  void help(Job& job, std::unique_lock<std::mutex>& lock) {
    job.workers.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    if (job.is_ahead) {
      const InsideBody inside;
      job.run_one();
    } else {
      job.drain();
    }
    lock.lock();
    // From here on the caller may return, and the job be gone. Release: the caller sees what the slices wrote.
    const bool last = job.workers.fetch_sub(1, std::memory_order_release) == 1;
    if (last && sleeping_callers > 0) finished.notify_all();
  }

  void await_change(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t seen = epoch.load(std::memory_order_relaxed);
    const auto changed = [&] { return epoch.load(std::memory_order_relaxed) != seen; };
    lock.unlock();
    const bool soon = spin_until(changed);
    lock.lock();
    if (soon) return;
    ++sleeping_workers;
    wake.wait(lock, changed);
    --sleeping_workers;
  }

  void publish(Job& job) {
    int sleepers = 0;
    {
      const std::lock_guard lock(mutex);
      jobs.push_back(&job);
      epoch.fetch_add(1, std::memory_order_relaxed);
      sleepers = sleeping_workers;
    }
    // The publisher of a job runs slices itself, unless nobody waits for it yet.
    const std::int64_t for_others = job.count - (job.is_ahead ? 0 : 1);
    const auto useful = static_cast<int>(std::min<std::int64_t>(sleepers, for_others));
    if (useful == sleepers && sleepers > 1) return wake.notify_all();
    for (int i = 0; i < useful; ++i) wake.notify_one();
  }

  // Takes the job from the list, so that nobody enters any more, and waits for those inside.
  void withdraw(Job& job) {
    const auto all_left = [&] { return job.workers.load(std::memory_order_acquire) == 0; };
    {
      const std::lock_guard lock(mutex);
      std::erase(jobs, &job);
    }
    if (spin_until(all_left)) return;
    std::unique_lock lock(mutex);
    ++sleeping_callers;
    finished.wait(lock, all_left);
    --sleeping_callers;
  }
};

Pool::Pool(int threads) : state_(std::make_unique<State>()) {
  const int wanted = threads > 0 ? threads : cores();
  try {
    for (int i = 1; i < wanted; ++i) state_->workers.emplace_back([state = state_.get()] { state->work(); });
  } catch (const std::system_error&) {
    // The machine gives no more threads (ulimit -u): the pool works with those that it has.
  }
}

Pool::~Pool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->epoch.fetch_add(1, std::memory_order_relaxed);
  }
  state_->wake.notify_all();
  for (std::thread& worker : state_->workers) worker.join();
}

int Pool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void Pool::run(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  if (count <= 0) return;
  if (count == 1 || state_->workers.empty() || t_inside_body) {
    const InsideBody inside;
    for (std::int64_t slice = 0; slice < count; ++slice) body(slice);
    return;
  }
  Job job(count, body);
  state_->publish(job);
  job.drain();
  state_->withdraw(job);
  if (job.error) std::rethrow_exception(job.error);
}

Ahead::Ahead(Pool& pool) : pool_(*pool.state_) {}

Ahead::~Ahead() {
  stop();
}

void Ahead::start(std::int64_t count, std::function<void(std::int64_t)> body) {
  CHECK(!job_);
  body_ = std::move(body);
  job_ = std::make_unique<Pool::Job>(count, body_, true);
  pool_.publish(*job_);
}

void Ahead::wait() {
  if (!job_) return;
  job_->drain();
  pool_.withdraw(*job_);
  const std::unique_ptr<Pool::Job> done = std::move(job_);
  if (done->error) std::rethrow_exception(done->error);
}

void Ahead::stop() {
  if (!job_) return;
  job_->leave_out_rest();
  pool_.withdraw(*job_);
  job_.reset();
}

struct Background::State {
  std::mutex mutex;
  std::condition_variable posted;
  std::condition_variable idle;
  std::condition_variable taken;
  std::deque<std::function<void()>> jobs;
  bool busy = false;
  bool stopping = false;
  std::exception_ptr error;  // the first since the last wait()
  std::thread thread;

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      posted.wait(lock, [&] { return stopping || !jobs.empty(); });
      if (jobs.empty()) return;
      std::function<void()> job = std::move(jobs.front());
      jobs.pop_front();
      taken.notify_all();
      busy = true;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        job();
      } catch (...) {
        thrown = std::current_exception();
      }
      job = nullptr;  // what it owns goes before wait() returns
      lock.lock();
      if (!error) error = thrown;
      busy = false;
      if (jobs.empty()) idle.notify_all();
    }
  }
};

Background::Background() : state_(std::make_unique<State>()) {
  state_->thread = std::thread([state = state_.get()] { state->work(); });
}

Background::~Background() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->posted.notify_one();
  state_->thread.join();
}

void Background::post(std::function<void()> job, std::size_t most_waiting) {
  {
    std::unique_lock lock(state_->mutex);
    state_->taken.wait(lock, [&] { return most_waiting == 0 || state_->jobs.size() < most_waiting; });
    state_->jobs.push_back(std::move(job));
  }
  state_->posted.notify_one();
}

void Background::check() const {
  const std::lock_guard lock(state_->mutex);
  if (state_->error) std::rethrow_exception(state_->error);
}

void Background::wait() {
  std::unique_lock lock(state_->mutex);
  state_->idle.wait(lock, [&] { return state_->jobs.empty() && !state_->busy; });
  if (std::exception_ptr error = std::exchange(state_->error, nullptr)) {
    lock.unlock();
    std::rethrow_exception(error);
  }
}

}  // namespace mlx
