// Raises errno values as mlx::Error with the hint that fits, and stops the process if a CHECK fails.

#include "base/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace mlx {
namespace {

std::string hint_for(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return "free space on that disk, then run the command again";
    case EDQUOT:
      return "the disk quota is used up; free space, then run the command again";
    case EROFS:
      return "the file system is mounted read-only";
    case EACCES:
    case EPERM:
      return "check who owns it and its permissions";
    case EMFILE:
    case ENFILE:
      return "too many open files; raise the limit with ulimit -n";
    default:
      return {};
  }
}

}  // namespace

void fail_errno(int error_number, const std::string& path, const char* what) {
  const std::string reason = std::generic_category().message(error_number);
  throw Error(ErrorKind::kIo, fmt::format("{}: cannot {}: {}", path, what, reason), hint_for(error_number));
}

void check_failed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "mlx: internal error at %s:%d: %s does not hold\n", file, line, expression);
  std::abort();
}

}  // namespace mlx
