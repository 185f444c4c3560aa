// Ends a rank that its launcher can no longer reach. A host that was cut off notices nothing by itself: what it has
// sent is repeated for a quarter of an hour before the system gives up. A rank says something every second (pulse.h),
// which MPI's daemon of its host sends on; this looks whether it is acknowledged.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace mlx::dist {

class Lifeline {
 public:
  // Does nothing if the launcher's own mpirun has started this process. If the daemon sends in vain, ends it and this
  // process.
  Lifeline();
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::jthread thread_;
};

// Whether one of these sockets (inodes) has sent the same bytes so often that some twelve seconds have passed without
// an answer. `table`: the text of /proc/net/tcp (proc_net_tcp(5)).
bool sends_in_vain(std::string_view table, const std::vector<std::string>& sockets);

}  // namespace mlx::dist
