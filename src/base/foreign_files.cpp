// What a project brings along is read as a file of a bounded size.
#include "base/foreign_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"

namespace mlx {

std::string read_project_text(const std::string& path, std::size_t most) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    throw Error(ErrorKind::kConflict,
                fmt::format("{} is a symbolic link, and what a project brings along is not read through links", path),
                "let the file itself stand there (mv)");
  }
  return std::string(as_text(read_regular_file(path, most)));
}

bool is_too_long(std::string_view path) {
  constexpr std::size_t kMaxPath = 4095, kMaxPart = 255;  // PATH_MAX without its zero byte, NAME_MAX
  if (path.size() > kMaxPath) return true;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (end - begin > kMaxPart) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace mlx
