// mlx remote: the other stores that this project exchanges with, kept in mlx.toml.
#include <fmt/format.h>

#include <memory>

#include "base/json.h"
#include "cmd/cli.h"
#include "registry/repository.h"
#include "registry/sync.h"

namespace mlx::cmd {
namespace {

int list(Context& context) {
  Json list = Json::array();
  for (const registry::RemoteConfig& remote : registry::remotes(context.repository().root())) {
    context.line(fmt::format("{}  {}", context.bold(remote.name), remote.url));
    list.push_back({{"name", remote.name}, {"url", remote.url}});
  }
  if (list.empty()) context.line("no remotes: `mlx remote add NAME URL` names one");
  if (context.wants_json()) context.json({{"schema", "mlx.remote/1"}, {"remotes", list}});
  return 0;
}

int add(const registry::RemoteConfig& remote, Context& context) {
  const std::string& root = context.repository().root();
  bool there = false;
  for (const registry::RemoteConfig& known : registry::remotes(root))
    there |= known.name == remote.name && known.url == remote.url;
  if (!there) registry::add_remote(root, remote, context.dry_run());
  const char* added = context.dry_run() ? "would be added to mlx.toml" : "added to mlx.toml";
  context.line(fmt::format("{}  {}  {}", context.bold(remote.name), remote.url, there ? "unchanged" : added));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.remote/1"},
                  {"name", remote.name},
                  {"url", remote.url},
                  {"status", there ? "unchanged" : "added"},
                  {"dry_run", context.dry_run()}});
  }
  return 0;
}

int remove(const std::string& name, Context& context) {
  registry::remove_remote(context.repository().root(), name, context.dry_run());
  context.line(fmt::format("{}  {}removed from mlx.toml", context.bold(name), context.dry_run() ? "would be " : ""));
  if (context.wants_json())
    context.json({{"schema", "mlx.remote/1"}, {"name", name}, {"status", "removed"}, {"dry_run", context.dry_run()}});
  return 0;
}

}  // namespace

Command add_remote() {
  auto remote = std::make_shared<registry::RemoteConfig>();
  Command adding;
  adding.name = "add";
  adding.summary = "Name another store";
  adding.dry_run = true;
  adding.options = {
      argument("NAME", remote->name, "What to call it; `origin` is used where no name is given"),
      argument("URL", remote->url,
               "A folder, relative to the repository or absolute; ssh://HOST/PATH; HOST:PATH; s3://BUCKET/PREFIX",
               Complete::kFolder),
  };
  adding.examples = {"mlx remote add origin /mnt/share/digits",
                     "mlx remote add origin ssh://data.example.com/srv/digits",
                     "mlx remote add origin s3://bucket/digits"};
  adding.run = [remote](Context& context) { return add(*remote, context); };

  Command listing;
  listing.name = "list";
  listing.summary = "List them";
  listing.run = [](Context& context) { return list(context); };

  Command removing;
  removing.name = "remove";
  removing.summary = "Forget one; nothing is deleted there";
  removing.dry_run = true;
  removing.options = {argument("NAME", remote->name, "The remote", Complete::kRemote)};
  removing.run = [remote](Context& context) { return remove(remote->name, context); };

  Command command;
  command.name = "remote";
  command.summary = "Name the stores that this project exchanges with";
  command.group = "remotes";
  command.subcommands = {adding, listing, removing};
  command.run = [](Context& context) { return list(context); };
  return command;
}

}  // namespace mlx::cmd
