// mpirun for commands; see dist/launch.h.
#include "cmd/ranks.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/module.h"
#include "base/parallel.h"
#include "dist/launch.h"
#include "dist/mpi.h"
#include "registry/settings/settings.h"

namespace mlx::cmd {
namespace {

constexpr int kKilled = 128;  // an exit code above it: by that signal

// What each rank may use of the threads that one process would have.
std::string threads_of_rank(std::int64_t ranks, Context& context) {
  const std::int64_t set = context.settings().integer("core.threads");
  return std::to_string(std::max<std::int64_t>(1, (set > 0 ? set : cores()) / ranks));
}

// Processes that do not know of each other would all train, into one repository.
void refuse_other_launchers(const Environment& environment) {
  for (const char* name : {"PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const std::string processes = environment.get(name).value_or("1");
    if (processes == "1") continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("{}={}: mlx knows only the ranks that Open MPI's mpirun starts", name, processes),
                "let mlx start them (--ranks), or run mpirun");
  }
}

}  // namespace

std::unique_ptr<dist::Communicator> join_ranks(std::int64_t wanted, Context& context) {
  const int started = dist::ranks_started(context.environment());
  if (started == 1) {
    refuse_other_launchers(context.environment());
    return nullptr;
  }
  if (wanted > 0 && wanted != started) {
    throw Error(ErrorKind::kUsage, fmt::format("--ranks {}: MPI has started {}", wanted, started),
                "leave --ranks out where mpirun starts mlx");
  }
  return dist::join_ranks(started);
}

int run_on_ranks(std::int64_t ranks, std::vector<std::string> arguments, Context& context) {
  dist::Launch launch;
  launch.command = {executable_path()};
  std::ranges::move(arguments, std::back_inserter(launch.command));
  if (context.wants_json()) launch.command.emplace_back("--json");
  if (context.quiet()) launch.command.emplace_back("--quiet");
  if (context.verbose()) launch.command.emplace_back("--verbose");
  launch.ranks = static_cast<int>(ranks);
  // MPI gives the first rank a terminal of its own, which says nothing about ours.
  const char* const colour = context.colour() ? "CLICOLOR_FORCE" : "NO_COLOR";
  launch.variables = {{"MLX_THREADS", threads_of_rank(ranks, context)}, {colour, "1"}};
  launch.as_root = ::geteuid() == 0;
  context.flush();
  const Interruption& interruption = context.progress().interruption();
  const int code = dist::run_ranks(launch, interruption);
  if (code != 0 && interruption.signal() != 0) return kKilled + interruption.signal();
  if (code <= kKilled) return code;
  throw Error(ErrorKind::kIo, fmt::format("a rank was ended by signal {}, and the others with it", code - kKilled),
              "the same command continues from the last checkpoint, on any number of ranks");
}

}  // namespace mlx::cmd
