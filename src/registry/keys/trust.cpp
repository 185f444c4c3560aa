// Judges operations, one at a time or many on all cores.
#include "registry/keys/trust.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "registry/keys/signer.h"
#include "registry/operations/history.h"
#include "registry/operations/operation_text.h"
#include "store/crypto/signature.h"

namespace mlx::registry {
namespace {

std::string by_whom(const Operation& operation) {
  return operation.is_signed() ? store::ssh_fingerprint(operation.signer) : "nobody's key";
}

std::string names_of(const std::vector<Right>& rights) {
  std::string names;
  for (const Right right : kAllRights) {
    if (std::ranges::find(rights, right) != rights.end())
      names += fmt::format("{}{}", names.empty() ? "" : ",", right_name(right));
  }
  return names;
}

std::string may_not(const std::string& name, Right right) {
  return fmt::format("{} may not {} ([people] of mlx.toml)", name,
                     right == Right::kKeys ? "assign domains" : right_name(right));
}

}  // namespace

DigestSet with_ancestors(std::vector<Digest> of, const ParentsOf& parents_of) {
  DigestSet reached;
  while (!of.empty()) {
    const Digest id = of.back();
    of.pop_back();
    if (reached.contains(id)) continue;
    const std::optional<std::vector<Digest>> parents = parents_of(id);
    if (!parents) continue;
    reached.insert(id);
    of.insert(of.end(), parents->begin(), parents->end());
  }
  return reached;
}

Trust::Trust(const Kinds& kinds, const People& people, const std::vector<Digest>& known, bool first_contact,
             const ParentsOf& parents_of)
    : kinds_(kinds),
      declared_(people.declared),
      known_(known.begin(), known.end()),
      first_contact_(first_contact),
      unsigned_(with_ancestors(people.unsigned_until, parents_of)) {
  for (const TrustedPerson& person : people.people) grant(person, parents_of);
}

void Trust::grant(const TrustedPerson& person, const ParentsOf& parents_of) {
  const auto add = [&](const Digest& key, const std::vector<Right>& may, const std::vector<Digest>& until) {
    grants_.push_back({person.name, key, may, !until.empty(), with_ancestors(until, parents_of)});
  };
  for (const Digest& key : person.keys) add(key, person.may, person.until);
  for (const FormerTrust& former : person.before) add(former.key, former.may, former.until);
}

bool Trust::Grant::allows(Right right) const {
  return std::ranges::find(may, right) != may.end();
}

bool Trust::may(const Digest& key, Right right) const {
  if (!declared_) return known_.contains(key) || first_contact_;
  return std::ranges::any_of(grants_,
                             [&](const Grant& one) { return !one.bounded && one.key == key && one.allows(right); });
}

std::string Trust::objection_to_signer(const Operation& operation) const {
  const Right right = kinds_.right_of(operation);
  if (may(operation.signer, right)) return {};
  if (!declared_) return fmt::format("{} has not signed anything here before", by_whom(operation));
  std::string why = fmt::format("nobody in [people] of mlx.toml has the key {}", by_whom(operation));
  for (const Grant& one : grants_) {
    if (one.key != operation.signer) continue;
    if (!one.allows(right)) {
      why = may_not(one.name, right);
    } else if (one.reached.contains(operation.id)) {
      return {};
    } else {
      why =
          fmt::format("{} signed it after the operations up to which that key counts ([people] of mlx.toml)", one.name);
    }
  }
  return why;
}

std::string Trust::objection(const Operation& operation) const {
  if (!operation.is_signed()) return unsigned_.contains(operation.id) ? "" : "nobody has signed it";
  if (std::string why = objection_to_signer(operation); !why.empty()) return why;
  return signature_holds(operation) ? "" : fmt::format("the signature of {} is invalid", by_whom(operation));
}

std::vector<std::string> objections_to(const std::vector<Operation>& operations, const Trust& trust, Pool& pool) {
  std::vector<std::string> objections(operations.size());
  pool.run(static_cast<std::int64_t>(operations.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    objections[at] = trust.objection(operations[at]);
  });
  return objections;
}

ParentsOf parents_in(store::Database& db) {
  return [&db](const Digest& id) -> std::optional<std::vector<Digest>> {
    if (!is_recorded(db, id)) return std::nullopt;
    return select_parents(db, id);
  };
}

std::string described(const Kinds& kinds, const Operation& operation) {
  return fmt::format("{} ({})", operation.id.brief(), operation_text(kinds, operation));
}

// --may replaces a person's rights, so the command also lists those that the key has.
std::string trusting_command(const People& people, const Digest& key, Right right) {
  const TrustedPerson* const person = people.whose(key);
  std::vector<Right> rights = person ? person->may : std::vector<Right>();
  rights.push_back(right);
  return fmt::format("mlx key trust {} '{}' --may {}", person ? shell_quoted(person->name) : "NAME",
                     store::ssh_public_key(key), names_of(rights));
}

std::string way_to_right(const People& people, const Digest& key, Right right) {
  const TrustedPerson* const person = people.whose(key);
  const std::string lack =
      person ? fmt::format("{} has {}; {} is missing: ", person->name, names_of(person->may), right_name(right)) : "";
  return fmt::format("{}somebody in [people] runs `{}` and commits mlx.toml with git", lack,
                     trusting_command(people, key, right));
}

void require_may_sign(const Kinds& kinds, const std::string& root, const std::function<const Signer*()>& find_own,
                      const Operation& operation) {
  if (kinds.at(operation.kind).traits.ends_run) return;
  const People people = declared_people(root);
  if (!people.declared) return;
  const Right right = kinds.right_of(operation);
  const Signer* const own = find_own();
  if (own == nullptr) {
    throw Error(ErrorKind::kRefused, "nobody in [people] of mlx.toml is known here: this clone has no signing key",
                "`mlx key signing` makes one and prints it; somebody in [people] runs `mlx key trust NAME KEY`");
  }
  const Trust trust(kinds, people, {}, false, [](const Digest&) { return std::nullopt; });
  if (trust.may(own->public_key, right)) return;
  const TrustedPerson* const person = people.whose(own->public_key);
  const bool former = std::ranges::any_of(people.people, [&](const TrustedPerson& one) {
    return std::ranges::find(one.keys, own->public_key) != one.keys.end() ||
           std::ranges::find(one.before, own->public_key, &FormerTrust::key) != one.before.end();
  });
  const std::string key = store::ssh_fingerprint(own->public_key);
  throw Error(ErrorKind::kRefused,
              person   ? may_not(person->name, right)
              : former ? fmt::format("the key {} no longer counts ([people] of mlx.toml)", key)
                       : fmt::format("nobody in [people] of mlx.toml has the key {}, which signs here", key),
              way_to_right(people, own->public_key, right) +
                  (former && !person ? "; with --again if the key is theirs alone" : ""));
}

}  // namespace mlx::registry
