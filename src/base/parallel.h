// The one thread pool. Work is cut into slices that the caller fixes by the shape of the work, never by the thread
// count, so that results do not depend on it. Several sessions may share one pool; the calling thread works too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace mlx {

class Pool {
 public:
  // `threads` counts the caller; 0 means one per core that the process may use (sched_getaffinity).
  explicit Pool(int threads = 0);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const;

  // Calls body(0) … body(count-1), each once, on any of the pool's threads, and returns when all are done. The first
  // exception is rethrown after the others have stopped. Safe to call from several threads at once and from inside a
  // body (then it runs inline).
  void run(std::int64_t count, const std::function<void(std::int64_t)>& body);

 private:
  friend class Ahead;
  struct Job;
  struct State;
  std::unique_ptr<State> state_;
};

// Work that is needed later. The pool's threads do it a slice at a time while they have nothing else to do; what is
// left is done when it is waited for.
class Ahead {
 public:
  explicit Ahead(Pool& pool);
  ~Ahead();  // stops
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;
  // What the body of slices 0 … count-1 reads must not change until wait() or stop(), one of which must come before the
  // next start().
  void start(std::int64_t count, std::function<void(std::int64_t)> body);
  void wait();  // until all slices are done; rethrows their first exception. At once if nothing was started
  void stop();  // leaves out the slices that nobody has begun

 private:
  Pool::State& pool_;
  std::function<void(std::int64_t)> body_;
  std::unique_ptr<Pool::Job> job_;  // null: nothing was started
};

int cores();  // cores that the process may use

// One thread that runs jobs in order: asynchronous prefetch and checkpoint writing. The destructor waits for all of
// them.
class Background {
 public:
  Background();
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  // If `most_waiting` is not 0, waits first until fewer jobs than that are waiting.
  void post(std::function<void()> job, std::size_t most_waiting = 0);
  void check() const;  // throws the exception that wait() would throw, if there is one yet
  void wait();         // until every posted job is done; rethrows the first exception

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx
