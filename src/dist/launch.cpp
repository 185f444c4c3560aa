// mpirun as a child in a process group of its own.
#include "dist/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/fd.h"
#include "base/ssh.h"
#include "dist/mpi_parameters.h"
#include "dist/pulse.h"
#include "dist/watch.h"

namespace mlx::dist {
namespace {

constexpr std::chrono::seconds kPatience{10};  // with an mpirun that was asked to end

// In the child. Only functions that are safe after a fork of a process with threads. The errno of what failed goes to
// `problem`, which a successful exec closes.
[[noreturn]] void become(const std::vector<char*>& argv, pid_t parent, int problem, int errors) {
  ::setpgid(0, 0);  // a terminal's Ctrl-C is ours to pass on
  ::dup2(errors, STDERR_FILENO);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == parent) ::execvp(argv[0], argv.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(problem, &error, sizeof error);
  ::_exit(127);
}

struct Child {
  pid_t process = 0;
  Fd errors;  // its stderr, which is not waited for
};

std::pair<Fd, Fd> make_pipe(const std::string& program) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, program, "start");
  return {Fd(ends[0]), Fd(ends[1])};
}

Child start(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  auto [problem, to_problem] = make_pipe(command[0]);
  auto [errors, to_errors] = make_pipe(command[0]);
  Child out{0, std::move(errors)};
  ::fcntl(out.errors.get(), F_SETFL, O_NONBLOCK);
  const pid_t parent = ::getpid();
  out.process = ::fork();
  if (out.process < 0) fail_errno(errno, command[0], "start");
  if (out.process == 0) become(argv, parent, to_problem.get(), to_errors.get());
  to_problem = Fd();
  int error = 0;
  if (::read(problem.get(), &error, sizeof error) != static_cast<ssize_t>(sizeof error)) return out;
  ::waitpid(out.process, nullptr, 0);
  throw Error(ErrorKind::kMissing, "mpirun cannot be started: " + std::generic_category().message(error),
              "several ranks need Open MPI: install the package openmpi-bin");
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Waits a moment for what mpirun writes. False if nothing came.
bool listen(const Child& child, Watch& watch) {
  pollfd one{child.errors.get(), POLLIN, 0};
  if (::poll(&one, 1, 20) <= 0) return false;
  std::array<char, 4096> bytes{};
  const ssize_t count = ::read(child.errors.get(), bytes.data(), bytes.size());
  if (count > 0) watch.take({bytes.data(), static_cast<std::size_t>(count)}, Watch::Clock::now());
  if (count == 0) {  // it has closed the stream and will end
    const timespec moment{0, 20'000'000};
    ::nanosleep(&moment, nullptr);
  }
  return count > 0;
}

// Every host is reached from here, so that none needs a key for another. A host that does not answer for some seconds
// is lost.
void add_ssh(const std::string& ssh, std::vector<std::string>& argv) {
  const std::string agent = ssh.empty() ? kSilentSsh : ssh;
  for (const auto& [name, value] : {std::pair<std::string, std::string>{"plm_rsh_agent", agent},
                                    {"plm_rsh_no_tree_spawn", "1"},
                                    {"oob_tcp_keepalive_time", "4"},
                                    {"oob_tcp_keepalive_intvl", "2"},
                                    {"oob_tcp_keepalive_probes", "2"}})
    argv.insert(argv.end(), {"--mca", name, value});
}

}  // namespace

int stop_signal() {
  return SIGUSR1;
}

std::vector<std::string> mpirun_command(const Launch& launch) {
  // A rank may wait for its turn on a core: nobody spins.
  std::vector<std::string> argv{"mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"};
  for (const auto& [name, value] : mpi_parameters()) argv.insert(argv.end(), {"--mca", name, value});
  const auto add = [&](std::initializer_list<std::string> words) { argv.insert(argv.end(), words); };
  if (launch.as_root) add({"--allow-run-as-root"});
  const bool several = launch.places.size() > 1;
  if (several) add_ssh(launch.ssh, argv);
  if (several && !launch.network.empty())
    for (const char* name : {"oob_tcp_if_include", "btl_tcp_if_include"}) add({"--mca", name, launch.network});
  const char* separator = nullptr;
  for (const Place& place : launch.places) {
    if (separator) add({separator});
    separator = ":";
    const std::string ranks = std::to_string(std::max(1, place.host.ranks));  // with no rank it has the recorder
    if (several) add({"--host", place.host.name + ":" + ranks});
    add({"--np", ranks});
    add({"-x", std::string(kPulseVariable) + "=1"});
    for (const auto& [name, value] : place.variables) add({"-x", name + "=" + value});
    argv.insert(argv.end(), place.command.begin(), place.command.end());
  }
  return argv;
}

RanksEnd run_ranks(const Launch& launch, const Interruption& interruption, RanksListener& listener,
                   const Question& pauses) {
  Child mpirun = start(mpirun_command(launch));
  Watch watch(listener);
  RanksEnd out;
  std::optional<Watch::Clock::time_point> ended;  // since when they are asked to end
  bool passed_on = false;
  for (int status = 0;;) {
    const auto now = Watch::Clock::now();
    listen(mpirun, watch);
    const pid_t done = ::waitpid(mpirun.process, &status, WNOHANG);
    if (done < 0 && errno != EINTR) fail_errno(errno, "mpirun", "wait for");
    if (done == mpirun.process) {
      while (listen(mpirun, watch)) continue;
      watch.finish();
      out.code = exit_code_of(status);
      if (out.why.empty()) out.why = watch.why();
      return out;
    }
    if (!passed_on && (interruption.signal() != 0 || (pauses && pauses()))) {
      passed_on = true;
      ::kill(mpirun.process, stop_signal());
    }
    if (!ended && !(out.why = watch.lost(now)).empty()) {
      ended = now;
      ::kill(mpirun.process, SIGTERM);  // it ends the ranks in order, as far as it reaches them
    }
    if (ended && now - *ended > kPatience) ::kill(mpirun.process, SIGKILL);
  }
}

}  // namespace mlx::dist
