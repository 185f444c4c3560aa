// The process's one diagnostic sink. Lines from several threads come out whole, one after the other.

#include "base/log.h"

#include <atomic>
#include <mutex>

namespace mlx {
namespace {

// `enabled` is read on every log() call, so that a silent log costs one relaxed load.
std::atomic<bool> g_enabled = false;
std::mutex g_mutex;
LogSink g_sink;  // guarded by g_mutex

}  // namespace

void set_log_sink(LogSink sink) {
  const std::lock_guard lock(g_mutex);
  g_sink = std::move(sink);
  g_enabled.store(static_cast<bool>(g_sink), std::memory_order_relaxed);
}

bool log_enabled() {
  return g_enabled.load(std::memory_order_relaxed);
}

void log_line(const std::string& line) {
  const std::lock_guard lock(g_mutex);
  if (g_sink) g_sink(line);
}

}  // namespace mlx
