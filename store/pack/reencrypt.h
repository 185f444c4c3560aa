// Content that stays when keys go: stored again under the current key of its domain. Used when a domain is erased in
// which versions stand that the erasure does not name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/pack/store.h"

namespace mlx::store {

// Objects of these versions that cannot be read without one of `keys`, as far as they are here.
using ObjectsOfVersions = std::vector<std::pair<ObjectKind, Digest>>;
ObjectsOfVersions readable_only_with(const Store& store, const std::vector<Digest>& manifests,
                                     const std::vector<std::uint32_t>& keys);
// Durable when it returns. kRefused where the domain has no current key.
void reencrypt(Store& store, const ObjectsOfVersions& objects, const std::string& domain);

}  // namespace mlx::store
