// See number_claims.h. Reads the projected table of claims.
#include "registry/operations/number_claims.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace mlx::registry {

std::vector<NumberClaim> claims_on(store::Database& db, const std::string& artifact, std::int64_t number,
                                   const std::string& clone) {
  store::Statement select = db.prepare(
      "SELECT n.digest, n.seq, n.actor, o.signer FROM version_numbers n JOIN operations o ON o.seq = n.seq"
      " WHERE n.artifact = ? AND n.number = ? ORDER BY n.digest, n.seq");
  std::vector<NumberClaim> claims;
  for (select.bind(artifact, number); select.step();) {
    const std::string actor = select.text(2);
    if (select.null(3)) {  // an unsigned operation's actor was the clone's id
      claims.push_back({select.digest(0), select.int64(1), actor, actor, actor == clone});
    } else {
      const Digest signer = select.digest(3);
      claims.push_back({select.digest(0), select.int64(1), actor, signer.hex(), actor == actor_of(clone, signer)});
    }
  }
  return claims;
}

std::optional<Digest> digest_to_give_way(const std::vector<NumberClaim>& claims, const std::string& maker,
                                         Ancestry& ancestry) {
  using Rank = std::tuple<bool, bool, bool, std::int64_t>;  // a digest ranks as its claim with the lowest rank
  std::map<Digest, Rank> ranks;
  for (const NumberClaim& claim : claims) {
    const bool late = std::ranges::any_of(claims, [&](const NumberClaim& other) {
      return other.digest != claim.digest && ancestry.precedes(other.seq, claim.seq);
    });
    const Rank rank(late, claim.maker == maker, claim.is_here, claim.seq);
    const auto [known, fresh] = ranks.emplace(claim.digest, rank);
    if (!fresh) known->second = std::min(known->second, rank);
  }
  if (ranks.size() < 2) return std::nullopt;
  return std::ranges::max_element(ranks, {}, [](const auto& one) { return one.second; })->first;
}

}  // namespace mlx::registry
