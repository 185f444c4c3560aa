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
#include "registry/keys/signer.h"
#include "registry/keys/trust.h"
#include "registry/record/trust_changes.h"

namespace mlx::cmd {
namespace {

struct PeopleOptions {
  std::string name, key, may;
  bool replace = false, again = false, up_to_now = false;
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

// A key that was retired, or a right that was taken away.
Json former_json(const registry::FormerTrust& former) {
  Json until = Json::array();
  for (const Digest& id : former.until) until.push_back(id.text());
  return {{"key", store::ssh_public_key(former.key)}, {"may", names_of(former.may)}, {"until", until}};
}

std::string former_text(const registry::FormerTrust& former) {
  return fmt::format("  {}  {}  up to operation {}", fmt::join(names_of(former.may), ","),
                     store::ssh_fingerprint(former.key), former.until.front().brief());
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
    const std::vector<std::string> may = person.keys.empty() ? std::vector<std::string>() : names_of(person.may);
    context.line(fmt::format("{}  {}  {}{}", context.bold(person.name), fmt::join(may, ","),
                             context.dim(fmt::format("{}", fmt::join(prints, " "))), end));
    Json before = Json::array();
    for (const registry::FormerTrust& former : person.before) {
      context.line(context.dim(former_text(former)));
      before.push_back(former_json(former));
    }
    list.push_back({{"name", person.name}, {"keys", keys}, {"may", may}, {"until", until}, {"before", before}});
  }
  if (declared.people.empty()) {
    context.line("nobody is declared: this clone trusts the keys whose operations it has received");
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

// Whoever declares the first person is declared too, with every right: otherwise nobody would count.
void declare_self(registry::Repository& repository, Context& context) {
  registry::TrustedPerson self{own_name(context), {repository.signer().public_key}, {}, {}};
  self.may.assign(std::begin(registry::kAllRights), std::end(registry::kAllRights));
  registry::trust_person(repository.root(), self, context.dry_run());
  registry::declare_unsigned(repository, context.dry_run());
  context.say(fmt::format("'{}' is this clone's own key, with every right", self.name));
}

// Operations in the history that a fresh clone would refuse.
void say_who_is_missing(registry::Repository& repository, Context& context) {
  for (const Digest& key : registry::undeclared_signers(repository))
    context.say(fmt::format("the history holds operations of {}, which is not in [people]: fresh clones refuse them",
                            store::ssh_public_key(key)));
}

// Retiring a key keeps what this clone's history holds, forged or not.
void say_what_counts_on(const registry::TrustedPerson& person, Context& context) {
  if (person.before.empty()) return;
  for (const registry::FormerTrust& former : person.before) context.say("counts on:" + former_text(former));
  context.say("look at `mlx audit log`: what should not count must not be before these operations");
}

int trust(const PeopleOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  if (options.up_to_now && (options.replace || options.again))
    fail(ErrorKind::kUsage, "--up-to-now excludes --replace and --again: it trusts no key from now on");
  registry::TrustChange change{options.name, parse_key(options.key, context)};
  if (!options.may.empty()) change.may = parse_rights(options.may);
  change.replace = options.replace;
  change.again = options.again;
  change.up_to_now = options.up_to_now;
  const registry::TrustedPerson person = registry::changed_person(repository, change);
  if (!registry::declared_people(repository.root()).declared && change.key != repository.signer().public_key)
    declare_self(repository, context);
  const bool changed = registry::trust_person(repository.root(), person, context.dry_run());
  const char* status = !changed ? "unchanged" : context.dry_run() ? "would be trusted" : "trusted";
  const std::vector<registry::Right>& may = options.up_to_now ? person.before.back().may : person.may;
  context.line(fmt::format("{}  {}  {}", context.bold(person.name), fmt::join(names_of(may), ","), status));
  if (changed && !context.dry_run()) {
    say_who_is_missing(repository, context);
    say_what_counts_on(person, context);
    context.say("it is in mlx.toml: commit that with git, whose review guards it");
  }
  if (context.wants_json()) {
    context.json({{"schema", "mlx.key.trust/1"},
                  {"name", person.name},
                  {"may", names_of(may)},
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
      "trust", "Trust what somebody signs, in [people] of mlx.toml",
      {argument("NAME", v.name, "Their name: letters, digits, '_' and '-'"),
       argument("KEY", v.key, "Their public key, `ssh-ed25519 AAAA…` in quotes, or a file with it", Complete::kFile),
       option("--may", "RIGHTS", v.may,
              "All their rights, separated by commas, replacing the present ones: commit (the default), promote, "
              "erase, keys"),
       flag("--replace", v.replace, "Retire their other keys: what those signed up to now counts, nothing later"),
       flag("--again", v.again, "Trust again a key that was retired or distrusted"),
       flag("--up-to-now", v.up_to_now, "Accept what the key has signed in the history of this clone, nothing later")},
      true, values, trust);
  trusting.examples = {"mlx key trust ada ada.pub --may commit,promote", "mlx key trust ada new.pub --replace"};
  return {subcommand("signing", "Print the public key that signs what you record here", {}, false, values, signing),
          subcommand("people", "List whose signatures count, and for what", {}, false, values, people), trusting,
          subcommand("distrust", "Stop trusting somebody: what they signed up to now counts, nothing later",
                     {argument("NAME", v.name, "A name of `mlx key people`")}, true, values, distrust)};
}

}  // namespace mlx::cmd
