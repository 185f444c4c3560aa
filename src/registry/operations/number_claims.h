// Claims on the numbers of versions, and which of two digests with one number is to give way. Asked by whoever settles
// such a conflict, and by whoever applies what was settled.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/operations/ancestry.h"
#include "registry/operations/operation.h"

namespace mlx::registry {

struct NumberClaim {
  Digest digest;
  std::int64_t seq = 0;  // of the operation that made it
  std::string actor, maker;
  bool is_here = false;  // made in the clone that was asked for
};
std::vector<NumberClaim> claims_on(store::Database& db, const std::string& artifact, std::int64_t number,
                                   const std::string& clone = {});

// Of several digests: the one whose makers all knew that the number was another's; else the one that the asking person
// made; of theirs, or where none is, one that was made in their clone, by whomever; else the last in the fixed order.
// nullopt where there is one digest only.
std::optional<Digest> digest_to_give_way(const std::vector<NumberClaim>& claims, const std::string& maker,
                                         Ancestry& ancestry);

}  // namespace mlx::registry
