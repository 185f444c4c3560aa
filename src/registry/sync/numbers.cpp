// Numbers that two clones gave to different content: found after a fetch, resolved by giving the local version another
// number.
#include "registry/sync/numbers.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "registry/keys/signer.h"
#include "registry/operations/number_claims.h"
#include "registry/versions/artifacts.h"

namespace mlx::registry {
namespace {

struct Contested {
  std::string artifact;
  std::int64_t number = 0;
};

// Every number that several digests claim.
std::vector<Contested> contested_numbers(store::Database& db) {
  store::Statement select = db.prepare(
      "SELECT DISTINCT artifact, number FROM version_numbers a WHERE EXISTS (SELECT 1 FROM version_numbers b WHERE"
      " b.artifact = a.artifact AND b.number = a.number AND b.digest <> a.digest) ORDER BY artifact, number");
  std::vector<Contested> found;
  while (select.step()) found.push_back({select.text(0), select.int64(1)});
  return found;
}

// A number that belongs to this digest alone, or the artifact's next free one.
std::int64_t other_number(store::Database& db, const std::string& artifact, const Digest& digest) {
  store::Statement own = db.prepare(
      "SELECT min(number) FROM version_numbers a WHERE artifact = ?1 AND digest = ?2 AND NOT EXISTS (SELECT 1 FROM "
      "version_numbers b"
      " WHERE b.artifact = ?1 AND b.number = a.number AND b.digest <> ?2)");
  if (own.bind(artifact, digest).step() && !own.null(0)) return own.int64(0);
  store::Statement next = db.prepare("SELECT max(number) + 1 FROM version_numbers WHERE artifact = ?");
  next.bind(artifact).step();
  return next.int64(0);
}

// One at a time, each under the write lock; nullopt if none is left.
std::optional<Renumbered> renumber_one(Repository& repository) {
  Renumbered done;
  const auto operation = repository.record_with("version.renumber", [&](Json& body) {
    store::Database& db = repository.db();
    const std::vector<Contested> found = contested_numbers(db);
    if (found.empty()) return false;
    const auto& [artifact, number] = found.front();
    Ancestry ancestry(db);
    const Digest loser = *digest_to_give_way(claims_on(db, artifact, number, repository.clone_id()),
                                             repository.signer().public_key.hex(), ancestry);
    done = {artifact, loser, number, other_number(db, artifact, loser)};
    body["artifact"] = done.artifact;
    body["digest"] = done.digest.text();
    body["from"] = done.from;
    body["to"] = done.to;
    return true;
  });
  return operation ? std::optional(done) : std::nullopt;
}

[[noreturn]] void number_conflict(store::Database& db, const std::vector<Contested>& conflicts) {
  const auto& [artifact, number] = conflicts.front();
  std::string list;
  Digest last;
  for (const NumberClaim& claim : claims_on(db, artifact, number)) {
    if (claim.digest == last) continue;
    list += fmt::format("{}{} (by {})", list.empty() ? "" : " and ", claim.digest.brief(), claim.actor);
    last = claim.digest;
  }
  const std::string more = conflicts.size() > 1 ? fmt::format(" ({} more such)", conflicts.size() - 1) : std::string();
  throw Error(ErrorKind::kConflict,
              fmt::format("{}@v{}: two clones gave this number to {}{}", artifact, number, list, more),
              "`mlx pull --renumber` gives the local one the next free number");
}

void refuse_diverged_aliases(Repository& repository) {
  store::Statement select = repository.db().prepare(
      "SELECT artifact, alias FROM aliases GROUP BY artifact, alias HAVING count(DISTINCT digest) > 1"
      " ORDER BY artifact, alias LIMIT 1");
  if (!select.step()) return;
  const std::string artifact = select.text(0), alias = select.text(1);
  std::string list;
  for (const Version& version : named_by_alias(repository, artifact, alias))
    list += fmt::format("{}{} ({})", list.empty() ? "" : " and ", version.name(), version.digest.brief());
  throw Error(ErrorKind::kConflict, fmt::format("{}@{}: moved on both sides: {}", artifact, alias, list),
              fmt::format("choose one: mlx promote {}@vN {}", shell_quoted(artifact), shell_quoted(alias)));
}

}  // namespace

std::vector<Renumbered> settle_numbers(Repository& repository, bool renumber) {
  std::vector<Renumbered> all;
  while (renumber) {
    const std::optional<Renumbered> one = renumber_one(repository);
    if (!one) break;
    all.push_back(*one);
  }
  const std::vector<Contested> found = contested_numbers(repository.db());
  if (!found.empty()) number_conflict(repository.db(), found);
  refuse_diverged_aliases(repository);
  return all;
}

}  // namespace mlx::registry
