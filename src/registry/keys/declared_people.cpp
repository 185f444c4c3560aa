// See declared_people.h.
#include "registry/keys/declared_people.h"

#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/text.h"
#include "base/toml.h"
#include "base/toml_edit.h"
#include "store/crypto/signature.h"
#include "store/worktree/beneath.h"

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

std::vector<Digest> keys_in(TomlReader& reader) {
  std::vector<Digest> keys;
  for (const std::string& text : one_or_more(reader, "key")) {
    try {
      keys.push_back(store::parse_ssh_public_key(text, "key"));
    } catch (const Error& error) {
      reader.fail_at("key", error.message + ": expected \"ssh-ed25519 AAAA…\"");
    }
  }
  return keys;
}

std::vector<Right> rights_in(TomlReader& reader) {
  std::vector<Right> rights;
  for (const std::string& text : reader.strings("may", std::vector<std::string>{"commit"})) {
    try {
      rights.push_back(parse_right(text));
    } catch (const Error& error) {
      reader.fail_at("may", error.message);
    }
  }
  return rights;
}

FormerTrust read_former(TomlReader& reader) {
  const std::vector<Digest> keys = keys_in(reader), until = operations_in(reader, "until");
  if (keys.size() != 1) reader.fail_at("key", "expected one public key, \"ssh-ed25519 AAAA…\"");
  if (until.empty()) reader.fail_at("until", "expected ids of operations, sha256: and 64 hex digits");
  FormerTrust former{keys.front(), rights_in(reader), until};
  reader.finish();
  return former;
}

TrustedPerson read_person(TomlReader& reader, const std::string& name) {
  TrustedPerson person{name, keys_in(reader), rights_in(reader), operations_in(reader, "until")};
  if (reader.has("until") && person.until.empty())
    reader.fail_at("until",
                   "names no operation: expected ids; leave out a person whose signatures do not count at all");
  for (TomlReader& former : reader.tables("before")) person.before.push_back(read_former(former));
  if (person.keys.empty() && person.before.empty())
    reader.fail_at("key", "expected a public key, \"ssh-ed25519 AAAA…\"");
  reader.finish();
  return person;
}

std::string joined(const std::vector<std::string>& literals) {
  std::string list;
  for (const std::string& literal : literals) list += (list.empty() ? "" : ", ") + literal;
  return "[" + list + "]";
}

template <typename Item, typename Literal>
std::vector<std::string> literals(const std::vector<Item>& items, const Literal& literal) {
  std::vector<std::string> out;
  out.reserve(items.size());
  for (const Item& item : items) out.push_back(literal(item));
  return out;
}

std::string keys_literal(const std::vector<Digest>& keys) {
  const auto list = literals(keys, [](const Digest& key) { return toml_quoted(store::ssh_public_key(key)); });
  return list.size() == 1 ? list[0] : joined(list);
}

std::string rights_literal(const std::vector<Right>& rights) {
  return joined(literals(rights, [](Right right) { return toml_quoted(right_name(right)); }));
}

std::string operations_literal(const std::vector<Digest>& ids) {
  return joined(literals(ids, [](const Digest& id) { return toml_quoted(id.text()); }));
}

std::string before_literal(const std::vector<FormerTrust>& before) {
  return joined(literals(before, [](const FormerTrust& former) {
    return fmt::format("{{ key = {}, may = {}, until = {} }}", keys_literal({former.key}), rights_literal(former.may),
                       operations_literal(former.until));
  }));
}

// Sets the key to this value; without `any` removes it.
std::string with_list(const std::string& text, const TomlPath& table, const char* key, bool any,
                      const std::string& literal) {
  return any ? with_toml_key(text, table, key, literal, "mlx.toml") : without_toml_key(text, table, key, "mlx.toml");
}

void require_name(const std::string& name) {
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (!plain || name.empty() || name.size() > 64 || name == kUnsigned)
    fail(ErrorKind::kUsage, "'{}' cannot name a person in [people]: up to 64 letters, digits, '_' and '-'", name);
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

const TrustedPerson* People::whose(const Digest& key) const {
  const auto person = std::ranges::find_if(people, [&](const TrustedPerson& one) {
    return one.until.empty() && std::ranges::find(one.keys, key) != one.keys.end();
  });
  return person == people.end() ? nullptr : &*person;
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
    throw Error(ErrorKind::kUsage, "mlx.toml: [people] names nobody, so no signature would count",
                "add people as [people.NAME] with a key, or remove the table");
  }
  return found;
}

bool trust_person(const std::string& root, const TrustedPerson& person, bool dry_run) {
  require_name(person.name);
  const std::string before = config_text(root);
  const TomlPath table = {kTable, person.name};
  const bool counts = !person.keys.empty();
  std::string text = with_list(before, table, "before", !person.before.empty(), before_literal(person.before));
  text = with_list(text, table, "key", counts, keys_literal(person.keys));
  text = with_list(text, table, "may", counts, rights_literal(person.may));
  text = with_list(text, table, "until", !person.until.empty(), operations_literal(person.until));
  return replace_config(root, before, text, dry_run);
}

void declare_unsigned(const std::string& root, const std::vector<Digest>& until, bool dry_run) {
  const std::string before = config_text(root);
  replace_config(root, before, with_toml_key(before, {kTable}, kUnsigned, operations_literal(until), "mlx.toml"),
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
                meant.empty() ? "`mlx key people` lists the people there" : fmt::format("did you mean '{}'?", meant));
  }
  if (!person->until.empty()) return false;
  if (until.empty())
    return replace_config(root, config_text(root), without_toml_table(config_text(root), {kTable, name}, "mlx.toml"),
                          dry_run);
  const std::string before = config_text(root);
  return replace_config(root, before,
                        with_toml_key(before, {kTable, name}, "until", operations_literal(until), "mlx.toml"), dry_run);
}

}  // namespace mlx::registry
