// One flock(2) for each run's file.
#include "registry/live_runs.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/path.h"

namespace mlx::registry {
namespace {

// killed() also takes the lock, for a moment.
constexpr int kLockTries = 50;
constexpr std::chrono::milliseconds kLockPause{2};

enum class Lock { kTaken, kHeldElsewhere, kNone };  // kNone: this file system has no locks

Lock try_lock(const Fd& file, int how) {
  while (::flock(file.get(), how | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? Lock::kHeldElsewhere : Lock::kNone;
  }
  return Lock::kTaken;
}

}  // namespace

std::string LiveRuns::path_of(const std::string& run) const {
  return join_path(folder_, run);
}

void LiveRuns::hold(const std::string& run) {
  if (held_.contains(run)) return;
  make_folders(folder_);
  Fd file = disk_.open_append(path_of(run));
  for (int i = 0; try_lock(file, LOCK_EX) == Lock::kHeldElsewhere; ++i) {
    if (i == kLockTries) {
      throw Error(ErrorKind::kConflict, fmt::format("run:{}: another process is working on it", run),
                  "wait until it has ended, or stop that process");
    }
    std::this_thread::sleep_for(kLockPause);
  }
  held_.emplace(run, std::move(file));
}

void LiveRuns::let_go(const std::string& run) {
  if (held_.erase(run) > 0) disk_.remove(path_of(run));
}

bool LiveRuns::killed(const std::string& run) const {
  if (held_.contains(run)) return false;
  const std::string path = path_of(run);
  if (!path_exists(path)) return false;
  try {
    return try_lock(open_file(path, O_RDONLY), LOCK_SH) == Lock::kTaken;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
    return false;  // the run has ended meanwhile
  }
}

}  // namespace mlx::registry
