// A temporary file without a name, so that the kernel frees it however the process ends. Spools and their epochs stand
// in such files beyond the memory limit. They are read by pread and not mapped, so that resident memory stays as
// planned.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"

namespace mlx::data {

class TemporaryFile {
 public:
  // Throws kIo, with the folder, if no file can be made there.
  explicit TemporaryFile(std::string folder);

  void write(std::int64_t offset, const void* data, std::int64_t size) const;  // throws kIo, with the folder, if full
  void read(std::int64_t offset, void* data, std::int64_t size) const;         // all of these bytes must be there
  // The kernel begins to read these bytes into its cache.
  void read_ahead(std::int64_t offset, std::int64_t size) const;
  // They are not needed again.
  void drop(std::int64_t offset, std::int64_t size) const;
  // Whether the byte is in the kernel's cache. True if the file system cannot tell.
  bool is_cached(std::int64_t offset) const;

 private:
  std::string folder_;
  Fd file_;
};

}  // namespace mlx::data
