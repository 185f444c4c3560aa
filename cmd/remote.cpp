// mlx remote: the other stores that this project exchanges with, kept in mlx.toml.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "cmd/cli/cli.h"
#include "cmd/new_keys.h"
#include "cmd/unlock.h"
#include "registry/keys/keys.h"
#include "registry/repository.h"
#include "registry/sync/key_sync.h"
#include "registry/sync/sync.h"

namespace mlx::cmd {
namespace {

int list_remotes(Context& context) {
  Json list = Json::array();
  for (const registry::RemoteConfig& remote : registry::remotes(context.repository().root())) {
    context.line(fmt::format("{}  {}{}", context.bold(remote.name), remote.url, remote.encrypt ? "  encrypted" : ""));
    list.push_back({{"name", remote.name}, {"url", remote.url}, {"encrypt", remote.encrypt}});
  }
  if (list.empty()) context.line("no remotes: `mlx remote add NAME URL` names one");
  if (context.wants_json()) context.json({{"schema", "mlx.remote/1"}, {"remotes", list}});
  return 0;
}

// New keys cannot read what the old ones encrypted, and would conflict with them when they come back.
void require_no_lost_keys(registry::Repository& repository) {
  const std::string lost = repository.mlx_folder() + "/keys: the keys of this repository are missing";
  for (const registry::RemoteConfig& known : registry::remotes(repository.root())) {
    if (known.encrypt && !known.keys.empty()) {
      throw Error(ErrorKind::kConflict, fmt::format("{}: those of '{}' are its keys", lost, known.name),
                  fmt::format("`mlx pull {0}` takes them from there; or restore a backup of .mlx/keys", known.name));
    }
  }
  if (repository.store().encrypted())
    throw Error(ErrorKind::kConflict, lost, "new keys could not read it: restore a backup of .mlx/keys");
}

// The remote's keys if it has some, else new ones; true if they are new.
bool get_keys(const registry::RemoteConfig& remote, const NewKeysOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  if (repository.keys().exist()) return false;
  repository.keys().set_unlocker(make_unlocker(context, options.passphrase_file));
  if (registry::take_keys_of(repository, remote)) return false;
  require_no_lost_keys(repository);
  return make_keys_where_missing(repository.keys(), options, context);
}

int add(registry::RemoteConfig remote, const NewKeysOptions& keys, Context& context) {
  remote.encrypt |= context.repository().store().encrypted();  // nothing of it is to go anywhere in clear
  const std::string& root = context.repository().root();
  bool there = false;
  for (const registry::RemoteConfig& known : registry::remotes(root))
    there |= known.name == remote.name && known.url == remote.url && known.encrypt == remote.encrypt;
  if (!there) registry::add_remote(root, remote, true);  // before anybody is asked for a passphrase
  if (remote.encrypt && !context.dry_run() && get_keys(remote, keys, context))
    context.say("made keys: nobody can read the remote without the passphrase or identity; `mlx key` adds members");
  if (remote.encrypt && context.repository().keys().exist())
    remote.keys = store::fingerprint(context.repository().keys().file().chain.back());
  if (!there) registry::add_remote(root, remote, context.dry_run());
  const char* added = context.dry_run() ? "would be added to mlx.toml" : "added to mlx.toml";
  context.line(fmt::format("{}  {}  {}", context.bold(remote.name), remote.url, there ? "unchanged" : added));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.remote/1"},
                  {"name", remote.name},
                  {"url", remote.url},
                  {"encrypt", remote.encrypt},
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
  auto keys = std::make_shared<NewKeysOptions>();
  Command adding;
  adding.name = "add";
  adding.summary = "Add a remote";
  adding.dry_run = true;
  adding.options = {
      argument("NAME", remote->name, "Its name; commands use `origin` by default"),
      argument("URL", remote->url,
               "A folder, relative to the repository or absolute; ssh://HOST/PATH; HOST:PATH; s3://BUCKET/PREFIX",
               Complete::kFolder),
      flag("--encrypt", remote->encrypt, "Encrypt everything there, names and contents"),
  };
  for (Option& one : new_keys_options(*keys)) adding.options.push_back(std::move(one));
  adding.examples = {
      "mlx remote add origin /mnt/share/digits", "mlx remote add origin ssh://data.example.com/srv/digits",
      "mlx remote add origin s3://bucket/digits", "mlx remote add --encrypt away ssh://rented.example.com/digits"};
  adding.run = [remote, keys](Context& context) { return add(*remote, *keys, context); };

  Command listing;
  listing.name = "list";
  listing.summary = "List the remotes";
  listing.run = [](Context& context) { return list_remotes(context); };

  Command removing;
  removing.name = "remove";
  removing.summary = "Forget a remote; nothing is deleted there";
  removing.dry_run = true;
  removing.options = {argument("NAME", remote->name, "The remote", Complete::kRemote)};
  removing.run = [remote](Context& context) { return remove(remote->name, context); };

  Command command;
  command.name = "remote";
  command.summary = "Manage the stores that this project exchanges with";
  command.group = "remotes";
  command.subcommands = {adding, listing, removing};
  command.run = [](Context& context) { return list_remotes(context); };
  return command;
}

}  // namespace mlx::cmd
