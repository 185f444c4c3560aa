// mlx key: for whom the keys of an encrypted repository and its remotes are locked, and which domains there are.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/toml.h"
#include "cmd/key_people.h"
#include "cmd/new_keys.h"
#include "cmd/unlock.h"
#include "registry/keys/keys.h"
#include "registry/keys/trust.h"
#include "registry/record/judge.h"
#include "registry/sync/sync.h"
#include "registry/versions/domains.h"

namespace mlx::cmd {
namespace {

struct KeyOptions {
  std::string what, name, domain, passphrase_file, new_passphrase_file;
  bool replace = false;
};

registry::Keys& keys_of(const KeyOptions& options, Context& context) {
  registry::Keys& keys = context.repository().keys();
  keys.set_unlocker(make_unlocker(context, options.passphrase_file));
  (void)keys.file();  // kNotFound if there are none
  return keys;
}

const char* kind_text(store::Member::Kind kind) {
  return kind == store::Member::Kind::kPassphrase ? "passphrase" : "recipient";
}

void report(Context& context, const std::string& line, const Json& document) {
  context.line(line);
  if (!context.wants_json()) return;
  Json json = {{"schema", "mlx.key/1"}};
  json.update(document);
  context.json(json);
}

// Prints a change of the keys; it reaches others with the next push.
void report_change(Context& context, const std::string& line, const char* status, Json document) {
  document["status"] = context.dry_run() ? "would be " + std::string(status) : status;
  document["dry_run"] = context.dry_run();
  report(context, line + "  " + document["status"].get<std::string>(), document);
}

store::PublicIdentity public_of(const store::Member& member) {
  return {member.public_key, member.signing_key};
}

int list(const KeyOptions& options, Context& context) {
  const store::KeyFile file = keys_of(options, context).file();
  Json members = Json::array(), domains = Json::array();
  const std::string ring = store::fingerprint(file.chain.front()), last = store::fingerprint(file.chain.back());
  context.line(fmt::format("ring {}  revision {}  {}", ring, file.revision(), last));
  for (const store::Member& member : file.members) {
    const std::string key =
        member.kind == store::Member::Kind::kRecipient ? store::public_key_text(public_of(member)) : "";
    context.line(fmt::format("{:10}  {}  {}", kind_text(member.kind), context.bold(member.name), context.dim(key)));
    members.push_back({{"kind", kind_text(member.kind)}, {"name", member.name}, {"key", key}});
  }
  const std::vector<std::string> names = store::domains(file);
  for (const std::string& name : names) {
    const std::vector<std::string> artifacts = registry::artifacts_in(context.repository(), name);
    context.line(fmt::format("{:10}  {}  {}", "domain", context.bold(name), fmt::join(artifacts, "  ")));
    const auto of_domain = [&](const store::DataKey& key) { return key.domain == name && !key.erased(); };
    domains.push_back(
        {{"name", name}, {"artifacts", artifacts}, {"keys", std::ranges::count_if(file.keys, of_domain)}});
  }
  if (context.wants_json()) {
    context.json({{"schema", "mlx.key/1"},
                  {"ring", to_hex(file.ring)},
                  {"fingerprint", ring},
                  {"revision", file.revision()},
                  {"last", last},
                  {"members", members},
                  {"domains", domains}});
  }
  return 0;
}

int new_identity(const KeyOptions&, Context& context) {
  const std::string path = identity_path(context.environment());
  if (path_exists(path)) {
    throw Error(ErrorKind::kConflict, fmt::format("{}: an identity exists already", path),
                "`mlx key export-public` prints its public key; MLX_IDENTITY names another file");
  }
  const KeyPair pair = x25519_generate();
  make_folders(parent_path(path));
  write_file_atomically(path, as_bytes(store::identity_text(pair)), 0600);
  const std::string text = store::public_key_text(store::public_identity(pair));
  report(context, text, {{"key", text}, {"file", path}, {"status", "created"}});
  context.say("made " + path + ": keep a copy of it; a member who adds this public key gives you access");
  return 0;
}

int export_public(const KeyOptions&, Context& context) {
  const std::string text = store::public_key_text(store::public_identity(read_identity(context.environment())));
  report(context, text, {{"key", text}});
  return 0;
}

int add_recipient(const KeyOptions& options, Context& context) {
  registry::Keys& keys = keys_of(options, context);
  const store::PublicIdentity key = store::parse_public_key(read_public_key(options.what));
  const std::string name = options.name.empty() ? "recipient" : options.name;
  if (const std::string problem = store::key_name_problem(name); !problem.empty())
    fail(ErrorKind::kUsage, "'{}' cannot name a member: {}", name, problem);
  const store::KeyFile file = keys.file();
  const bool there = std::ranges::find(file.members, key.locks, &store::Member::public_key) != file.members.end();
  if (there) {
    report(context, context.bold(name) + "  unchanged", {{"name", name}, {"status", "unchanged"}});
    return 0;
  }
  if (!context.dry_run())
    keys.change(
        [&](store::UnlockedKeys& own) { store::add_member(own, store::recipient_member(key, name, unix_micros())); });
  report_change(context, context.bold(name), "added", {{"name", name}});
  return 0;
}

// A member for a passphrase that opens nothing yet.
store::Member fresh_member(const KeyOptions& options, const std::string& name, const store::KeyFile& file) {
  const Secret passphrase = another_passphrase(options.new_passphrase_file, name);
  const std::optional<KeyPair> known = store::passphrase_identity(file, passphrase);
  if (known) {
    const auto whose = std::ranges::find(file.members, known->public_key, &store::Member::public_key);
    throw Error(ErrorKind::kUsage, fmt::format("{}: the new passphrase is that of '{}' already", name, whose->name),
                "nothing was changed: choose another one");
  }
  return store::passphrase_member(passphrase, name, {}, unix_micros());
}

int add_passphrase(const KeyOptions& options, Context& context) {
  registry::Keys& keys = keys_of(options, context);
  const std::string name = options.name.empty() ? "passphrase" : options.name;
  if (const std::string problem = store::key_name_problem(name); !problem.empty())
    fail(ErrorKind::kUsage, "'{}' cannot name a member: {}", name, problem);
  if (!context.dry_run()) {
    (void)keys.unlocked();
    const store::Member member = fresh_member(options, name, keys.file());
    keys.change([&](store::UnlockedKeys& own) { store::add_member(own, member); });
  }
  report_change(context, context.bold(name), "added", {{"name", name}});
  return 0;
}

// The one member that a name or a public key means.
store::Member find_member(const store::KeyFile& file, const std::string& what) {
  std::vector<store::Member> found;
  std::vector<std::string> names;
  for (const store::Member& member : file.members) {
    names.push_back(member.name);
    if (member.name == what || store::public_key_text(public_of(member)) == what) found.push_back(member);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    const std::string meant = did_you_mean(what, names);
    throw Error(ErrorKind::kNotFound, fmt::format("no member of the keys is called '{}'", what),
                meant.empty() ? "`mlx key list` lists them" : fmt::format("did you mean '{}'?", meant));
  }
  throw Error(ErrorKind::kConflict, fmt::format("{} members are called '{}'", found.size(), what),
              "name one by its public key");
}

int remove_recipient(const KeyOptions& options, Context& context) {
  registry::Keys& keys = keys_of(options, context);
  const store::Member member = find_member(keys.file(), options.what);
  if (!context.dry_run())
    keys.change([&](store::UnlockedKeys& own) { store::remove_member(own, member.public_key, unix_micros()); });
  report_change(context, context.bold(member.name), "removed", {{"name", member.name}});
  context.say(
      "they cannot read what is stored from now on; what they could read before they may have kept\nhint: run `mlx key "
      "pin` and commit it with git, so that clones which have not heard of it accept no older keys");
  return 0;
}

int change_passphrase(const KeyOptions& options, Context& context) {
  registry::Keys& keys = keys_of(options, context);
  const store::Member member = find_member(keys.file(), options.what.empty() ? "passphrase" : options.what);
  if (member.kind != store::Member::Kind::kPassphrase)
    fail(ErrorKind::kUsage, "'{}' is a recipient and has no passphrase", member.name);
  if (!context.dry_run()) {
    (void)keys.unlocked();
    const store::Member fresh = fresh_member(options, member.name, keys.file());
    keys.change([&](store::UnlockedKeys& own) { store::replace_member(own, member.public_key, fresh, unix_micros()); });
  }
  report_change(context, context.bold(member.name), "changed", {{"name", member.name}});
  return 0;
}

int rotate(const KeyOptions& options, Context& context) {
  registry::Keys& keys = keys_of(options, context);
  std::vector<std::string> names = store::domains(keys.file());
  if (!options.domain.empty()) {
    if (std::ranges::find(names, options.domain) == names.end())
      throw Error(ErrorKind::kNotFound, fmt::format("there is no domain '{}'", options.domain),
                  "`mlx key list` lists them");
    names = {options.domain};
  }
  if (!context.dry_run())
    keys.change([&](store::UnlockedKeys& own) {
      for (const std::string& name : names) store::rotate_domain(own, name, unix_micros());
    });
  report_change(context, fmt::format("{}", fmt::join(names, " ")), "rotated", {{"domains", names}});
  return 0;
}

int add_domain(const KeyOptions& options, Context& context) {
  registry::Keys& keys = keys_of(options, context);
  const std::vector<std::string> names = store::domains(keys.file());
  if (const std::string problem = store::key_name_problem(options.domain); !problem.empty())
    fail(ErrorKind::kUsage, "'{}' cannot name a domain: {}", options.domain, problem);
  if (std::ranges::find(names, options.domain) != names.end()) {
    report(context, context.bold(options.domain) + "  unchanged",
           {{"domain", options.domain}, {"status", "unchanged"}});
    return 0;
  }
  if (!context.dry_run())
    keys.change([&](store::UnlockedKeys& own) { store::rotate_domain(own, options.domain, unix_micros()); });
  report_change(context, context.bold(options.domain), "added", {{"domain", options.domain}});
  return 0;
}

int assign(const KeyOptions& options, Context& context) {
  (void)keys_of(options, context);
  const std::string artifact = context.repository().inside(options.what, context.folder());
  registry::require_may_record(context.repository(), "domain.assign");
  if (context.dry_run()) {
    report_change(context, context.bold(artifact) + "  " + options.domain, "assigned",
                  {{"artifact", artifact}, {"domain", options.domain}});
    return 0;
  }
  const bool changed = registry::assign_domain(context.repository(), artifact, options.domain);
  report(context, fmt::format("{}  {}  {}", context.bold(artifact), options.domain, changed ? "assigned" : "unchanged"),
         {{"artifact", artifact}, {"domain", options.domain}, {"status", changed ? "assigned" : "unchanged"}});
  return 0;
}

// A pin only moves forward: this clone's keys may be older than those that a colleague pinned to lock somebody out.
void require_onwards(const store::KeyFile& own, const registry::RemoteConfig& remote) {
  if (remote.keys.empty() || store::find_fingerprint(own.chain, remote.keys) != nullptr) return;
  throw Error(ErrorKind::kRefused,
              fmt::format("revision {} of this clone's keys lacks the revision that mlx.toml pins for '{}', {}: an "
                          "older state, or other keys",
                          own.revision(), remote.name, remote.keys),
              "run `mlx push` in a clone that has it, then `mlx pull` here; --replace pins these keys instead, and "
              "gives access again to whoever was removed since");
}

// Which revision the remotes' keys must have, for everybody who has this mlx.toml.
int pin(const KeyOptions& options, Context& context) {
  const std::string& root = context.repository().root();
  const store::KeyFile own = keys_of(options, context).file();
  const std::string fingerprint = store::fingerprint(own.chain.back());
  std::vector<registry::RemoteConfig> remotes = registry::remotes(root);
  std::erase_if(remotes, [](const registry::RemoteConfig& remote) { return !remote.encrypt; });
  if (remotes.empty()) fail(ErrorKind::kNotFound, "mlx.toml names no encrypted remote");
  const bool there = std::ranges::all_of(remotes, [&](const auto& remote) { return remote.keys == fingerprint; });
  if (there) {
    report(context, fingerprint + "  unchanged", {{"keys", fingerprint}, {"status", "unchanged"}});
    return 0;
  }
  for (const registry::RemoteConfig& remote : remotes) {
    if (!options.replace) require_onwards(own, remote);
  }
  for (const registry::RemoteConfig& remote : remotes) {
    if (!context.dry_run()) registry::pin_keys(root, remote.name, fingerprint);
  }
  report_change(context, fingerprint, "pinned", {{"keys", fingerprint}});
  return 0;
}

Option passphrase_file(KeyOptions& options) {
  return option("--passphrase-file", "FILE", options.passphrase_file,
                "A file with the passphrase that unlocks the keys, which only you can read; - is stdin",
                Complete::kFile);
}
Option new_passphrase_file(KeyOptions& options) {
  return option("--new-passphrase-file", "FILE", options.new_passphrase_file,
                "A file with the new passphrase that only you can read", Complete::kFile);
}

}  // namespace

Command add_key() {
  auto values = std::make_shared<KeyOptions>();
  KeyOptions& v = *values;
  Command domain;
  domain.name = "domain";
  domain.summary = "Domains, each with keys of its own";
  domain.subcommands = {subcommand("add", "Make a domain, or a new key for one that was erased",
                                   {argument("NAME", v.domain, "The domain"), passphrase_file(v)}, true, values,
                                   add_domain)};

  Command command;
  command.name = "key";
  command.summary = "Say who can read what is encrypted, whose signatures count, and who may ask a server";
  command.group = "govern";
  command.subcommands = {
      subcommand("list", "List members and domains, without unlocking", {}, false, values, list),
      subcommand("new-identity", "Make a key pair of your own, and print its public key", {}, false, values,
                 new_identity),
      subcommand("export-public", "Print your public key", {}, false, values, export_public),
      subcommand("add-recipient", "Add a member by a public key",
                 {argument("KEY", v.what, "The public key, or a file with it", Complete::kFile),
                  option("--name", "NAME", v.name, "Their name"), passphrase_file(v)},
                 true, values, add_recipient),
      subcommand("remove-recipient", "Remove a member, who cannot read what is stored from now on",
                 {argument("MEMBER", v.what, "A name of `mlx key list`, or a public key"), passphrase_file(v)}, true,
                 values, remove_recipient),
      subcommand("add-passphrase", "Add another passphrase",
                 {option("--name", "NAME", v.name, "What to call it"), passphrase_file(v), new_passphrase_file(v)},
                 true, values, add_passphrase),
      subcommand("change-passphrase", "Replace a passphrase",
                 {optional_argument("NAME", v.what, "A name of `mlx key list`; `passphrase` by default"),
                  passphrase_file(v), new_passphrase_file(v)},
                 true, values, change_passphrase),
      subcommand("rotate", "Encrypt what is stored from now on with new keys",
                 {optional_argument("DOMAIN", v.domain, "The domain; all by default"), passphrase_file(v)}, true,
                 values, rotate),
      subcommand("pin", "Write into mlx.toml which keys the encrypted remotes must have",
                 {flag("--replace", v.replace, "Pin even if this clone's keys lack the revision that is pinned")}, true,
                 values, pin),
      domain,
      subcommand("assign", "Put an artifact into a domain, before its first add",
                 {argument("ARTIFACT", v.what, "A dataset's path or a model's name"),
                  argument("DOMAIN", v.domain, "The domain")},
                 true, values, assign),
  };
  command.subcommands.push_back(api_key_command());
  for (Command& about_people : people_commands()) command.subcommands.push_back(std::move(about_people));
  command.run = [values](Context& context) { return list(*values, context); };
  command.examples = {"mlx key new-identity", "mlx key add-recipient ada.pub --name ada",
                      "mlx key remove-recipient ada", "mlx key domain add people && mlx key assign data/people people"};
  return command;
}

}  // namespace mlx::cmd
