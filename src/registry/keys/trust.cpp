// Judging operations, each by itself and all by all cores.
#include "registry/keys/trust.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "registry/keys/signer.h"
#include "registry/operations/history.h"
#include "registry/operations/operation_text.h"

namespace mlx::registry {
namespace {

// Among the arriving operations and those that are recorded here.
ParentsOf parents_in(store::Database& db, OperationStage* arriving) {
  return [&db, arriving](const Digest& id) -> std::optional<std::vector<Digest>> {
    if (arriving) {
      if (auto parents = arriving->parents_of(id)) return parents;
    }
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

// --may replaces what somebody may: what the key has stands there too.
std::string trusting_command(const People& people, const Digest& key, Right right) {
  const TrustedPerson* const person = people.whose(key);
  std::vector<Right> rights = person ? person->may : std::vector<Right>();
  rights.push_back(right);
  return fmt::format("mlx key trust {} '{}' --may {}", person ? shell_quoted(person->name) : "NAME",
                     store::ssh_public_key(key), names_of(rights));
}

Error refusal(const Operation& operation, const std::string& why, const People& people) {
  std::string hint =
      operation.is_signed()
          ? "whoever can write to the remote can have put it there; mlx-security(7) says what to do"
          : "`mlx key trust` in a clone that has it says in [people] up to where the unsigned ones count";
  if (operation.is_signed() && signature_holds(operation)) {
    hint = fmt::format(
        "`git pull` may bring a newer [people]; `mlx push --repair` leaves out what does not belong there; only if you "
        "vouch for them: {}",
        trusting_command(people, operation.signer, right_of(operation)));
  }
  return Error(ErrorKind::kRefused, fmt::format("operation {} is refused: {}", described(operation), why), hint);
}

// What gives this clone's person the right, for whoever may change [people].
std::string way_on(const People& people, const Digest& key, Right right) {
  const TrustedPerson* const person = people.whose(key);
  const std::string lack =
      person ? fmt::format("{} has {}; {} is missing: ", person->name, names_of(person->may), right_name(right)) : "";
  return fmt::format("{}somebody in [people] runs `{}` and commits mlx.toml with git", lack,
                     trusting_command(people, key, right));
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

Trust::Trust(const People& people, const std::vector<Digest>& known, bool first_contact, const ParentsOf& parents_of)
    : declared_(people.declared),
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
  const Right right = right_of(operation);
  if (may(operation.signer, right)) return {};
  if (!declared_) return fmt::format("{} has signed nothing here before", by_whom(operation));
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
  return signature_holds(operation) ? "" : fmt::format("the signature of {} does not hold", by_whom(operation));
}

std::vector<std::string> objections_to(const std::vector<Operation>& operations, const Trust& trust, Pool& pool) {
  std::vector<std::string> objections(operations.size());
  pool.run(static_cast<std::int64_t>(operations.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    objections[at] = trust.objection(operations[at]);
  });
  return objections;
}

std::vector<Digest> require_vouched(Repository& repository, OperationStage& arriving) {
  if (arriving.empty()) return {};
  store::Database& db = repository.db();
  const People people = declared_people(repository.root());
  std::vector<Digest> known = known_signers(db);
  const bool first = known.empty() && repository.heads().empty();
  if (const std::optional<Signer> own = repository.find_signer()) known.push_back(own->public_key);
  const Trust trust(people, known, first, parents_in(db, &arriving));
  DigestSet met;
  arriving.visit_slices([&](const std::vector<Operation>& slice) {
    const std::vector<std::string> objections = objections_to(slice, trust, repository.pool());
    for (std::size_t i = 0; i < slice.size(); ++i) {
      if (!objections[i].empty()) throw refusal(slice[i], objections[i], people);
      if (slice[i].is_signed() && std::ranges::find(known, slice[i].signer) == known.end()) met.insert(slice[i].signer);
    }
  });
  if (!first || people.declared) return {};
  return {met.begin(), met.end()};
}

void require_publishable(Repository& repository, OperationStage& leaving) {
  const People people = declared_people(repository.root());
  if (!people.declared || leaving.empty()) return;
  const Trust trust(people, {}, false, parents_in(repository.db(), nullptr));
  leaving.visit_slices([&](const std::vector<Operation>& slice) {
    const std::vector<std::string> objections = objections_to(slice, trust, repository.pool());
    for (std::size_t i = 0; i < slice.size(); ++i) {
      if (objections[i].empty()) continue;
      throw Error(ErrorKind::kRefused,
                  fmt::format("operation {} would be refused by others: {}", described(slice[i]), objections[i]),
                  slice[i].is_signed()
                      ? way_on(people, slice[i].signer, right_of(slice[i])) +
                            "; run here with --up-to-now it counts what is recorded already, and nothing later"
                      : "`mlx key trust` in a clone that has it says in [people] up to where the unsigned ones count");
    }
  });
}

void require_may_record(Repository& repository, const Operation& operation) {
  if (operation.kind == "run.checkpoint" || operation.kind == "run.end") return;
  const People people = declared_people(repository.root());
  if (!people.declared) return;
  const Right right = right_of(operation);
  const std::optional<Signer>& own = repository.find_signer();
  if (!own) {
    throw Error(ErrorKind::kRefused, "nobody in [people] of mlx.toml is known here: this clone has no signing key",
                "`mlx key signing` makes one and prints it; somebody in [people] runs `mlx key trust NAME KEY`");
  }
  const Trust trust(people, {}, false, [](const Digest&) { return std::nullopt; });
  if (trust.may(own->public_key, right)) return;
  const TrustedPerson* const person = people.whose(own->public_key);
  const bool former = std::ranges::any_of(people.people, [&](const TrustedPerson& one) {
    return std::ranges::find(one.keys, own->public_key) != one.keys.end() ||
           std::ranges::find(one.before, own->public_key, &FormerTrust::key) != one.before.end();
  });
  const std::string key = store::ssh_fingerprint(own->public_key);
  throw Error(
      ErrorKind::kRefused,
      person   ? may_not(person->name, right)
      : former ? fmt::format("the key {} no longer counts ([people] of mlx.toml)", key)
               : fmt::format("nobody in [people] of mlx.toml has the key {}, which signs here", key),
      way_on(people, own->public_key, right) + (former && !person ? "; with --again if the key is theirs alone" : ""));
}

void require_may_record(Repository& repository, const std::string& kind) {
  Operation operation;
  operation.kind = kind;
  operation.body = "{}";
  require_may_record(repository, operation);
}

bool may_record(Repository& repository, const std::string& kind) {
  try {
    require_may_record(repository, kind);
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kRefused) throw;
    return false;
  }
}

}  // namespace mlx::registry
