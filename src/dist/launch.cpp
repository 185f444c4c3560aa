// mpirun as a child in a process group of its own.
#include "dist/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>

#include "base/error.h"
#include "base/fd.h"

namespace mlx::dist {
namespace {

// In the child. Only functions that are safe after a fork of a process with threads. The errno of what failed goes to
// `problem`, which a successful exec closes.
[[noreturn]] void become(const std::vector<char*>& argv, pid_t parent, int problem) {
  ::setpgid(0, 0);  // a terminal's Ctrl-C is ours to pass on
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == parent) ::execvp(argv[0], argv.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(problem, &error, sizeof error);
  ::_exit(127);
}

pid_t start(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno(errno, command[0], "start");
  const Fd read(ends[0]);
  Fd write(ends[1]);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) fail_errno(errno, command[0], "start");
  if (child == 0) become(argv, parent, write.get());
  write = Fd();
  int error = 0;
  if (::read(read.get(), &error, sizeof error) != static_cast<ssize_t>(sizeof error)) return child;
  ::waitpid(child, nullptr, 0);
  throw Error(ErrorKind::kMissing, "mpirun cannot be started: " + std::generic_category().message(error),
              "several ranks need Open MPI: install the package openmpi-bin");
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Every host is reached from here, so that none needs a key for another. A host that does not answer for some seconds
// is lost.
void add_ssh(const std::string& ssh, std::vector<std::string>& argv) {
  const std::string agent = ssh.empty() ? "ssh -o BatchMode=yes -o ConnectTimeout=10" : ssh;
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
  // -q: an error is told by the rank that has it. A rank may wait for its turn on a core: nobody spins. Messages within
  // a machine are copied through shared memory: to read another process's memory is forbidden in many containers.
  std::vector<std::string> argv{"mpirun",
                                "-q",
                                "--oversubscribe",
                                "--bind-to",
                                "none",
                                "--mca",
                                "mpi_yield_when_idle",
                                "1",
                                "--mca",
                                "btl_vader_single_copy_mechanism",
                                "none"};
  const auto add = [&](std::initializer_list<std::string> words) { argv.insert(argv.end(), words); };
  if (launch.as_root) add({"--allow-run-as-root"});
  if (launch.places.size() > 1) add_ssh(launch.ssh, argv);
  const char* separator = nullptr;
  for (const Place& place : launch.places) {
    if (separator) add({separator});
    separator = ":";
    const std::string ranks = std::to_string(place.host.ranks);
    if (launch.places.size() > 1) add({"--host", place.host.name + ":" + ranks});
    add({"--np", ranks});
    for (const auto& [name, value] : place.variables) add({"-x", name + "=" + value});
    argv.insert(argv.end(), place.command.begin(), place.command.end());
  }
  return argv;
}

int run_ranks(const Launch& launch, const Interruption& interruption) {
  const pid_t child = start(mpirun_command(launch));
  bool passed_on = false;
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return exit_code_of(status);
    if (ended < 0 && errno != EINTR) fail_errno(errno, "mpirun", "wait for");
    if (!passed_on && interruption.signal() != 0) {
      passed_on = true;
      ::kill(child, stop_signal());
    }
    const timespec moment{0, 20'000'000};
    ::nanosleep(&moment, nullptr);
  }
}

}  // namespace mlx::dist
