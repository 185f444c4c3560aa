// mlx rank: what `mlx train --hosts` runs on other hosts. People do not call it; their ssh and mpirun do.
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cmd/cli/cli.h"
#include "cmd/hosts.h"
#include "cmd/ranks.h"
#include "store/pack/store.h"

namespace mlx::cmd {
namespace {

struct RankOptions {
  bool facts = false;
  std::string store;
};

int run_rank(const RankOptions& options, Context& context) {
  if (options.facts) {
    context.out(canonical(to_json(own_facts(context))) + "\n");
    return 0;
  }
  const std::unique_ptr<dist::Communicator> others = options.store.empty() ? nullptr : join_ranks(0, context);
  if (!others) {
    throw Error(ErrorKind::kUsage, "rank is one of several that `mlx train --hosts` starts",
                "mlx train --hosts localhost,HOST");
  }
  const Ties ties = ties_of(others.get(), context);
  store::StoreOptions reading;
  reading.interruption = &context.progress().interruption();
  const store::Store store(options.store, context.disk(), context.pool(), reading);
  take_part(*others, store, context);
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
      option("--store", "DIR", options->store, "The store with the data", Complete::kFolder),
  };
  command.examples = {"mlx rank --facts"};
  command.run = [options](Context& context) { return run_rank(*options, context); };
  return command;
}

}  // namespace mlx::cmd
