// mlx fetch: receives operations and content from a remote, and leaves the worktree alone.
#include <fmt/format.h>

#include <memory>

#include "base/json.h"
#include "cmd/cli.h"
#include "cmd/sync_text.h"
#include "registry/repository.h"
#include "registry/sync.h"

namespace mlx::cmd {
namespace {

struct Options {
  std::string remote;
  bool all = false;
};

int run(const Options& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::RemoteConfig remote = chosen_remote(options.remote, context);
  const registry::SyncResult result = registry::fetch(repository, remote, options.all, context.progress());
  context.line(sync_text("fetched from", remote.name, result));
  if (context.wants_json()) context.json(sync_json("mlx.fetch/1", remote.name, result));
  return 0;
}

}  // namespace

Command add_fetch() {
  auto options = std::make_shared<Options>();
  Command command;
  command.name = "fetch";
  command.summary = "Receive versions, runs and content, and leave the worktree alone";
  command.group = "remotes";
  command.options = {
      optional_argument("REMOTE", options->remote, "The remote; that of `remote.default`, `origin`, or the only one by default",
                        Complete::kRemote),
      flag("--all", options->all, "The content of every version, not only of what the pointers name"),
  };
  command.examples = {"mlx fetch", "mlx fetch --all"};
  command.run = [options](Context& context) { return run(*options, context); };
  return command;
}

}  // namespace mlx::cmd
