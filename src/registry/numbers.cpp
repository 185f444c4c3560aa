// Numbers that two clones gave to different content: found after a fetch, settled by giving the local version another
// number.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "registry/artifacts.h"
#include "registry/sync.h"

namespace mlx::registry {
namespace {

struct Claim {
  std::string artifact;
  std::int64_t number = 0;
  Digest digest;
  std::string actor;
};

// Of every number claimed for several digests: all claims, those of other clones first, then in the fixed order. The
// first one keeps the number.
std::vector<std::vector<Claim>> conflicts(Repository& repository) {
  store::Statement select = repository.db().prepare(
      "SELECT artifact, number, digest, actor FROM version_numbers a WHERE EXISTS (SELECT 1 FROM version_numbers b "
      "WHERE"
      " b.artifact = a.artifact AND b.number = a.number AND b.digest <> a.digest) ORDER BY artifact, number, seq");
  std::vector<std::vector<Claim>> found;
  while (select.step()) {
    Claim claim{select.text(0), select.int64(1), select.digest(2), select.text(3)};
    const bool same = !found.empty() && found.back().front().artifact == claim.artifact &&
                      found.back().front().number == claim.number;
    if (!same) found.emplace_back();
    found.back().push_back(std::move(claim));
  }
  const std::set<std::string>& own = repository.own_actors();
  for (std::vector<Claim>& claims : found)
    std::ranges::stable_partition(claims, [&](const Claim& claim) { return !own.contains(claim.actor); });
  return found;
}

// A number that this digest holds alone, or the artifact's next free one.
std::int64_t other_number(store::Database& db, const Claim& claim) {
  store::Statement own = db.prepare(
      "SELECT min(number) FROM version_numbers a WHERE artifact = ?1 AND digest = ?2 AND NOT EXISTS (SELECT 1 FROM "
      "version_numbers b"
      " WHERE b.artifact = ?1 AND b.number = a.number AND b.digest <> ?2)");
  if (own.bind(claim.artifact, claim.digest).step() && !own.null(0)) return own.int64(0);
  store::Statement next = db.prepare("SELECT max(number) + 1 FROM version_numbers WHERE artifact = ?");
  next.bind(claim.artifact).step();
  return next.int64(0);
}

// One at a time, each under the write lock; nullopt where none is left.
std::optional<Renumbered> renumber_one(Repository& repository) {
  Renumbered done;
  const auto operation = repository.record_with("version.renumber", [&](Json& body) {
    const auto found = conflicts(repository);
    if (found.empty()) return false;
    const Claim& loser = found.front().back();
    done = {loser.artifact, loser.digest, loser.number, other_number(repository.db(), loser)};
    body["artifact"] = done.artifact;
    body["digest"] = done.digest.text();
    body["from"] = done.from;
    body["to"] = done.to;
    return true;
  });
  return operation ? std::optional(done) : std::nullopt;
}

[[noreturn]] void number_conflict(const std::vector<Claim>& claims, std::size_t conflicts) {
  std::string list;
  for (const Claim& claim : claims) list += (list.empty() ? "" : " and ") + claim.digest.brief();
  const std::string more = conflicts > 1 ? fmt::format(" ({} more such)", conflicts - 1) : std::string();
  throw Error(
      ErrorKind::kConflict,
      fmt::format("{}@v{}: two clones gave this number to {}{}", claims[0].artifact, claims[0].number, list, more),
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
              fmt::format("say which one holds: mlx promote {}@vN {}", shell_quoted(artifact), shell_quoted(alias)));
}

}  // namespace

std::vector<Renumbered> settle_numbers(Repository& repository, bool renumber) {
  std::vector<Renumbered> all;
  while (renumber) {
    const std::optional<Renumbered> one = renumber_one(repository);
    if (!one) break;
    all.push_back(*one);
  }
  const auto found = conflicts(repository);
  if (!found.empty()) number_conflict(found.front(), found.size());
  refuse_diverged_aliases(repository);
  return all;
}

}  // namespace mlx::registry
