// The real disk: plain system calls with errors as mlx::Error{kIo}, and the SIGKILL before the Nth call that crash
// tests ask for.
#include "store/disk.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/path.h"

namespace mlx::store {

namespace {

// The status of a file, without following links.
[[noreturn]] void fail_open(int error, const std::string& path) {
  if (error == ELOOP) {
    throw Error(ErrorKind::kConflict, fmt::format("{} is a symbolic link, and nothing is written through links", path),
                "remove it, and see who can write there");
  }
  fail_errno(error, path, "open");
}

class RealDisk final : public Disk {
 public:
  explicit RealDisk(int kill_at) : kill_at_(kill_at) {}

  Fd create(const std::string& path) override {
    kill_point();
    int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) fail(ErrorKind::kConflict, "{}: exists already", path);
    if (fd < 0) fail_errno(errno, path, "create");
    return Fd(fd);
  }

  Fd open_append(const std::string& path) override {
    kill_point();
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) fail_open(errno, path);
    return Fd(fd);
  }

  void write(const Fd& fd, ByteView bytes, const std::string& path) override {
    kill_point();
    while (!bytes.empty()) {
      ssize_t count = ::write(fd.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_errno(errno, path, "write");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  void sync(const Fd& fd, const std::string& path) override {
    kill_point();
    if (::fsync(fd.get()) != 0) fail_errno(errno, path, "sync");
  }

  void sync_folder(const std::string& path) override {
    kill_point();
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) fail_errno(errno, path, "open");
    // Some file systems cannot sync a folder and say EINVAL; there is nothing more to do on those.
    if (::fsync(fd.get()) != 0 && errno != EINVAL) fail_errno(errno, path, "sync");
  }

  void rename(const std::string& from, const std::string& to) override {
    kill_point();
    if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(errno, to, "rename into place");
  }

  void truncate(const std::string& path, std::uint64_t size) override {
    kill_point();
    const Fd fd(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) fail_open(errno, path);
    if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) fail_errno(errno, path, "truncate");
  }

  void remove(const std::string& path) override {
    kill_point();
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_errno(errno, path, "remove");
  }

  void step(const std::string&) override { kill_point(); }

 private:
  void kill_point() {
    if (kill_at_ > 0 && ++calls_ == kill_at_) ::kill(::getpid(), SIGKILL);
  }

  const int kill_at_;
  std::atomic<int> calls_{0};
};

}  // namespace

void replace_shredding(Disk& disk, const std::string& from, const std::string& to) {
  Fd old(::open(to.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));  // of a link, the link alone is replaced
  disk.rename(from, to);
  disk.sync_folder(parent_path(to));
  if (!old) return;
  struct stat status {};
  if (::fstat(old.get(), &status) != 0) fail_errno(errno, to, "stat");
  disk.write(old, Bytes(static_cast<std::size_t>(status.st_size)), to);
  disk.sync(old, to);
}

void shred(Disk& disk, const std::string& path) {
  constexpr std::uint64_t kBlock = 1 << 20;
  if (::fchmod(open_file(path, O_RDONLY | O_NOFOLLOW).get(), 0600) != 0) fail_errno(errno, path, "change the mode of");
  const Fd fd = open_file(path, O_RDWR | O_NOFOLLOW);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail_errno(errno, path, "stat");
  const Bytes zeros(kBlock);
  for (std::uint64_t left = static_cast<std::uint64_t>(status.st_size); left > 0;) {
    const std::uint64_t count = std::min(left, kBlock);
    disk.write(fd, ByteView(zeros).first(count), path);
    left -= count;
  }
  disk.sync(fd, path);
  disk.remove(path);
}

std::unique_ptr<Disk> real_disk(int kill_at) {
  return std::make_unique<RealDisk>(kill_at);
}

}  // namespace mlx::store
