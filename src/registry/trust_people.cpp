// [people] of mlx.toml: read strictly, changed as text. Which right each kind of operation takes is a column of the
// table of kinds (apply_operation.cpp).
#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/toml.h"
#include "base/toml_edit.h"
#include "registry/trust.h"
#include "store/beneath.h"

namespace mlx::registry {
namespace {

constexpr const char* kTable = "people";
constexpr const char* kUnsigned = "unsigned";
constexpr const char* kRightNames[] = {"commit", "promote", "erase", "keys"};

std::string config_text(const std::string& root) {
  const std::string path = join_path(root, "mlx.toml");
  return path_exists(path) ? read_text(path) : std::string();
}

std::vector<std::string> one_or_more(TomlReader& reader, const char* key) {
  if (!reader.has(key) || reader.is_array(key)) return reader.strings(key, std::vector<std::string>());
  return {reader.string(key)};
}

std::vector<Digest> operations_in(TomlReader& reader, const char* key) {
  std::vector<Digest> ids;
  for (const std::string& text : one_or_more(reader, key)) {
    if (!text.starts_with("sha256:") || text.size() != 71 ||
        text.find_first_not_of("0123456789abcdef", 7) != std::string::npos)
      reader.fail_at(key, "expected ids of operations, sha256: and 64 hex digits");
    ids.push_back(Digest::parse(text));
  }
  return ids;
}

TrustedPerson read_person(TomlReader& reader, const std::string& name) {
  TrustedPerson person{name, {}, {}, operations_in(reader, "until")};
  if (reader.has("until") && person.until.empty())
    reader.fail_at("until", "names no operation: expected ids, or no person whose signatures do not count at all");
  for (const std::string& text : one_or_more(reader, "key")) {
    try {
      person.keys.push_back(store::parse_ssh_public_key(text, "key"));
    } catch (const Error& error) {
      reader.fail_at("key", error.message + ": expected \"ssh-ed25519 AAAA…\"");
    }
  }
  if (person.keys.empty()) reader.fail_at("key", "expected a public key, \"ssh-ed25519 AAAA…\"");
  for (const std::string& text : reader.strings("may", std::vector<std::string>{"commit"})) {
    try {
      person.may.push_back(parse_right(text));
    } catch (const Error& error) {
      reader.fail_at("may", error.message);
    }
  }
  reader.finish();
  return person;
}

std::string list_literal(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + toml_quoted(word);
  return "[" + list + "]";
}

void require_name(const std::string& name) {
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (!plain || name.empty() || name.size() > 64 || name == kUnsigned)
    fail(ErrorKind::kUsage, "'{}' can not name a person in [people]: up to 64 letters, digits, '_' and '-'", name);
}

bool replace_config(const std::string& root, const std::string& before, const std::string& after, bool dry_run) {
  if (after == before) return false;
  if (!dry_run) store::Beneath(root).replace("mlx.toml", after);
  return true;
}

}  // namespace

const char* right_name(Right right) {
  return kRightNames[static_cast<std::size_t>(right)];
}

Right parse_right(const std::string& text) {
  for (const Right right : kAllRights) {
    if (text == right_name(right)) return right;
  }
  throw Error(ErrorKind::kUsage, fmt::format("there is no right '{}'", text),
              "the rights are commit, promote, erase, keys");
}

std::vector<std::string> People::who_may(const Digest& key, Right right) const {
  std::vector<std::string> names;
  for (const TrustedPerson& person : people) {
    if (std::ranges::find(person.keys, key) != person.keys.end() &&
        std::ranges::find(person.may, right) != person.may.end())
      names.push_back(person.name);
  }
  return names;
}

People declared_people(const std::string& root) {
  People found;
  const TomlNode tree = parse_toml(config_text(root), "mlx.toml");
  TomlReader top(tree, "mlx.toml", "");
  found.declared = top.has(kTable);
  if (!found.declared) return found;
  TomlReader table = top.table(kTable);
  for (const std::string& name : table.keys()) {
    if (name == kUnsigned) {
      found.unsigned_until = operations_in(table, kUnsigned);
      continue;
    }
    TomlReader reader = table.table(name, true);
    found.people.push_back(read_person(reader, name));
  }
  if (found.people.empty()) {
    throw Error(ErrorKind::kUsage, "mlx.toml: [people] names nobody, so that nothing anybody signed would count",
                "write down who counts, [people.NAME] with a key, or take the table out");
  }
  return found;
}

bool trust_person(const std::string& root, const TrustedPerson& person, bool dry_run) {
  require_name(person.name);
  const std::string before = config_text(root);
  const TomlPath table = {kTable, person.name};
  std::vector<std::string> keys, may;
  for (const Digest& key : person.keys) keys.push_back(store::ssh_public_key(key));
  for (const Right right : person.may) may.emplace_back(right_name(right));
  std::string text =
      with_toml_key(before, table, "key", keys.size() == 1 ? toml_quoted(keys[0]) : list_literal(keys), "mlx.toml");
  text = with_toml_key(text, table, "may", list_literal(may), "mlx.toml");
  text = without_toml_key(text, table, "until", "mlx.toml");
  return replace_config(root, before, text, dry_run);
}

std::vector<Digest> undeclared_signers(Repository& repository) {
  DigestSet declared;
  for (const TrustedPerson& person : declared_people(repository.root()).people)
    declared.insert(person.keys.begin(), person.keys.end());
  std::vector<Digest> others;
  store::Statement select = repository.db().prepare("SELECT DISTINCT signer FROM operations WHERE signer IS NOT NULL");
  while (select.step()) {
    if (!declared.contains(select.digest(0))) others.push_back(select.digest(0));
  }
  return others;
}

void declare_unsigned(Repository& repository, bool dry_run) {
  std::vector<std::string> last;
  store::Statement select = repository.db().prepare(
      "SELECT id FROM operations o WHERE signer IS NULL AND NOT EXISTS (SELECT 1 FROM operation_parents p JOIN "
      "operations"
      " c ON c.id = p.child WHERE p.parent = o.id AND c.signer IS NULL)");
  while (select.step()) last.push_back(select.digest(0).text());
  if (last.empty()) return;
  const std::string before = config_text(repository.root());
  replace_config(repository.root(), before, with_toml_key(before, {kTable}, kUnsigned, list_literal(last), "mlx.toml"),
                 dry_run);
}

bool end_trust(const std::string& root, const std::string& name, const std::vector<Digest>& until, bool dry_run) {
  const People people = declared_people(root);
  const auto person = std::ranges::find(people.people, name, &TrustedPerson::name);
  if (person == people.people.end()) {
    std::vector<std::string> names;
    for (const TrustedPerson& one : people.people) names.push_back(one.name);
    const std::string meant = did_you_mean(name, names);
    throw Error(ErrorKind::kNotFound, fmt::format("[people] of mlx.toml has no '{}'", name),
                meant.empty() ? "`mlx key people` lists who stands there" : fmt::format("did you mean '{}'?", meant));
  }
  if (!person->until.empty()) return false;
  if (until.empty())
    return replace_config(root, config_text(root), without_toml_table(config_text(root), {kTable, name}, "mlx.toml"),
                          dry_run);
  std::vector<std::string> ids;
  for (const Digest& id : until) ids.push_back(id.text());
  const std::string before = config_text(root);
  return replace_config(root, before, with_toml_key(before, {kTable, name}, "until", list_literal(ids), "mlx.toml"),
                        dry_run);
}

}  // namespace mlx::registry
