// openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, or folder by folder if the kernel lacks it. rename and unlink
// act on a bare name in its folder, held open.
#include "store/worktree/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/error.h"
#include "base/path.h"

namespace mlx::store {

namespace {

constexpr off_t kMaxTextFile = off_t{64} << 20;
constexpr int kOpenAttempts = 64;  // openat2 fails with EAGAIN if something was renamed meanwhile

int open_beneath(int folder, const std::string& path, int flags, mode_t mode) {
  static std::atomic<bool> lacking{false};
  if (!lacking) {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags);
    how.mode = (flags & O_CREAT) != 0 ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    for (int attempt = 0; attempt < kOpenAttempts; ++attempt) {
      const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
      if (fd >= 0) return static_cast<int>(fd);
      if (errno != EAGAIN && errno != EINTR) break;
    }
    // Sandboxes that do not know the call refuse it with EPERM; the walk shows whether it was that.
    if (errno != ENOSYS && errno != EPERM) return -1;
    lacking = errno == ENOSYS;
  }
  return walk_beneath(folder, path, flags, mode);
}

bool is_link(int folder, const std::string& name) {
  struct stat status {};
  return ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
}

// The folder part of a path; "" if it has none.
std::string folder_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string temporary_beside(const std::string& path) {
  static std::atomic<unsigned> counter = 0;
  return join_path(folder_path(path), fmt::format(".mlx-{}-{}.tmp", ::getpid(), counter.fetch_add(1)));
}

}  // namespace

int walk_beneath(int folder, const std::string& path, int flags, mode_t mode) {
  Fd at(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  for (std::size_t begin = 0; at;) {
    const std::size_t slash = path.find('/', begin);
    const std::string name = path.substr(begin, slash - begin);
    if (slash == std::string::npos) return ::openat(at.get(), name.c_str(), flags | O_NOFOLLOW, mode);
    Fd below(::openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!below && errno == ENOTDIR && is_link(at.get(), name)) errno = ELOOP;
    at = std::move(below);
    begin = slash + 1;
  }
  return -1;
}

Beneath::Beneath(std::string root) : root_(std::move(root)), folder_(open_file(root_, O_PATH | O_DIRECTORY)) {}

std::string Beneath::full(const std::string& path) const {
  return join_path(root_, path);
}

// Throws for `error`; names the symbolic link that is in the way, if there is one.
void Beneath::refuse(int error, const std::string& path, const char* what) const {
  for (std::size_t end = path.find('/'); error == ELOOP || error == ENOTDIR; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (is_link(folder_.get(), part)) {
      throw Error(ErrorKind::kConflict,
                  fmt::format("{} is a symbolic link, and nothing is written through links", full(part)),
                  "let the file or folder itself stand there (mv), or mount it there");
    }
    if (end == std::string::npos) break;
  }
  if (error == ENOENT) fail(ErrorKind::kNotFound, "{}: no such file or folder", full(path));
  if (error == EEXIST) fail(ErrorKind::kConflict, "{}: exists already", full(path));
  fail_errno(error, full(path), what);
}

// The path as the kernel expects it.
std::string Beneath::checked(const std::string& path) const {
  if (path.empty()) return ".";
  if (!is_safe_relative(path)) fail(ErrorKind::kConflict, "{}: leads out of {}", path, root_);
  return path;
}

Fd Beneath::open(const std::string& path, int flags, mode_t mode) const {
  const int fd = open_beneath(folder_.get(), checked(path), flags | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0) refuse(errno, path, (flags & O_CREAT) != 0 ? "create" : "open");
  return Fd(fd);
}

Fd Beneath::folder_of(const std::string& path) const {
  return open(folder_path(checked(path)), O_PATH | O_DIRECTORY);
}

std::optional<struct stat> Beneath::status(const std::string& path) const {
  const Fd fd(open_beneath(folder_.get(), checked(path), O_PATH | O_NOFOLLOW | O_CLOEXEC, 0));
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!fd) refuse(errno, path, "stat");
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) fail_errno(errno, full(path), "stat");
  return found;
}

std::optional<std::string> Beneath::read(const std::string& path) const {
  const auto found = status(path);
  if (!found) return std::nullopt;
  if (!S_ISREG(found->st_mode)) refuse(S_ISLNK(found->st_mode) ? ELOOP : EINVAL, path, "read");
  if (found->st_size > kMaxTextFile) fail(ErrorKind::kCorrupt, "{}: has more than {} bytes", full(path), kMaxTextFile);
  const Fd fd = open(path, O_RDONLY | O_NONBLOCK);
  std::string text(static_cast<std::size_t>(found->st_size), '\0');
  text.resize(read_at(fd.get(), text.data(), text.size(), 0, full(path)));
  return text;
}

void Beneath::make_folders(const std::string& path) const {
  if (path.empty()) return;
  const auto standing = status(path);
  if (standing && S_ISDIR(standing->st_mode)) return;
  if (standing) refuse(ENOTDIR, path, "create the folder");
  make_folders(folder_path(path));
  const Fd folder = folder_of(path);
  if (::mkdirat(folder.get(), base_name(path).c_str(), 0777) == 0) return;
  if (errno != EEXIST) fail_errno(errno, full(path), "create the folder");
  (void)open(path, O_PATH | O_DIRECTORY);  // another process was faster
}

void Beneath::replace(const std::string& path, std::string_view text, mode_t mode) const {
  const auto old = status(path);
  if (old && !S_ISREG(old->st_mode)) refuse(S_ISLNK(old->st_mode) ? ELOOP : EISDIR, path, "write");
  const std::string temporary = temporary_beside(path);
  const int opened =
      open_beneath(folder_.get(), checked(temporary), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (opened < 0) refuse(errno, path, "create");
  const Fd fd(opened);
  try {
    if (old && ::fchmod(fd.get(), old->st_mode & 07777) != 0) fail_errno(errno, full(path), "keep its permissions");
    write_all(fd.get(), as_bytes(text), full(path));
    if (::fsync(fd.get()) != 0) fail_errno(errno, full(path), "sync");
    rename(temporary, path);
  } catch (const Error&) {
    discard(temporary);
    throw;
  }
  const Fd folder = open(folder_path(path), O_RDONLY | O_DIRECTORY);
  // Some file systems cannot sync a folder and say so with EINVAL.
  if (::fsync(folder.get()) != 0 && errno != EINVAL) fail_errno(errno, full(path), "sync");
}

void Beneath::rename(const std::string& from, const std::string& to) const {
  const Fd source = folder_of(from), target = folder_of(to);
  if (::renameat(source.get(), base_name(from).c_str(), target.get(), base_name(to).c_str()) != 0)
    fail_errno(errno, full(to), "rename into place");
}

void Beneath::symlink(const std::string& target, const std::string& path) const {
  const Fd folder = folder_of(path);
  if (::symlinkat(target.c_str(), folder.get(), base_name(path).c_str()) != 0)
    fail_errno(errno, full(path), "make symbolic link");
}

int Beneath::hard_link(const std::string& existing, const std::string& path) const {
  const Fd folder = folder_of(path);
  return ::linkat(AT_FDCWD, existing.c_str(), folder.get(), base_name(path).c_str(), 0) == 0 ? 0 : errno;
}

bool Beneath::remove(const std::string& path) const {
  try {
    const Fd folder = folder_of(path);
    if (::unlinkat(folder.get(), base_name(path).c_str(), 0) == 0) return true;
    if (errno != ENOENT) fail_errno(errno, full(path), "remove");
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;  // its folder is gone, too
  }
  return false;
}

bool Beneath::remove_folder(const std::string& path) const {
  try {
    const Fd folder = folder_of(path);
    return ::unlinkat(folder.get(), base_name(path).c_str(), AT_REMOVEDIR) == 0;
  } catch (const Error&) {
    return false;
  }
}

void Beneath::remove_tree(const std::string& path) const {
  const auto standing = status(path);
  if (!standing) return;
  if (!S_ISDIR(standing->st_mode)) {
    remove(path);
    return;
  }
  for (const std::string& name : list_folder(full(path))) remove_tree(join_path(path, name));
  const Fd folder = folder_of(path);
  if (::unlinkat(folder.get(), base_name(path).c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
    fail_errno(errno, full(path), "remove");
}

void Beneath::discard(const std::string& path) const noexcept {
  try {
    remove(path);
  } catch (...) {
    // The first error is the one that matters.
  }
}

}  // namespace mlx::store
