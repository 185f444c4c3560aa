// Judging operations. Signatures are checked by all cores, since each takes a tenth of a millisecond.
#include "registry/trust.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "registry/history.h"
#include "registry/operation_text.h"
#include "registry/signer.h"

namespace mlx::registry {
namespace {

using ById = std::unordered_map<Digest, const Operation*, DigestHash>;

ById by_id(const std::vector<Operation>& operations) {
  ById found;
  for (const Operation& operation : operations) found.emplace(operation.id, &operation);
  return found;
}

// Among the arriving operations and those that are recorded here.
ParentsOf parents_in(store::Database& db, const ById& arriving) {
  return [&db, &arriving](const Digest& id) -> std::optional<std::vector<Digest>> {
    if (const auto at = arriving.find(id); at != arriving.end()) return at->second->parents;
    if (!is_recorded(db, id)) return std::nullopt;
    return select_parents(db, id);
  };
}

std::vector<Digest> known_signers(store::Database& db) {
  std::vector<Digest> signers;
  store::Statement select = db.prepare("SELECT DISTINCT signer FROM operations WHERE signer IS NOT NULL");
  while (select.step()) signers.push_back(select.digest(0));
  return signers;
}

std::string described(const Operation& operation) {
  return fmt::format("{} ({})", operation.id.brief(), operation_text(operation));
}

std::string by_whom(const Operation& operation) {
  return operation.is_signed() ? store::ssh_fingerprint(operation.signer) : "nobody's key";
}

Error refusal(const Operation& operation, const std::string& why, const People& people) {
  std::string hint =
      operation.is_signed()
          ? "whoever can write to the remote can have put it there; mlx-security(7) says what to do"
          : "`mlx key trust` in a clone that has it says in [people] up to where the unsigned ones count";
  if (operation.is_signed() && signature_holds(operation)) {
    // --may says all that somebody may: what the key has stays.
    std::string name, rights;
    for (const Right right : kAllRights) {
      const std::vector<std::string> names = people.who_may(operation.signer, right);
      if (!names.empty()) name = names.front();
      if (!names.empty() || right == right_of(operation))
        rights += fmt::format("{}{}", rights.empty() ? "" : ",", right_name(right));
    }
    hint = fmt::format("if you vouch for {}: mlx key trust {} --may {} '{}'", name.empty() ? "them" : name,
                       name.empty() ? "NAME" : name, rights, store::ssh_public_key(operation.signer));
  }
  return Error(ErrorKind::kRefused, fmt::format("operation {} is refused: {}", described(operation), why), hint);
}

// The first of `operations` that does not count, by all cores.
void require_none_objected(Pool& pool, const Trust& trust, const std::vector<Operation>& operations,
                           const People& people) {
  std::vector<std::string> objections(operations.size());
  pool.run(static_cast<std::int64_t>(operations.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    objections[at] = trust.objection(operations[at]);
  });
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!objections[i].empty()) throw refusal(operations[i], objections[i], people);
  }
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

Trust::Trust(People people, std::vector<Digest> known, bool first_contact, const ParentsOf& parents_of)
    : people_(std::move(people)),
      known_(known.begin(), known.end()),
      first_contact_(first_contact),
      unsigned_(with_ancestors(people_.unsigned_until, parents_of)) {
  for (const TrustedPerson& person : people_.people) before_until_.push_back(with_ancestors(person.until, parents_of));
}

bool Trust::may(const Digest& key, Right right) const {
  if (!people_.declared) return known_.contains(key) || first_contact_;
  return std::ranges::any_of(people_.people, [&](const TrustedPerson& person) {
    return person.until.empty() && std::ranges::find(person.keys, key) != person.keys.end() &&
           std::ranges::find(person.may, right) != person.may.end();
  });
}

std::string Trust::objection_to_signer(const Operation& operation) const {
  const Right right = right_of(operation);
  if (may(operation.signer, right)) return {};
  if (!people_.declared) return fmt::format("{} has signed nothing here before", by_whom(operation));
  std::string why = fmt::format("nobody in [people] of mlx.toml has the key {}", by_whom(operation));
  for (std::size_t i = 0; i < people_.people.size(); ++i) {
    const TrustedPerson& person = people_.people[i];
    if (std::ranges::find(person.keys, operation.signer) == person.keys.end()) continue;
    if (std::ranges::find(person.may, right) == person.may.end()) {
      why = fmt::format("{} may not {} ([people] of mlx.toml)", person.name, right_name(right));
    } else if (before_until_[i].contains(operation.id)) {
      return {};
    } else {
      why = fmt::format("{} signed it after the operations up to which they count ([people] of mlx.toml)", person.name);
    }
  }
  return why;
}

std::string Trust::objection(const Operation& operation) const {
  if (!operation.is_signed()) return unsigned_.contains(operation.id) ? "" : "nobody has signed it";
  if (std::string why = objection_to_signer(operation); !why.empty()) return why;
  return signature_holds(operation) ? "" : fmt::format("the signature of {} does not hold", by_whom(operation));
}

std::vector<Digest> require_vouched(Repository& repository, const std::vector<Operation>& arriving) {
  if (arriving.empty()) return {};
  store::Database& db = repository.db();
  const People people = declared_people(repository.root());
  std::vector<Digest> known = known_signers(db);
  const bool first = known.empty() && repository.heads().empty();
  if (const std::optional<Signer> own = repository.find_signer()) known.push_back(own->public_key);
  const ById arriving_by_id = by_id(arriving);
  const Trust trust(people, known, first, parents_in(db, arriving_by_id));
  require_none_objected(repository.pool(), trust, arriving, people);
  if (!first || people.declared) return {};
  DigestSet met;
  for (const Operation& operation : arriving) {
    if (operation.is_signed() && std::ranges::find(known, operation.signer) == known.end())
      met.insert(operation.signer);
  }
  return {met.begin(), met.end()};
}

void require_publishable(Repository& repository, const std::vector<Operation>& leaving) {
  const People people = declared_people(repository.root());
  if (!people.declared || leaving.empty()) return;
  const ById none;
  const Trust trust(people, {}, false, parents_in(repository.db(), none));
  for (const Operation& operation : leaving) {
    if (const std::string why = trust.objection(operation); !why.empty()) {
      throw Error(ErrorKind::kRefused,
                  fmt::format("operation {} would be refused by others: {}", described(operation), why),
                  "someone in [people] adds you: mlx key trust NAME KEY; `mlx key signing` prints yours");
    }
  }
}

}  // namespace mlx::registry
