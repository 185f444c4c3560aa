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
  struct Job;
  struct State;
  std::unique_ptr<State> state_;
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
