// Starts the pager as a child that reads a pipe; file descriptor 1 becomes the pipe's writing end.
#include "cmd/cli/pager.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace mlx::cmd {

Pager::Pager(const std::string& program) {
  if (program == "cat") return;
  const std::string command = program.empty() ? "less" : program;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  child_ = fork();
  if (child_ == 0) {
    dup2(ends[0], STDIN_FILENO);
    setenv("LESS", "FRX", 0);  // quit if it fits on a screen, keep colours, leave the text on the screen
    // Where there is no such program, cat shows the text all the same.
    const std::string line = "exec 3>&2 2>/dev/null; command -v " + command.substr(0, command.find(' ')) +
                             " >/dev/null || exec cat; exec 2>&3 3>&-; exec " + command;
    execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  if (child_ > 0) dup2(ends[1], STDOUT_FILENO);
  close(ends[0]);
  close(ends[1]);
}

Pager::~Pager() {
  wait();
}

void Pager::wait() {
  if (child_ <= 0) return;
  close(STDOUT_FILENO);
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
}

}  // namespace mlx::cmd
