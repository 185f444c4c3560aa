// Long output on a terminal goes through $PAGER (less -FRX if it is unset). Used by terminal.cpp.
#pragma once

#include <sys/types.h>

#include <string>

namespace mlx::cmd {

// From construction on file descriptor 1 is the pager's input. Where the program cannot be started, output stays as it
// was.
class Pager {
 public:
  explicit Pager(const std::string& program);  // a shell command line; "" for less, "cat" for none
  ~Pager();
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;
  void wait();  // closes the pager's input and waits until the reader has left it

 private:
  pid_t child_ = -1;
};

}  // namespace mlx::cmd
