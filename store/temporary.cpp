// A writer is alive while it holds a flock on its lock file. The boot id and process id in the name save most attempts
// to lock, and cover the moment between creating and locking the file on this machine.
#include "store/temporary.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"

namespace mlx::store {

namespace {

constexpr std::string_view kPrefix = "tmp-";
constexpr std::string_view kLockSuffix = ".lock";

// "tmp-BOOT-PID-N" of a temporary file's name; "" if it is none.
std::string writer_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  std::size_t dot = name.find('.');
  return name.substr(0, dot);
}

bool may_be_alive(const std::string& writer, const std::string& boot) {
  // tmp-BOOT-PID-N; other names are not ours.
  std::size_t pid_at = kPrefix.size() + 16 + 1;
  if (writer.size() <= pid_at || writer[pid_at - 1] != '-') return true;
  if (writer.substr(kPrefix.size(), 16) != boot) return false;
  long pid = std::strtol(writer.c_str() + pid_at, nullptr, 10);
  return pid <= 0 || ::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
}

// True if nobody holds the lock file (or there is none).
bool lock_is_free(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return errno == ENOENT;
  return ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

std::string boot_id() {
  std::string text;
  try {
    text = read_text("/proc/sys/kernel/random/boot_id");
  } catch (const Error&) {
  }
  std::erase(text, '-');
  text.resize(16, '0');
  return text;
}

bool is_temporary(const std::string& name) {
  return name.starts_with(kPrefix);
}

void TemporaryFiles::take_lock() {
  for (int n = 0;; ++n) {
    std::string prefix = join_path(folder_, fmt::format("{}{}-{}-{}", kPrefix, boot_id(), ::getpid(), n));
    std::string path = prefix + std::string(kLockSuffix);
    try {
      lock_ = disk_.create(path);
    } catch (const Error& error) {
      // Another writer of this process, or of one that had its number before.
      if (error.kind == ErrorKind::kConflict && n < 100'000) continue;
      throw;
    }
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      // Another process looks just now whether its writer lives; it may take it for dead and remove it.
      if (errno == EWOULDBLOCK && n < 100'000) continue;
      fail_errno(errno, path, "lock");
    }
    struct stat status {};
    if (::fstat(lock_.get(), &status) == 0 && status.st_nlink == 0) continue;
    prefix_ = prefix;
    return;
  }
}

std::string TemporaryFiles::next() {
  if (prefix_.empty()) take_lock();
  paths_.push_back(fmt::format("{}.{}", prefix_, count_++));
  return paths_.back();
}

void TemporaryFiles::published(const std::string& path) {
  std::erase(paths_, path);
}

void TemporaryFiles::note(std::string_view text) {
  if (prefix_.empty()) take_lock();
  disk_.write(lock_, as_bytes(text), prefix_ + std::string(kLockSuffix));
}

void TemporaryFiles::release() {
  if (prefix_.empty()) return;
  while (!paths_.empty()) {
    disk_.remove(paths_.back());
    paths_.pop_back();
  }
  disk_.remove(prefix_ + std::string(kLockSuffix));
  lock_ = Fd();
  prefix_.clear();
}

TemporaryFiles::~TemporaryFiles() {
  try {
    release();
  } catch (...) {
    // The next writer removes them.
  }
}

void remove_stale_temporaries(const std::string& folder, const std::vector<std::string>& names, Disk& disk) {
  std::map<std::string, std::vector<std::string>> by_writer;
  for (const std::string& name : names) {
    if (std::string writer = writer_of(name); !writer.empty()) by_writer[writer].push_back(name);
  }
  if (by_writer.empty()) return;
  std::string boot = boot_id();
  for (const auto& [writer, files] : by_writer) {
    std::string lock = join_path(folder, writer + std::string(kLockSuffix));
    if (may_be_alive(writer, boot) || !lock_is_free(lock)) continue;
    try {
      for (const std::string& name : files) {
        if (!name.ends_with(kLockSuffix)) disk.remove(join_path(folder, name));
      }
      disk.remove(lock);
    } catch (const Error& error) {
      log("stale temporary files of {} stay: {}", writer, error.message);
    }
  }
}

std::vector<std::string> notes_of_living_writers(const std::string& folder) {
  std::vector<std::string> notes;
  for (const std::string& name : list_folder(folder)) {
    if (!is_temporary(name) || !name.ends_with(kLockSuffix)) continue;
    std::string path = join_path(folder, name);
    if (lock_is_free(path)) continue;
    try {
      notes.push_back(read_text(path));
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;  // it has ended since
    }
  }
  return notes;
}

}  // namespace mlx::store
