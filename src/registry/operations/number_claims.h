// Claims on version numbers, and which of two digests with the same number has to give way. Used when such a conflict
// is resolved, and when the resolution is applied.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/operations/ancestry.h"
#include "registry/operations/operation.h"

namespace mlx::registry {

struct NumberClaim {
  Digest digest;
  std::int64_t seq = 0;  // of the operation that made the claim
  std::string actor, maker;
  bool is_here = false;  // made in the clone that asks
};
std::vector<NumberClaim> claims_on(store::Database& db, const std::string& artifact, std::int64_t number,
                                   const std::string& clone = {});

// Picks which of several digests gives up the number. Criteria, each deciding ties of the one before: all of the
// digest's makers knew that the number was taken; the asking person made it; it was made in this clone; it is the last
// in the fixed order. nullopt if there is only one digest.
std::optional<Digest> digest_to_give_way(const std::vector<NumberClaim>& claims, const std::string& maker,
                                         Ancestry& ancestry);

}  // namespace mlx::registry
