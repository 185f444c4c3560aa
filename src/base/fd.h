// Owned file descriptors, whole-file reads, mapped files. Reading only; what must survive a crash is written through
// store/disk.h, and files for people (reports, pointers, configs) through write_file_atomically.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "base/bytes.h"

namespace mlx {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

Fd open_file(const std::string& path, int flags, mode_t mode = 0666);  // O_CLOEXEC added; kNotFound on ENOENT, else kIo
Fd open_regular_file(const std::string& path);  // for reading; never waits, kCorrupt if it is not a regular file
Bytes read_file(const std::string& path);
Bytes read_regular_file(const std::string& path, std::size_t most);  // kCorrupt also if it is larger
std::string read_text(const std::string& path);
// pread until `count` bytes or end of file; returns the bytes read.
std::size_t read_at(int fd, void* data, std::size_t count, std::uint64_t offset, const std::string& path);
void write_all(int fd, ByteView bytes, const std::string& path);

// Temporary file beside `path`, fsync, rename. The old file stays whole until the new one is.
void write_file_atomically(const std::string& path, ByteView bytes, mode_t mode = 0666);
inline void write_file_atomically(const std::string& path, std::string_view text) {
  write_file_atomically(path, as_bytes(text));
}

// Asks the system to back memory that is still untouched with large pages where it lies on whole ones.
void advise_large_pages(void* begin, std::size_t size);

// Read-only memory map of a whole file; empty files give an empty view. A file cut short while mapped would raise
// SIGBUS: map only files that mlx writes once and renames into place.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ByteView bytes() const { return {data_, size_}; }
  // Takes the whole pages of `part`, which lies in bytes(), out of the process's memory. Whoever reads them again gets
  // them from the kernel's cache of files, or from the disk.
  static void release(ByteView part);

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mlx
