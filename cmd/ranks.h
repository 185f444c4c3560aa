// Commands whose work several processes do together: finds the other ranks, or starts them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "cmd/hosts.h"
#include "dist/communicator.h"
#include "dist/launch.h"
#include "dist/lifeline.h"
#include "dist/mutual_watch.h"
#include "dist/pulse.h"
#include "store/pack/store.h"
#include "train/config/config.h"

namespace mlx::cmd {

inline constexpr std::int64_t kMostRanks = 4096;

// The config of a training on so many ranks. Those that do not hold parts of one model ([train] tp and pp) share a
// batch's micro-batches: one each if it does not say how many there are, with a pipeline several. Throws kUsage if they
// cannot be shared.
train::TrainConfig config_for_ranks(const std::string& file, const std::vector<std::string>& sets, std::int64_t ranks);

// The other ranks, if this process is one of several that MPI has started; else null. `wanted`: how many there should
// be, 0 if nobody said; throws kUsage if MPI has started another number. Messages are sealed if the launcher says so.
std::unique_ptr<dist::Communicator> join_ranks(std::int64_t wanted, Context& context);

// What ties a rank to whoever has launched it, as far as they ask for it.
struct Ties {
  std::unique_ptr<dist::Lifeline> lifeline;
  std::unique_ptr<dist::Pulse> pulse;
  std::unique_ptr<dist::MutualWatch> watch;  // where nobody listens
};
// `ranks`: null for none. All ranks call it at the same time.
Ties ties_of(dist::Communicator* ranks, Context& context);

// Takes part in what rank 0 trains, with data from the store. `uses`: OtherRank::uses. Errors name this rank.
void take_part(dist::Communicator& ranks, const store::Store& store, Context& context,
               std::function<void(const Digest& version)> uses = {});

// Runs `mlx ARGUMENTS` on the ranks of this machine, and on those of other hosts `mlx rank`, which take part in it. The
// ranks of a host share its cores.
struct RanksCall {
  std::vector<std::string> arguments;
  bool encrypt = false;                 // they seal what they send each other, under a key of this launch
  std::vector<std::string> taken_back;  // hosts that were lost before, and are among them again: for the run's record
  dist::Question pauses;                // once it is true, they stop with a checkpoint, quietly
};
// Of rank 0, in the launch that it belongs to.
std::vector<std::string> taken_back(const Environment& environment);
// The exit code; nullopt if they were stopped because of `pauses`.
std::optional<int> run_on_ranks(const std::vector<ReadyHost>& hosts, const RanksCall& call, Context& context);

}  // namespace mlx::cmd
