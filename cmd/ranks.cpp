// mpirun for commands; see dist/launch.h.
#include "cmd/ranks.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cmd/backend.h"
#include "cmd/cli/standard_error.h"
#include "cmd/data_memory.h"
#include "cmd/launch_keys.h"
#include "cmd/rank_view.h"
#include "dist/launch.h"
#include "dist/mpi.h"
#include "dist/sealed.h"
#include "train/other_rank.h"

namespace mlx::cmd {
namespace {

constexpr const char* kTakenBackVariable = "MLX_TAKEN_BACK";  // names with commas between them
constexpr int kKilled = 128;                                  // an exit code above it: by that signal

dist::Place place_of(const ReadyHost& host, const RanksCall& call, const std::string& holder, Context& context) {
  dist::Place out{host.host, {host.facts.program}, {}};
  out.variables = {{"MLX_THREADS", std::to_string(threads_of(host))}};
  if (!holder.empty()) out.variables.emplace_back(dist::kLaunchVariable, holder);
  if (!host.host.here()) {
    out.command.insert(out.command.end(), {"rank", "--store", host.facts.cache});
    // What the bits depend on, and how GPUs reach each other.
    for (const char* name : {"MLX_KERNELS", "MLX_CUDA_LIBRARIES", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG"})
      if (const auto value = context.environment().get(name)) out.variables.emplace_back(name, *value);
    return out;
  }
  std::ranges::copy(call.arguments, std::back_inserter(out.command));
  if (!call.taken_back.empty())
    out.variables.emplace_back(kTakenBackVariable, fmt::format("{}", fmt::join(call.taken_back, ",")));
  if (context.wants_json()) out.command.emplace_back("--json");
  if (context.quiet()) out.command.emplace_back("--quiet");
  if (context.verbose()) out.command.emplace_back("--verbose");
  // MPI gives the first rank a terminal of its own, which says nothing about ours.
  out.variables.emplace_back(context.colour() ? "CLICOLOR_FORCE" : "NO_COLOR", "1");
  return out;
}

void say_lost(const std::string& what) {
  write_stderr(fmt::format(
      "mlx: error: {}\nhint: the same command continues from the last checkpoint, on any number of ranks\n", what));
}

// MPI would wait for the lost rank for ever. What has started the ranks ends all when one ends like this.
[[noreturn]] void end_because_lost() {
  ::_exit(static_cast<int>(ErrorKind::kIo));
}

void warn_unwatched(const std::string& why) {
  write_stderr(fmt::format("mlx: warning: a rank that hangs may not be noticed: {}\n", why));
}

// Ranks whose launcher holds a key for them seal what they send.
std::unique_ptr<dist::Communicator> sealed_if_wanted(std::unique_ptr<dist::Communicator> ranks, Context& context) {
  const auto holder = context.environment().get(dist::kLaunchVariable);
  if (!holder) return ranks;
  dist::hide_memory();
  const dist::LaunchKey key = dist::ask_for_key(*holder, ranks->rank(), ranks->ranks());
  return dist::sealed_ranks(std::move(ranks), key);
}

// The user's own choice is stronger.
std::string network_for_mpi(const std::vector<ReadyHost>& hosts, const Environment& environment) {
  for (const char* name : {"OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_oob_tcp_if_exclude", "OMPI_MCA_btl_tcp_if_include",
                           "OMPI_MCA_btl_tcp_if_exclude"})
    if (environment.get(name)) return "";
  return network_of(hosts);
}

// Processes that do not know of each other would all train, into one repository.
void refuse_other_launchers(const Environment& environment) {
  if (environment.get("OMPI_COMM_WORLD_SIZE")) return;  // one rank of mpirun, which such a launcher may have started
  for (const char* name : {"PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const std::string processes = environment.get(name).value_or("1");
    if (processes == "1") continue;
    throw Error(ErrorKind::kUsage, fmt::format("{}={}: these processes do not know of each other", name, processes),
                "start them by mpirun of Open MPI or by `srun --mpi=pmix`, as `mlx export slurm` writes it");
  }
}

// Local SGD: each rank is a worker, and their number is part of the config.
train::TrainConfig config_for_workers(train::TrainConfig config, std::vector<std::string> sets, std::int64_t ranks) {
  ranks = std::max<std::int64_t>(1, ranks);
  if (config.local_sgd.workers == ranks) return config;
  if (config.local_sgd.workers > 1) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: [train] workers = {}, and there {} {}", config.file, config.local_sgd.workers,
                            ranks == 1 ? "is" : "are", counted(static_cast<std::uint64_t>(ranks), "rank")),
                fmt::format("the number of workers changes the model: train with --ranks {}, or leave workers out",
                            config.local_sgd.workers));
  }
  sets.push_back(fmt::format("train.workers={}", ranks));
  return train::read_train_config(config.file, sets);
}

// One for each rank that shares a batch; with a pipeline several, up to four for each stage, which then waits for less
// than a fifth of the time.
std::int64_t micro_batches_for(const train::TrainConfig& config, std::int64_t sharers) {
  constexpr std::int64_t kEach = 4;
  if (config.pp == 1) return sharers;
  std::int64_t each = kEach * config.pp;
  while (each > 1 && config.batch % (each * sharers) != 0) --each;
  return each * sharers;
}

}  // namespace

train::TrainConfig config_for_ranks(const std::string& file, const std::vector<std::string>& sets, std::int64_t ranks) {
  train::TrainConfig config = train::read_train_config(file, sets);
  ranks = std::max<std::int64_t>(1, ranks);
  train::check_ranks(config, ranks);
  if (config.local_sgd.wanted()) return config_for_workers(std::move(config), sets, ranks);
  const std::int64_t sharers = ranks / config.ranks_of_model();
  if (const std::int64_t parts = micro_batches_for(config, sharers); config.accumulate == 1 && parts > 1) {
    std::vector<std::string> more = sets;
    more.push_back(fmt::format("train.accumulate={}", parts));
    config = train::read_train_config(file, more);
  }
  if (config.accumulate % sharers != 0) {
    const std::string each =
        config.ranks_of_model() > 1 ? fmt::format(", {} for each model", config.ranks_of_model()) : "";
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: [train] accumulate = {} micro-batches cannot be shared among {} ranks{}", config.file,
                            config.accumulate, ranks, each),
                "set accumulate to a multiple of the ranks: models of the same accumulate are the same on any number");
  }
  if (config.synchronised_norms && config.accumulate != sharers) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{}: [train] batch_norm = \"synchronised\": each of {} must have one micro-batch, and there "
                    "are {}: those that run one after another cannot wait for each other",
                    config.file, counted(static_cast<std::uint64_t>(sharers), "rank"), config.accumulate),
        fmt::format("train with --ranks {}, or leave accumulate out", config.accumulate));
  }
  if (config.balance && sharers > 1 && config.accumulate == sharers) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: [train] balance: each of {} ranks has one micro-batch, and none to give", config.file,
                            sharers),
                fmt::format("cut batches into more of them, such as --set train.accumulate={}", 4 * sharers));
  }
  return config;
}

std::unique_ptr<dist::Communicator> join_ranks(std::int64_t wanted, Context& context) {
  const int started = dist::ranks_started(context.environment());
  if (started == 1) {
    refuse_other_launchers(context.environment());
    return nullptr;
  }
  if (wanted > 0 && wanted != started) {
    throw Error(ErrorKind::kUsage, fmt::format("--ranks {}: MPI has started {}", wanted, started),
                "leave --ranks out where something else starts the ranks");
  }
  return sealed_if_wanted(dist::join_ranks(started), context);
}

Ties ties_of(dist::Communicator* ranks, Context& context) {
  Ties out;
  if (!ranks) return out;
  if (!context.environment().get(dist::kPulseVariable)) {
    const Interruption& interruption = context.progress().interruption();
    out.watch = std::make_unique<dist::MutualWatch>(
        *ranks, dist::MutualWatch::Hears{say_lost, end_because_lost, [&] { return interruption.signal() != 0; },
                                         warn_unwatched});
    return out;
  }
  out.lifeline = std::make_unique<dist::Lifeline>();
  out.pulse = std::make_unique<dist::Pulse>(*ranks, STDERR_FILENO);
  return out;
}

void take_part(dist::Communicator& ranks, const store::Store& store, Context& context,
               std::function<void(const Digest& version)> uses) {
  const train::OtherRank rank{ranks, [&](const std::string& device) { return chosen_backend(context, device); },
                              [&](std::int64_t memory) { return training_data_memory(memory, context); },
                              std::move(uses)};
  NoProgress silent(context.progress().interruption());
  try {
    train::take_part(store, context.pool(), rank, silent);
  } catch (Error& error) {
    if (!error.message.starts_with(ranks.name())) error.message = fmt::format("{}: {}", ranks.name(), error.message);
    throw;
  }
}

std::vector<std::string> taken_back(const Environment& environment) {
  std::istringstream names(environment.get(kTakenBackVariable).value_or(""));
  std::vector<std::string> out;
  for (std::string name; std::getline(names, name, ',');) out.push_back(name);
  return out;
}

std::optional<int> run_on_ranks(const std::vector<ReadyHost>& hosts, const RanksCall& call, Context& context) {
  dist::Launch launch;
  const LaunchKeys keys = call.encrypt ? hand_out_key(hosts, context) : LaunchKeys();
  for (std::size_t i = 0; i < hosts.size(); ++i)
    launch.places.push_back(place_of(hosts[i], call, call.encrypt ? keys.holders[i] : "", context));
  if (call.encrypt) launch.network = network_for_mpi(hosts, context.environment());
  launch.ssh = context.environment().get("MLX_SSH_COMMAND").value_or("");
  launch.as_root = ::geteuid() == 0;
  context.flush();
  const Interruption& interruption = context.progress().interruption();
  RankView view(context);
  bool paused = false;
  const dist::RanksEnd end = dist::run_ranks(launch, interruption, view, [&] {
    if (!paused && call.pauses && call.pauses()) {
      paused = true;
      view.expect_stop();
    }
    return paused;
  });
  view.end();
  keep_logs(view, context);
  if (end.code != 0 && interruption.signal() != 0) return kKilled + interruption.signal();
  if (end.code != 0 && paused && end.why.empty()) return std::nullopt;
  if (end.code == 0 || (end.why.empty() && end.code <= kKilled)) return end.code;
  throw Error(ErrorKind::kIo,
              end.why.empty() ? fmt::format("a rank was ended by signal {}", end.code - kKilled) : end.why,
              "the same command continues from the last checkpoint, on any number of ranks");
}

}  // namespace mlx::cmd
