// The flag that signal handlers set and long work looks at.

#include "base/progress.h"

#include <csignal>

#include "base/error.h"

namespace mlx {

std::atomic<int> g_interrupted = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

void check_interrupted() {
  const int signal = g_interrupted.load(std::memory_order_relaxed);
  if (signal != 0) fail(ErrorKind::kInterrupted, "{}", signal == SIGTERM ? "terminated" : "interrupted");
}

}  // namespace mlx
