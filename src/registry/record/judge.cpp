// See judge.h.
#include "registry/record/judge.h"

#include <algorithm>

#include "base/error.h"
#include "registry/keys/signer.h"
#include "registry/operations/history.h"

namespace mlx::registry {
namespace {

// Looks among the arriving operations and those recorded here.
ParentsOf parents_among(store::Database& db, OperationStage& arriving) {
  return [&arriving, recorded = parents_in(db)](const Digest& id) -> std::optional<std::vector<Digest>> {
    if (auto parents = arriving.parents_of(id)) return parents;
    return recorded(id);
  };
}

std::vector<Digest> known_signers(store::Database& db) {
  std::vector<Digest> signers;
  store::Statement select = db.prepare("SELECT DISTINCT signer FROM operations WHERE signer IS NOT NULL");
  while (select.step()) signers.push_back(select.digest(0));
  return signers;
}

Error refusal(const Kinds& kinds, const Operation& operation, const std::string& why, const People& people) {
  std::string hint =
      operation.is_signed()
          ? "anybody who can write to the remote may have put it there; see mlx-security(7)"
          : "run `mlx key trust` in a clone that has it, to declare in [people] up to where unsigned operations count";
  if (operation.is_signed() && signature_holds(operation)) {
    hint = fmt::format(
        "`git pull` may bring a newer [people]; `mlx push --repair` leaves out what does not belong there; only if you "
        "vouch for them: {}",
        trusting_command(people, operation.signer, kinds.right_of(operation)));
  }
  return Error(ErrorKind::kRefused, fmt::format("operation {} is refused: {}", described(kinds, operation), why), hint);
}

}  // namespace

std::vector<Digest> require_vouched(Repository& repository, OperationStage& arriving) {
  if (arriving.empty()) return {};
  store::Database& db = repository.db();
  const People people = declared_people(repository.root());
  std::vector<Digest> known = known_signers(db);
  const bool first = known.empty() && repository.heads().empty();
  if (const std::optional<Signer> own = repository.find_signer()) known.push_back(own->public_key);
  const Trust trust(repository.kinds(), people, known, first, parents_among(db, arriving));
  DigestSet met;
  arriving.visit_slices([&](const std::vector<Operation>& slice) {
    const std::vector<std::string> objections = objections_to(slice, trust, repository.pool());
    for (std::size_t i = 0; i < slice.size(); ++i) {
      if (!objections[i].empty()) throw refusal(repository.kinds(), slice[i], objections[i], people);
      if (slice[i].is_signed() && std::ranges::find(known, slice[i].signer) == known.end()) met.insert(slice[i].signer);
    }
  });
  if (!first || people.declared) return {};
  return {met.begin(), met.end()};
}

void require_publishable(Repository& repository, OperationStage& leaving) {
  const People people = declared_people(repository.root());
  if (!people.declared || leaving.empty()) return;
  const Trust trust(repository.kinds(), people, {}, false, parents_in(repository.db()));
  leaving.visit_slices([&](const std::vector<Operation>& slice) {
    const std::vector<std::string> objections = objections_to(slice, trust, repository.pool());
    for (std::size_t i = 0; i < slice.size(); ++i) {
      if (objections[i].empty()) continue;
      throw Error(
          ErrorKind::kRefused,
          fmt::format("operation {} would be refused by others: {}", described(repository.kinds(), slice[i]),
                      objections[i]),
          slice[i].is_signed()
              ? way_to_right(people, slice[i].signer, repository.kinds().right_of(slice[i])) +
                    "; run here with --up-to-now, the key counts for what is recorded already, and for nothing later"
              : "run `mlx key trust` in a clone that has it, to declare in [people] up to where unsigned operations "
                "count");
    }
  });
}

void require_may_record(Repository& repository, const Operation& operation) {
  require_may_sign(
      repository.kinds(), repository.root(),
      [&]() -> const Signer* { return repository.find_signer() ? &*repository.find_signer() : nullptr; }, operation);
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
