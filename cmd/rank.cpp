// mlx rank: what `mlx train --hosts` runs on other hosts. People do not call it; their ssh and mpirun do.
#include <unistd.h>

#include <memory>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "cmd/cli/cli.h"
#include "cmd/hosts.h"
#include "cmd/ranks.h"
#include "dist/launch_key.h"
#include "registry/settings/settings.h"
#include "store/maintenance/copies.h"
#include "store/pack/store.h"

namespace mlx::cmd {
namespace {

// What was sent lately may belong to a training that is about to start.
constexpr std::int64_t kGrace = 600;  // seconds

std::uint64_t cache_limit(Context& context) {
  try {
    return parse_byte_size(context.settings().text("cache.limit"));
  } catch (const Error& error) {
    fail(error.kind, "cache.limit: {}", error.message);
  }
}

// After a training, which no longer depends on it. Several ranks of a host need not all do so.
void limit_cache(store::Store& store, std::uint64_t limit, Context& context) {
  if (store.stat().stored_bytes <= limit) return;
  NoProgress silent(context.progress().interruption());
  try {
    store::limit_copies(store, context.disk(), limit, kGrace, silent);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kConflict) context.progress().warn(error.message);  // else another rank is at it
  }
}

struct RankOptions {
  bool facts = false, key = false;
  std::string store;
};

// Keeps the key of a launch, which comes on stdin, until its ranks on this host have it.
void hold_key(Context& context) {
  if (::isatty(STDIN_FILENO) != 0)
    throw Error(ErrorKind::kUsage, "--key is what `mlx train --hosts` runs by ssh, with a key on standard input");
  dist::hide_memory();
  const dist::HeldKey held = dist::read_held_key(STDIN_FILENO);
  const Fd listener = dist::listen_for_ranks(held);
  context.out("ready\n");
  context.flush();
  dist::give_to_ranks(held, listener, STDIN_FILENO);
}

int run_rank(const RankOptions& options, Context& context) {
  if (options.key) return hold_key(context), 0;
  if (options.facts) {
    context.out(canonical(to_json(own_facts(context))) + "\n");
    return 0;
  }
  const std::unique_ptr<dist::Communicator> others = options.store.empty() ? nullptr : join_ranks(0, context);
  if (!others) {
    throw Error(ErrorKind::kUsage, "rank is one of several that `mlx train --hosts` starts",
                "mlx train --hosts localhost,HOST");
  }
  const std::uint64_t limit = cache_limit(context);
  const Ties ties = ties_of(others.get(), context);
  store::StoreOptions reading;
  reading.interruption = &context.progress().interruption();
  store::Store store(options.store, context.disk(), context.pool(), reading);
  std::vector<Fd> in_use;
  take_part(*others, store, context,
            [&](const Digest& version) { in_use.push_back(store::use_copy(store, context.disk(), version)); });
  limit_cache(store, limit, context);
  return 0;
}

}  // namespace

Command add_rank() {
  auto options = std::make_shared<RankOptions>();
  Command command;
  command.name = "rank";
  command.summary = "Be a rank of a training that another machine has started";
  command.group = "plumbing";
  command.json = false;
  command.options = {
      flag("--facts", options->facts, "Print what this host has for a rank, as JSON, and end"),
      flag("--key", options->key, "Read the key of an encrypted training, and give it to the ranks of this host"),
      option("--store", "DIR", options->store, "The store with the data", Complete::kFolder),
  };
  command.examples = {"mlx rank --facts"};
  command.run = [options](Context& context) { return run_rank(*options, context); };
  return command;
}

}  // namespace mlx::cmd
