// [people] of mlx.toml: read strictly, changed as text. Which right each kind of operation takes is a column of the
// table of kinds (apply_operation.cpp).
#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/toml.h"
#include "base/toml_edit.h"
#include "registry/keys/trust.h"
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
    reader.fail_at("until", "names no operation: expected ids, or no person whose signatures do not count at all");
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

// The key with this value, or without it where there is none.
std::string with_list(const std::string& text, const TomlPath& table, const char* key, bool any,
                      const std::string& literal) {
  return any ? with_toml_key(text, table, key, literal, "mlx.toml") : without_toml_key(text, table, key, "mlx.toml");
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

// Whether this key has signed something here that takes one of these rights.
bool has_signed(Repository& repository, const Digest& key, const std::vector<Right>& rights) {
  store::Statement select = repository.db().prepare("SELECT bytes FROM operations WHERE signer = ?");
  for (select.bind(key); select.step();) {
    if (std::ranges::find(rights, right_of(decode(select.blob(0)))) != rights.end()) return true;
  }
  return false;
}

// What the key has signed counts on; where nothing is recorded there is nothing to keep.
void add_former(TrustedPerson& person, FormerTrust former) {
  if (former.until.empty() || former.may.empty()) return;
  if (std::ranges::find(person.before, former) == person.before.end()) person.before.push_back(std::move(former));
}

void retire_keys(TrustedPerson& person, const std::vector<Digest>& keys, const std::vector<Digest>& until) {
  for (const Digest& key : keys) {
    add_former(person, {key, person.may, until});
    std::erase(person.keys, key);
  }
}

TrustedPerson person_called(const People& people, const std::string& name) {
  const auto known = std::ranges::find(people.people, name, &TrustedPerson::name);
  return known == people.people.end() ? TrustedPerson{name, {}, {}, {}} : *known;
}

}  // namespace

TrustedPerson changed_person(Repository& repository, const TrustChange& change) {
  TrustedPerson person = person_called(declared_people(repository.root()), change.name);
  const std::vector<Digest> heads = repository.heads();
  const std::vector<Right> before = person.keys.empty() ? std::vector<Right>() : person.may;
  std::vector<Right> may = change.may.empty() ? before : change.may;
  if (may.empty()) may = {Right::kCommit};
  if (change.up_to_now) {
    if (heads.empty()) fail(ErrorKind::kNotFound, "nothing is recorded here that could be vouched for");
    add_former(person, {change.key, may, heads});
    return person;
  }
  if (!person.until.empty()) {
    const std::vector<Digest> until = std::move(person.until);
    person.until.clear();
    retire_keys(person, std::vector<Digest>(person.keys), until);
  }
  const bool counts = std::ranges::find(person.keys, change.key) != person.keys.end();
  if (!counts && !change.again &&
      std::ranges::find(person.before, change.key, &FormerTrust::key) != person.before.end()) {
    throw Error(ErrorKind::kRefused,
                fmt::format("the key {} of {} counts up to an operation and no later ([people] of mlx.toml)",
                            store::ssh_fingerprint(change.key), change.name),
                "a new key of theirs can be trusted beside it; --again has this one count again");
  }
  if (change.replace) {
    std::vector<Digest> others = person.keys;
    std::erase(others, change.key);
    retire_keys(person, others, heads);
  }
  std::vector<Right> lost = before;
  std::erase_if(lost, [&](Right right) { return std::ranges::find(may, right) != may.end(); });
  for (const Digest& key : person.keys) {
    if (!lost.empty() && has_signed(repository, key, lost)) add_former(person, {key, lost, heads});
  }
  if (!counts) person.keys.push_back(change.key);
  person.may = may;
  std::erase_if(person.before, [&](const FormerTrust& former) {
    return former.key == change.key &&
           std::ranges::all_of(former.may, [&](Right right) { return std::ranges::find(may, right) != may.end(); });
  });
  return person;
}

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
    throw Error(ErrorKind::kUsage, "mlx.toml: [people] names nobody, so that nothing anybody signed would count",
                "write down who counts, [people.NAME] with a key, or take the table out");
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

std::vector<Digest> undeclared_signers(Repository& repository) {
  DigestSet declared;
  for (const TrustedPerson& person : declared_people(repository.root()).people) {
    declared.insert(person.keys.begin(), person.keys.end());
    for (const FormerTrust& former : person.before) declared.insert(former.key);
  }
  std::vector<Digest> others;
  store::Statement select = repository.db().prepare("SELECT DISTINCT signer FROM operations WHERE signer IS NOT NULL");
  while (select.step()) {
    if (!declared.contains(select.digest(0))) others.push_back(select.digest(0));
  }
  return others;
}

void declare_unsigned(Repository& repository, bool dry_run) {
  std::vector<Digest> last;
  store::Statement select = repository.db().prepare(
      "SELECT id FROM operations o WHERE signer IS NULL AND NOT EXISTS (SELECT 1 FROM operation_parents p JOIN "
      "operations"
      " c ON c.id = p.child WHERE p.parent = o.id AND c.signer IS NULL)");
  while (select.step()) last.push_back(select.digest(0));
  if (last.empty()) return;
  const std::string before = config_text(repository.root());
  replace_config(repository.root(), before,
                 with_toml_key(before, {kTable}, kUnsigned, operations_literal(last), "mlx.toml"), dry_run);
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
  const std::string before = config_text(root);
  return replace_config(root, before,
                        with_toml_key(before, {kTable, name}, "until", operations_literal(until), "mlx.toml"), dry_run);
}

}  // namespace mlx::registry
