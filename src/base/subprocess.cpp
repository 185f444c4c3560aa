// Programs with their three standard streams on pipes. All pipes are served from one poll loop, so that neither side
// can wait for the other however much is written.

#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <system_error>

#include "base/error.h"
#include "base/fd.h"
#include "base/progress.h"

extern "C" char** environ;

namespace mlx {
// A program that has been started, and our ends of its pipes; `error` is the errno of what failed, or 0.
struct RunningProgram {
  pid_t pid = -1;
  int error = 0;
  Fd in, out, err;
};

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
// alone, so SIGPIPE is blocked for this thread, and a pending one of ours is discarded.
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

// Points into the process's own environment.
std::vector<char*> environment_without(const std::vector<std::string>& names) {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (std::ranges::find(names, text.substr(0, text.find('='))) == names.end()) kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

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
  int start(const std::vector<std::string>& argv, const std::vector<std::string>& without, pid_t& pid) const {
    std::vector<char*> arguments;
    arguments.reserve(argv.size() + 1);
    for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    return ::posix_spawnp(&pid, arguments[0], &actions_, &attributes_, arguments.data(),
                          environment_without(without).data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

void close_fd(Fd& fd) {
  const Fd closed = std::move(fd);
}

// Reads what is in a pipe; closes it at its end.
void receive(Fd& fd, std::string& into) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
  if (got > 0) {
    into.append(buffer.data(), static_cast<std::size_t>(got));
  } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
    close_fd(fd);
  }
}

// Writes as much as the pipe takes; closes it if nobody reads, and `at_end` when all is written.
void feed(Fd& fd, std::string_view& rest, bool at_end = true) {
  const ssize_t put = ::write(fd.get(), rest.data(), rest.size());
  if (put >= 0) {
    rest.remove_prefix(static_cast<std::size_t>(put));
  } else if (errno != EINTR && errno != EAGAIN) {
    close_fd(fd);
    return;
  }
  if (rest.empty() && at_end) close_fd(fd);
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

RunningProgram start(const std::vector<std::string>& argv, const std::string& folder,
                     const std::vector<std::string>& without, const sigset_t& mask) {
  CHECK(!argv.empty());
  Pipe in = make_pipe(argv[0]), out = make_pipe(argv[0]), err = make_pipe(argv[0]);
  SpawnPlan plan;
  plan.connect(in.read.get(), STDIN_FILENO);
  plan.connect(out.write.get(), STDOUT_FILENO);
  plan.connect(err.write.get(), STDERR_FILENO);
  if (!folder.empty()) plan.start_in(folder);
  plan.signals(mask);
  RunningProgram program;
  program.error = plan.start(argv, without, program.pid);
  program.in = std::move(in.write);
  program.out = std::move(out.read);
  program.err = std::move(err.read);
  return program;
}

std::string cannot_start(const std::string& program, int error) {
  return fmt::format("{}: cannot start: {}", program, std::generic_category().message(error));
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const std::string& input, const std::string& folder,
                          const std::vector<std::string>& without) {
  ProcessResult result;
  const BlockSigpipe blocked;
  RunningProgram program = start(argv, folder, without, blocked.before());
  if (program.error != 0) {
    result.exit_code = 127;
    result.err = cannot_start(argv[0], program.error);
    return result;
  }
  exchange(program.in, program.out, program.err, input, result);
  result.exit_code = wait_for(program.pid);
  return result;
}

struct Conversation::State {
  const Interruption& interruption;
  explicit State(const Interruption& the_interruption) : interruption(the_interruption) {}

  RunningProgram program;
  std::string heard;      // said by the program, not yet read
  std::size_t taken = 0;  // of `heard`
  std::string errors;
  int exit_code = -1;  // once it has ended

  // Serves the pipes once; `rest` may be null.
  void serve(std::string_view* rest) {
    interruption.check();
    const bool more = heard.size() - taken < kMaxHeard;
    std::array<pollfd, 3> waits = {pollfd{rest ? program.in.get() : -1, POLLOUT, 0},
                                   {more ? program.out.get() : -1, POLLIN, 0},
                                   {program.err.get(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), kLookForSignals) < 0 && errno != EINTR)
      fail_errno(errno, "a program's pipes", "poll");
    interruption.check();
    if (waits[0].revents != 0) feed(program.in, *rest, false);
    if (waits[1].revents != 0) receive(program.out, heard);
    if (waits[2].revents != 0) receive(program.err, errors);
    if (errors.size() > kMaxErrors) errors.erase(0, errors.size() - kMaxErrors);
  }

  // Reads the rest of stderr, without waiting for other processes that hold it open.
  void drain_errors() {
    while (program.err) {
      pollfd wait = {program.err.get(), POLLIN, 0};
      if (::poll(&wait, 1, 0) <= 0) return;
      receive(program.err, errors);
      if (errors.size() > kMaxErrors) errors.erase(0, errors.size() - kMaxErrors);
    }
  }

  // True if it has ended within so many milliseconds.
  bool ended_within(int milliseconds) {
    for (int waited = 0;; waited += kStep) {
      int status = 0;
      const pid_t got = ::waitpid(program.pid, &status, WNOHANG);
      if (got == program.pid) exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (got != 0 && (got > 0 || errno != EINTR)) return true;
      if (waited >= milliseconds) return false;
      const timespec pause{0, kStep * 1'000'000L};
      ::nanosleep(&pause, nullptr);
    }
  }

  static constexpr std::size_t kMaxHeard = std::size_t{8} << 20, kMaxErrors = std::size_t{16} << 10;
  static constexpr int kLookForSignals = 200, kStep = 5;  // milliseconds
};

Conversation::Conversation(const std::vector<std::string>& argv, const Interruption& interruption)
    : state_(std::make_unique<State>(interruption)) {
  const BlockSigpipe blocked;
  state_->program = start(argv, {}, {}, blocked.before());
  if (const int error = state_->program.error; error != 0)
    throw Error(ErrorKind::kMissing, cannot_start(argv[0], error), "is it installed, and in PATH?");
  ::fcntl(state_->program.in.get(), F_SETFL, O_NONBLOCK);
}

Conversation::~Conversation() {
  if (state_->program.pid <= 0 || state_->exit_code >= 0) return;
  close_fd(state_->program.in);
  close_fd(state_->program.out);
  if (state_->ended_within(500)) return;
  ::kill(state_->program.pid, SIGTERM);
  if (state_->ended_within(1000)) return;
  ::kill(state_->program.pid, SIGKILL);
  try {
    wait_for(state_->program.pid);
  } catch (const Error&) {
    // Somebody else has waited for it.
  }
}

bool Conversation::write(ByteView bytes) {
  const BlockSigpipe blocked;
  std::string_view rest = as_text(bytes);
  while (!rest.empty() && state_->program.in) state_->serve(&rest);
  return rest.empty() && state_->program.in;
}

void Conversation::close_input() {
  close_fd(state_->program.in);
}

std::size_t Conversation::read(void* data, std::size_t count) {
  State& state = *state_;
  while (state.taken == state.heard.size() && state.program.out) state.serve(nullptr);
  const std::size_t got = std::min(count, state.heard.size() - state.taken);
  std::memcpy(data, state.heard.data() + state.taken, got);
  state.taken += got;
  if (state.taken == state.heard.size()) {
    state.heard.clear();
    state.taken = 0;
  }
  return got;
}

int Conversation::wait() {
  State& state = *state_;
  while (state.exit_code < 0 && !state.ended_within(10)) {
    state.interruption.check();
    state.drain_errors();
  }
  state.drain_errors();
  return state.exit_code;
}

const std::string& Conversation::errors() const {
  return state_->errors;
}

}  // namespace mlx
