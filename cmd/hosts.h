// Other hosts before ranks are started there: asked whether they can take part, and given the data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "cmd/cli/cli.h"
#include "dist/host_facts.h"
#include "dist/hosts.h"

namespace mlx::cmd {

// What this machine would say of itself.
dist::HostFacts own_facts(Context& context);

// What ranks there need.
struct RankNeeds {
  Digest dataset;
  std::optional<Digest> base;  // a model: its weights are not sent
  bool portable = false;       // numerics
  std::int64_t memory = 0;     // bytes of a rank
  bool ship = false;           // send this mlx to a host that lacks it
};

// The threads that one process on this machine would have.
int threads_here(Context& context);

struct ReadyHost {
  dist::Host host;
  dist::HostFacts facts;
  std::uint64_t missing = 0;  // stored bytes of the data that it lacks
  bool lacks_mlx = false;     // with --dry-run: nothing else is known of it
};
// Of one of its ranks.
int threads_of(const ReadyHost& host);

// Asks all hosts at once. Tells every problem of every host, and throws if there is one.
std::vector<ReadyHost> ask_hosts(const std::vector<dist::Host>& hosts, const RankNeeds& needs, Context& context);
// How ranks that are left may share a training.
struct RankShares {
  std::int64_t parts = 1, of_model = 1;  // of a batch; ranks that hold one model
  std::int64_t least = 1;                // ranks that must be left
  // Of so many, as many as can.
  std::int64_t usable(std::int64_t ranks) const {
    while (ranks > 0 && (ranks % of_model != 0 || parts % (ranks / of_model) != 0)) --ranks;
    return ranks;
  }
};
// After ranks were lost, or a host is back: those of the hosts that can take part, and fewer ranks if not all can share
// a batch. If all others can, `suspects` are left out, as far as enough ranks remain. Says which are left out. Throws
// kIo if too few ranks are left.
std::vector<ReadyHost> hosts_left(const std::vector<dist::Host>& hosts, const RankShares& shares,
                                  const std::vector<std::string>& suspects, const RankNeeds& needs, Context& context);
// Sends each host what it lacks into its cache, from which its ranks read. Interrupted, it goes on where it stopped.
void send_data(const std::vector<ReadyHost>& hosts, const RankNeeds& needs, Context& context);

}  // namespace mlx::cmd
