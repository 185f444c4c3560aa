// O_TMPFILE, and the advice that the kernel takes about a file.

#include "data/temporary_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/path.h"

namespace mlx::data {
namespace {

[[noreturn]] void cannot(int error, const char* what, const std::string& folder) {
  throw Error(ErrorKind::kIo,
              fmt::format("{}: cannot {} a temporary file for data beyond the memory limit: {}", folder, what,
                          std::strerror(error)),
              "set TMPDIR to a folder on a disk with more room, or raise --memory");
}

// File systems without O_TMPFILE (NFS) get a file whose name is removed at once.
Fd nameless_file(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0) return Fd(fd);
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) cannot(errno, "make", folder);
  std::string name = join_path(folder, ".mlx-tmp-data-XXXXXX");
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) cannot(errno, "make", folder);
  ::unlink(name.c_str());
  return Fd(fd);
}

}  // namespace

TemporaryFile::TemporaryFile(std::string folder) : folder_(std::move(folder)), file_(nameless_file(folder_)) {}

void TemporaryFile::write(std::int64_t offset, const void* data, std::int64_t size) const {
  const auto* from = static_cast<const std::uint8_t*>(data);
  while (size > 0) {
    const ssize_t put = ::pwrite(file_.get(), from, static_cast<std::size_t>(size), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) cannot(errno, "write", folder_);
    from += put, offset += put, size -= put;
  }
}

void TemporaryFile::read(std::int64_t offset, void* data, std::int64_t size) const {
  const auto bytes = static_cast<std::size_t>(size);
  if (read_at(file_.get(), data, bytes, static_cast<std::uint64_t>(offset), folder_) < bytes)
    fail(ErrorKind::kIo, "{}: a temporary file is shorter than it was", folder_);
}

void TemporaryFile::read_ahead(std::int64_t offset, std::int64_t size) const {
  if (size > 0) (void)::posix_fadvise(file_.get(), offset, size, POSIX_FADV_WILLNEED);  // 0 would be all that follows
}

void TemporaryFile::drop(std::int64_t offset, std::int64_t size) const {
  if (size > 0) (void)::posix_fadvise(file_.get(), offset, size, POSIX_FADV_DONTNEED);
}

bool TemporaryFile::is_cached(std::int64_t offset) const {
  std::uint8_t byte = 0;
  const iovec one{&byte, 1};
  return ::preadv2(file_.get(), &one, 1, offset, RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

}  // namespace mlx::data
