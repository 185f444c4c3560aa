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
// After ranks were lost: those of the hosts that can still take part, and fewer ranks if `parts` of a batch cannot be
// shared among all of theirs, of which `of_model` hold one model. Says which are left out. Throws kIo if fewer than
// `least` ranks are left.
std::vector<ReadyHost> hosts_left(const std::vector<dist::Host>& hosts, std::int64_t parts, std::int64_t of_model,
                                  std::int64_t least, const RankNeeds& needs, Context& context);
// Sends each host what it lacks into its cache, from which its ranks read. Interrupted, it goes on where it stopped.
void send_data(const std::vector<ReadyHost>& hosts, const RankNeeds& needs, Context& context);

}  // namespace mlx::cmd
