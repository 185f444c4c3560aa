// The one exception type of mlx and the check for our own mistakes.
//
// An Error ends a command or a request, nothing else. Its kind is the process exit code, its message says what is wrong
// and where (file, line, key, offset), its hint says what to do about it. Kernels never throw.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>

namespace mlx {

enum class ErrorKind : int {
  kNo = 1,        // a check answered no
  kUsage = 2,     // bad command line or configuration
  kNotFound = 3,  // named thing does not exist
  kConflict = 4,  // conflicting change, or busy
  kRefused = 5,   // refused by policy
  kCorrupt = 6,   // data does not match its digest or format
  kIo = 7,        // disk, network or remote failed
  kMissing = 8,   // device or dependency missing
  kDiverged = 9,  // a training's numbers are not finite any more
  kInterrupted = 130,
};

class Error : public std::exception {
 public:
  Error(ErrorKind error_kind, std::string what_and_where, std::string what_to_do = {})
      : kind(error_kind), message(std::move(what_and_where)), hint(std::move(what_to_do)) {}
  const char* what() const noexcept override { return message.c_str(); }

  ErrorKind kind;
  std::string message;
  std::string hint;  // may be empty
};

// fail(ErrorKind::kUsage, "{}: unknown key '{}'", file, key);  — throws Error without a hint.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// Throws kIo with the text of `error_number` (errno): "PATH: cannot WHAT: No space left on device".
[[noreturn]] void fail_errno(int error_number, const std::string& path, const char* what);

[[noreturn]] void check_failed(const char* file, int line, const char* expression);

// For our own mistakes only (never for input): prints the place and aborts. Tests, which include doctest first, keep
// its macro of the same name.
#ifndef DOCTEST_LIBRARY_INCLUDED
#define CHECK(expression) \
  (static_cast<bool>(expression) ? void(0) : ::mlx::check_failed(__FILE__, __LINE__, #expression))
#endif

}  // namespace mlx
