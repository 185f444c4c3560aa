// mlx push: sends operations and the content that they name to a remote.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "base/json.h"
#include "cmd/cli.h"
#include "cmd/sync_text.h"
#include "registry/people.h"
#include "registry/repository.h"
#include "registry/settings.h"
#include "registry/sync.h"

namespace mlx::cmd {
namespace {

// Whoever gave a name is known by it to those who receive the operations; nobody else is.
void say_who_pushes(Context& context) {
  const std::string name = context.settings().text("user.name");
  if (name.empty()) return;
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = 0;
  registry::describe_actor(context.repository(), {name, context.settings().text("user.email"), host});
}

int run(const std::string& name, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::RemoteConfig remote = chosen_remote(name, context);
  say_who_pushes(context);
  const registry::SyncResult result = registry::push(repository, remote, context.progress());
  context.line(sync_text("pushed to", remote.name, result));
  if (context.wants_json()) context.json(sync_json("mlx.push/1", remote.name, result));
  return 0;
}

}  // namespace

Command add_push() {
  auto remote = std::make_shared<std::string>();
  Command command;
  command.name = "push";
  command.summary = "Send versions, runs and their content to a remote";
  command.group = "remotes";
  command.options = {optional_argument("REMOTE", *remote,
                                       "The remote; that of `remote.default`, `origin`, or the only one by default",
                                       Complete::kRemote)};
  command.examples = {"mlx push", "mlx push backup"};
  command.run = [remote](Context& context) { return run(*remote, context); };
  return command;
}

}  // namespace mlx::cmd
