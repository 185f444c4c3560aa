// [people] of mlx.toml is the user's file and git's: these commands edit it as text, and git carries it.
#include "cmd/key_people.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "registry/signer.h"
#include "registry/trust.h"

namespace mlx::cmd {
namespace {

struct PeopleOptions {
  std::string name, key, may;
};

int signing(const PeopleOptions&, Context& context) {
  const Digest key = context.repository().signer().public_key;
  context.line(store::ssh_public_key(key));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.key.signing/1"},
                  {"key", store::ssh_public_key(key)},
                  {"fingerprint", store::ssh_fingerprint(key)},
                  {"actor", context.repository().actor()}});
  }
  return 0;
}

std::vector<std::string> names_of(const std::vector<registry::Right>& rights) {
  std::vector<std::string> names;
  names.reserve(rights.size());
  for (const registry::Right right : rights) names.emplace_back(registry::right_name(right));
  return names;
}

int people(const PeopleOptions&, Context& context) {
  const registry::People declared = registry::declared_people(context.repository().root());
  Json list = Json::array();
  for (const registry::TrustedPerson& person : declared.people) {
    Json keys = Json::array(), until = Json::array();
    std::vector<std::string> prints;
    for (const Digest& key : person.keys) {
      keys.push_back(store::ssh_public_key(key));
      prints.push_back(store::ssh_fingerprint(key));
    }
    for (const Digest& id : person.until) until.push_back(id.text());
    const std::string end =
        person.until.empty() ? "" : fmt::format("  up to operation {}", person.until.front().brief());
    context.line(fmt::format("{}  {}  {}{}", context.bold(person.name), fmt::join(names_of(person.may), ","),
                             context.dim(fmt::format("{}", fmt::join(prints, " "))), end));
    list.push_back({{"name", person.name}, {"keys", keys}, {"may", names_of(person.may)}, {"until", until}});
  }
  if (declared.people.empty()) {
    context.line("nobody is declared: the keys that this clone has taken operations of count");
  }
  if (context.wants_json()) context.json({{"schema", "mlx.key.people/1"}, {"people", list}});
  return 0;
}

// A public key's text, or a file with it.
Digest parse_key(const std::string& text, Context& context) {
  if (text.starts_with("ssh-")) return store::parse_ssh_public_key(text, "KEY");
  const std::string path = join_path(context.folder(), text);
  if (!path_exists(path)) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: neither a public key nor a file", text),
                "a key is one line in quotes, 'ssh-ed25519 AAAA…'; `mlx key signing` prints one's own");
  }
  return store::parse_ssh_public_key(read_text(path), text);
}

std::vector<registry::Right> parse_rights(const std::string& list) {
  std::vector<registry::Right> rights;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    rights.push_back(registry::parse_right(list.substr(at, end - at)));
    at = end + 1;
  }
  return rights;
}

// user.name as a key of TOML: "Ada L." is ada-l.
std::string own_name(Context& context) {
  std::string name;
  for (const char c : context.settings().text("user.name")) {
    const bool upper = c >= 'A' && c <= 'Z', plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (upper || plain) name += upper ? static_cast<char>(c + 32) : c;
    if (c == ' ' && !name.empty() && name.back() != '-') name += '-';
  }
  while (name.ends_with('-')) name.pop_back();
  return name.empty() || name.size() > 64 || name == "unsigned" ? "owner" : name;
}

// Whoever declares the first person stands there too, with every right: else nobody would count.
void declare_self(registry::Repository& repository, Context& context) {
  registry::TrustedPerson self{own_name(context), {repository.signer().public_key}, {}, {}};
  self.may.assign(std::begin(registry::kAllRights), std::end(registry::kAllRights));
  registry::trust_person(repository.root(), self, context.dry_run());
  registry::declare_unsigned(repository, context.dry_run());
  context.say(fmt::format("'{}' is this clone's own key, with every right", self.name));
}

// What stands in the history already and would be refused by a fresh clone.
void say_who_is_missing(registry::Repository& repository, Context& context) {
  for (const Digest& key : registry::undeclared_signers(repository))
    context.say(fmt::format("the history holds operations of {}, which is not in [people]: fresh clones refuse them",
                            store::ssh_public_key(key)));
}

int trust(const PeopleOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const Digest key = parse_key(options.key, context);
  const registry::People declared = registry::declared_people(repository.root());
  registry::TrustedPerson person{options.name, {}, {registry::Right::kCommit}, {}};
  const auto known = std::ranges::find(declared.people, options.name, &registry::TrustedPerson::name);
  if (known != declared.people.end()) person = *known;
  if (std::ranges::find(person.keys, key) == person.keys.end()) person.keys.push_back(key);
  if (!options.may.empty()) person.may = parse_rights(options.may);
  person.until.clear();
  if (!declared.declared && key != repository.signer().public_key) declare_self(repository, context);
  const bool changed = registry::trust_person(repository.root(), person, context.dry_run());
  const char* status = !changed ? "unchanged" : context.dry_run() ? "would be trusted" : "trusted";
  context.line(fmt::format("{}  {}  {}", context.bold(person.name), fmt::join(names_of(person.may), ","), status));
  if (changed && !context.dry_run()) {
    say_who_is_missing(repository, context);
    context.say("it stands in mlx.toml: commit that with git, whose review guards it");
  }
  if (context.wants_json()) {
    context.json({{"schema", "mlx.key.trust/1"},
                  {"name", person.name},
                  {"may", names_of(person.may)},
                  {"status", status},
                  {"dry_run", context.dry_run()}});
  }
  return 0;
}

int distrust(const PeopleOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const bool changed = registry::end_trust(repository.root(), options.name, repository.heads(), context.dry_run());
  const char* status = !changed ? "unchanged" : context.dry_run() ? "would be ended" : "ended";
  context.line(fmt::format("{}  {}", context.bold(options.name), status));
  if (changed) context.say("what they signed up to now still counts; commit mlx.toml with git");
  if (context.wants_json()) {
    context.json(
        {{"schema", "mlx.key.distrust/1"}, {"name", options.name}, {"status", status}, {"dry_run", context.dry_run()}});
  }
  return 0;
}

}  // namespace

std::vector<Command> people_commands() {
  auto values = std::make_shared<PeopleOptions>();
  PeopleOptions& v = *values;
  Command trusting = subcommand(
      "trust", "Count what somebody signs, in [people] of mlx.toml",
      {argument("NAME", v.name, "What to call them: letters, digits, '_' and '-'"),
       argument("KEY", v.key, "Their public key, `ssh-ed25519 AAAA…` in quotes, or a file with it", Complete::kFile),
       option("--may", "RIGHTS", v.may, "What for, with commas: commit (the default), promote, erase, keys")},
      true, values, trust);
  trusting.examples = {"mlx key trust ada ada.pub --may commit,promote"};
  return {subcommand("signing", "Print the public key that signs what you record here", {}, false, values, signing),
          subcommand("people", "List whose signatures count, and for what", {}, false, values, people), trusting,
          subcommand("distrust", "Count what somebody signed up to now, and nothing later",
                     {argument("NAME", v.name, "A name of `mlx key people`")}, true, values, distrust)};
}

}  // namespace mlx::cmd
