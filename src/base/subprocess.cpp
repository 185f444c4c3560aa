// Runs a program with its three standard streams on pipes. All pipes are served from one poll loop, so that neither
// side can wait for the other however much is written.

#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>

#include "base/error.h"
#include "base/fd.h"

extern "C" char** environ;

namespace mlx {
namespace {

struct Pipe {
  Fd read, write;
};

// Above the standard streams, which the child's own are moved onto: a closed stdin must not make a pipe descriptor 0.
Fd above_standard(int fd, const std::string& program) {
  const Fd original(fd);
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (moved < 0) fail_errno(errno, program, "start");
  return Fd(moved);
}

Pipe make_pipe(const std::string& program) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, program, "start");
  Fd write(ends[1]);
  if (ends[0] > 2 && ends[1] > 2) return {Fd(ends[0]), std::move(write)};
  Fd read = above_standard(ends[0], program);
  write = above_standard(::fcntl(write.get(), F_DUPFD_CLOEXEC, 3), program);
  return {std::move(read), std::move(write)};
}

// Writing to a program that has closed its stdin must not kill us. A library leaves the process's signal handlers
// alone, so SIGPIPE is blocked for this thread and taken off again where it came from us.
class BlockSigpipe {
 public:
  BlockSigpipe() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    const sigset_t set = only_sigpipe();
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~BlockSigpipe() {
    if (!was_pending_) {
      const sigset_t set = only_sigpipe();
      const timespec now{};
      while (::sigtimedwait(&set, nullptr, &now) < 0 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockSigpipe(const BlockSigpipe&) = delete;
  BlockSigpipe& operator=(const BlockSigpipe&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  static sigset_t only_sigpipe() {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGPIPE);
    return set;
  }
  sigset_t before_{};
  bool was_pending_ = false;
};

class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void connect(int from, int to) { ::posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void start_in(const std::string& folder) { ::posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str()); }
  // The child gets the caller's signal mask and the default SIGPIPE, as from a shell.
  void signals(const sigset_t& mask) {
    sigset_t defaults;
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE);
    ::posix_spawnattr_setsigmask(&attributes_, &mask);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  // errno of what failed, or 0.
  int start(const std::vector<std::string>& argv, pid_t& pid) const {
    std::vector<char*> arguments;
    arguments.reserve(argv.size() + 1);
    for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    return ::posix_spawnp(&pid, arguments[0], &actions_, &attributes_, arguments.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

void close_fd(Fd& fd) {
  const Fd closed = std::move(fd);
}

// Takes what is there from a pipe; closes it at its end.
void receive(Fd& fd, std::string& into) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
  if (got > 0) {
    into.append(buffer.data(), static_cast<std::size_t>(got));
  } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
    close_fd(fd);
  }
}

// Gives what the pipe takes; closes it when all is written or nobody reads.
void feed(Fd& fd, std::string_view& rest) {
  const ssize_t put = ::write(fd.get(), rest.data(), rest.size());
  if (put >= 0) {
    rest.remove_prefix(static_cast<std::size_t>(put));
  } else if (errno != EINTR && errno != EAGAIN) {
    rest = {};
  }
  if (rest.empty()) close_fd(fd);
}

void exchange(Fd& in, Fd& out, Fd& err, std::string_view input, ProcessResult& result) {
  ::fcntl(in.get(), F_SETFL, O_NONBLOCK);
  if (input.empty()) close_fd(in);
  while (in || out || err) {
    // poll() passes over negative descriptors.
    std::array<pollfd, 3> waits = {pollfd{in.get(), POLLOUT, 0}, {out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), -1) < 0) {
      if (errno == EINTR) continue;
      fail_errno(errno, "a program's pipes", "poll");
    }
    if (waits[0].revents != 0) feed(in, input);
    if (waits[1].revents != 0) receive(out, result.out);
    if (waits[2].revents != 0) receive(err, result.err);
  }
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) fail_errno(errno, "a program", "wait for");
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const std::string& input, const std::string& folder) {
  CHECK(!argv.empty());
  Pipe in = make_pipe(argv[0]), out = make_pipe(argv[0]), err = make_pipe(argv[0]);
  const BlockSigpipe blocked;
  SpawnPlan plan;
  plan.connect(in.read.get(), STDIN_FILENO);
  plan.connect(out.write.get(), STDOUT_FILENO);
  plan.connect(err.write.get(), STDERR_FILENO);
  if (!folder.empty()) plan.start_in(folder);
  plan.signals(blocked.before());

  ProcessResult result;
  pid_t pid = -1;
  if (const int error = plan.start(argv, pid); error != 0) {
    result.exit_code = 127;
    result.err = fmt::format("{}: cannot start: {}", argv[0], std::generic_category().message(error));
    return result;
  }
  close_fd(in.read);
  close_fd(out.write);
  close_fd(err.write);
  exchange(in.write, out.read, err.read, input, result);
  result.exit_code = wait_for(pid);
  return result;
}

}  // namespace mlx
