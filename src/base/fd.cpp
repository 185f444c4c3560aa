// File descriptors, whole-file reads, maps, and replacing a file in one step.

#include "base/fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/path.h"

namespace mlx {
namespace {

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;  // Linux moves at most 2 GiB in one call

// Repeats a system call that a signal cut short.
template <typename Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

struct stat stat_of(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail_errno(errno, path, "stat");
  return info;
}

// The target of a symbolic link, so that replacing a file leaves the link to it in place.
std::string behind_links(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? std::string(real.get()) : path;
}

// A name beside `path` that no other thread or process uses.
std::string temporary_beside(const std::string& path) {
  static std::atomic<unsigned> counter = 0;
  return join_path(parent_path(path), fmt::format(".mlx-{}-{}.tmp", ::getpid(), counter.fetch_add(1)));
}

void sync_folder_of(const std::string& path) {
  const std::string folder = parent_path(path);
  const Fd fd = open_file(folder, O_RDONLY | O_DIRECTORY);
  // Some file systems cannot sync a folder and say so with EINVAL.
  if (retry([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL) fail_errno(errno, folder, "sync");
}

// As open_file; errors name `shown`.
Fd open_named(const std::string& path, int flags, mode_t mode, const std::string& shown) {
  const int fd = retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
  if (fd >= 0) return Fd(fd);
  const int error = errno;
  if (error != ENOENT) fail_errno(error, shown, (flags & O_CREAT) != 0 ? "create" : "open");
  if ((flags & O_CREAT) != 0) fail(ErrorKind::kNotFound, "{}: cannot create: its folder does not exist", shown);
  fail(ErrorKind::kNotFound, "{}: no such file", shown);
}

// Fills the new file `temporary` and renames it to `target`. Errors name `shown`; what failed leaves no new file.
void replace_with(const std::string& temporary, const std::string& target, const std::string& shown, ByteView bytes,
                  mode_t mode, bool keep_mode) {
  const Fd fd = open_named(temporary, O_WRONLY | O_CREAT | O_EXCL, mode, shown);
  try {
    if (keep_mode && ::fchmod(fd.get(), mode) != 0) fail_errno(errno, shown, "keep its permissions");
    write_all(fd.get(), bytes, shown);
    if (retry([&] { return ::fsync(fd.get()); }) != 0) fail_errno(errno, shown, "sync");
    if (::rename(temporary.c_str(), target.c_str()) != 0) fail_errno(errno, shown, "replace");
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

Fd open_file(const std::string& path, int flags, mode_t mode) {
  return open_named(path, flags, mode, path);
}

// O_NONBLOCK: a named pipe would wait for its writer.
Fd open_regular_file(const std::string& path) {
  Fd fd = open_file(path, O_RDONLY | O_NONBLOCK);
  if (!S_ISREG(stat_of(fd.get(), path).st_mode)) fail(ErrorKind::kCorrupt, "{}: not a regular file", path);
  return fd;
}

Bytes read_regular_file(const std::string& path, std::size_t most) {
  const Fd fd = open_regular_file(path);
  const struct stat info = stat_of(fd.get(), path);
  if (static_cast<std::uint64_t>(info.st_size) > most)
    fail(ErrorKind::kCorrupt, "{}: has {} bytes, more than {}", path, info.st_size, most);
  Bytes bytes(static_cast<std::size_t>(info.st_size));
  bytes.resize(read_at(fd.get(), bytes.data(), bytes.size(), 0, path));
  return bytes;
}

namespace {

// Texts are for people, or a few numbers. A device, a pipe and /proc have no size, and may have no end.
constexpr std::size_t kMaxText = std::size_t{64} << 20;

// kCorrupt if it has more than `most` bytes.
Bytes read_up_to(const std::string& path, std::size_t most) {
  const auto require = [&](std::uint64_t size) {
    if (size > most) fail(ErrorKind::kCorrupt, "{}: has more than {} bytes", path, most);
  };
  const Fd fd = open_file(path, O_RDONLY);
  const struct stat info = stat_of(fd.get(), path);
  if (S_ISDIR(info.st_mode)) fail_errno(EISDIR, path, "read");
  // The size is a hint: /proc says 0, and a file may grow. One byte more shows the end without another round.
  require(S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0);
  Bytes out(static_cast<std::size_t>(std::max<off_t>(info.st_size, 0)) + 1);
  std::size_t filled = 0;
  for (;;) {
    const std::size_t room = std::min(out.size() - filled, kMaxTransfer);
    const ssize_t got = retry([&] { return ::read(fd.get(), out.data() + filled, room); });
    if (got < 0) fail_errno(errno, path, "read");
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
    require(filled);
    if (filled == out.size()) out.resize(out.size() + std::max<std::size_t>(out.size(), 4096));
  }
  out.resize(filled);
  return out;
}

}  // namespace

Bytes read_file(const std::string& path) {
  return read_up_to(path, std::numeric_limits<std::size_t>::max());
}

std::string read_text(const std::string& path) {
  return std::string(as_text(read_up_to(path, kMaxText)));
}

std::size_t read_at(int fd, void* data, std::size_t count, std::uint64_t offset, const std::string& path) {
  auto* out = static_cast<std::uint8_t*>(data);
  std::size_t done = 0;
  while (done < count) {
    const std::size_t room = std::min(count - done, kMaxTransfer);
    const ssize_t got = retry([&] { return ::pread(fd, out + done, room, static_cast<off_t>(offset + done)); });
    if (got < 0) fail_errno(errno, path, "read");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void write_all(int fd, ByteView bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = retry([&] { return ::write(fd, bytes.data(), std::min(bytes.size(), kMaxTransfer)); });
    if (put < 0) fail_errno(errno, path, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void write_file_atomically(const std::string& path, ByteView bytes, mode_t mode) {
  const std::string target = behind_links(path);
  struct stat old {};
  const bool exists = ::stat(target.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) fail_errno(EISDIR, path, "write");
  if (exists && !S_ISREG(old.st_mode)) {  // /dev/null, a pipe: nothing to replace
    const Fd fd = open_file(target, O_WRONLY);
    return write_all(fd.get(), bytes, path);
  }
  replace_with(temporary_beside(target), target, path, bytes, exists ? old.st_mode & 07777 : mode, exists);
  sync_folder_of(target);
}

MappedFile::MappedFile(const std::string& path) {
  const Fd fd = open_file(path, O_RDONLY | O_NONBLOCK);  // a named pipe would wait for its writer
  const struct stat info = stat_of(fd.get(), path);
  if (!S_ISREG(info.st_mode)) fail(ErrorKind::kIo, "{}: cannot map: not a regular file", path);
  if (info.st_size == 0) return;
  const auto size = static_cast<std::size_t>(info.st_size);
  void* const map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (map == MAP_FAILED) fail_errno(errno, path, "map");
  data_ = static_cast<const std::uint8_t*>(map);
  size_ = size;
}

void advise_large_pages(void* begin, std::size_t size) {
  constexpr std::uintptr_t kLarge = std::uintptr_t{2} << 20;
  const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(begin) + kLarge - 1) / kLarge * kLarge;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(begin) + size) / kLarge * kLarge;
  if (end > first) (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

void MappedFile::release(ByteView part) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t first = (begin + page - 1) / page * page, end = (begin + part.size()) / page * page;
  if (end > first) (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace mlx
