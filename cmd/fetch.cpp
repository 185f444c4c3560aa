// mlx fetch: receives operations and content from a remote, and leaves the worktree alone.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cmd/cli/cli.h"
#include "cmd/sync_text.h"
#include "registry/repository.h"
#include "registry/sync/numbers.h"
#include "registry/sync/sync.h"

namespace mlx::cmd {
namespace {

struct FetchOptions {
  std::string remote;
  bool all = false, allow_unrelated = false;
};

// Numbers and aliases that mean two versions now: pull stops for them, and so does push.
void warn_of_conflicts(Context& context) {
  try {
    (void)registry::settle_numbers(context.repository(), false);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kConflict) throw;
    context.progress().warn(fmt::format("{}; {}", error.message, error.hint));
  }
}

int run_fetch(const FetchOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::RemoteConfig remote = chosen_remote(options.remote, context);
  const registry::SyncResult result = registry::fetch(
      repository, remote, fetch_options(options.all, options.allow_unrelated, context), context.progress());
  context.line(context.dry_run() ? would_fetch_text(remote.name, result)
                                 : sync_text("fetched from", remote.name, result));
  print_versions(context, result);
  say_met(context, result);
  say_remarks(context, result);
  if (!context.dry_run()) warn_of_conflicts(context);
  if (context.wants_json()) {
    Json json = sync_json("mlx.fetch/1", remote.name, result);
    json["dry_run"] = context.dry_run();
    context.json(json);
  }
  return 0;
}

}  // namespace

Command add_fetch() {
  auto options = std::make_shared<FetchOptions>();
  Command command;
  command.name = "fetch";
  command.summary = "Receive versions, runs and content, and leave the worktree alone";
  command.group = "remotes";
  command.dry_run = true;
  command.options = {
      optional_argument("REMOTE", options->remote, "The remote (default: `remote.default`, `origin`, or the only one)",
                        Complete::kRemote),
      flag("--all", options->all, "Fetch the content of every version, not only of those that pointers name"),
      allow_unrelated_flag(options->allow_unrelated),
  };
  command.examples = {"mlx fetch", "mlx fetch -n", "mlx fetch --all"};
  command.run = [options](Context& context) { return run_fetch(*options, context); };
  return command;
}

}  // namespace mlx::cmd
