// The other half of `mlx train`: where its ranks are to run, what is shown before they are started, and the restarts
// after some were lost.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "dist/hosts.h"
#include "kernels/backend.h"
#include "train/trainer.h"

namespace mlx::cmd {

inline constexpr std::int64_t kNotGiven = std::numeric_limits<std::int64_t>::min();

// What the command line says.
struct TrainCommand {
  std::string config = "train.toml", resume, trace, device, precision, numerics, memory;
  std::vector<std::string> sets;
  bool force = false, fresh = false, profile = false, merge = false;
  std::int64_t ranks = kNotGiven;
  std::int64_t tp = kNotGiven, pp = kNotGiven, async = kNotGiven, sync_every = kNotGiven;  // set those of [train]
  std::string zero;                                                                        // the config's
  std::string hosts, hostfile;
  std::int64_t min_ranks = 0;  // 0: a lost rank ends the training
  bool ship = false, balance = false;
  std::int64_t verify_every = 0;
  std::string wire;  // the config's
  bool encrypt = false;
};

// `mlx train`, and what is `mlx train` with other options. Returns the exit code.
int run_train(const TrainCommand& options, Context& context);

// Where the ranks are to run; one here if nothing was said. Throws kUsage for options that contradict each other.
std::vector<dist::Host> hosts_of(const TrainCommand& options, Context& context);
// The options that say so again, for who resumes the training; begins with a space unless it is empty.
std::string where_text(const TrainCommand& options);

// Throws kUsage if --encrypt was given where no key can be handed out, or nothing is sent.
void check_encrypt(const TrainCommand& options, const std::vector<dist::Host>& hosts, Context& context);

// Throws kUsage if this machine has fewer devices than it is to have ranks. Each rank on a host sees to that, too.
void check_devices(const std::vector<dist::Host>& hosts, const kernels::Backend& backend);

// Starts the ranks and waits for their end. As long as --min-ranks are left, starts again without the hosts that are
// lost. With --dry-run prints the plan instead. Returns the exit code.
int launch(const TrainCommand& options, const std::vector<dist::Host>& hosts, const train::TrainConfig& config,
           const train::Inquiry& inquiry, Context& context);

}  // namespace mlx::cmd
