// Asks hosts that a training has lost, while it goes on without them, whether they can take part again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/interruption.h"
#include "cmd/hosts.h"
#include "dist/returns.h"

namespace mlx::cmd {

class ReturningHosts {
 public:
  // Of `hosts`, as they were when the training began, those that `returns` misses are asked, each when it says so.
  // `can` says whether one can, by what it says of itself now; threads call it. All must outlive it.
  using Can = std::function<bool(const dist::Host&, const dist::HostFacts&)>;
  ReturningHosts(const std::vector<ReadyHost>& hosts, dist::Returns& returns, Can can, const Environment& environment);
  ~ReturningHosts();  // does not wait for answers
  ReturningHosts(const ReturningHosts&) = delete;
  ReturningHosts& operator=(const ReturningHosts&) = delete;

  bool found() const { return found_; }  // one can

 private:
  void ask(const ReadyHost& host);

  dist::Returns& returns_;
  Can can_;
  const Environment& environment_;
  Interruption ends_;
  std::atomic<bool> found_ = false;
  std::mutex mutex_;  // of returns_
  std::condition_variable changed_;
  std::vector<std::jthread> threads_;  // last, so that they end first
};

}  // namespace mlx::cmd
