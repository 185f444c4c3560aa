// Stores content again under the current key of its domain, before other keys of the domain are erased. Used if the
// domain has versions that the erasure does not name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/pack/store.h"

namespace mlx::store {

// Those objects of these versions that are here and cannot be read without one of `keys`.
using ObjectsOfVersions = std::vector<std::pair<ObjectKind, Digest>>;
ObjectsOfVersions readable_only_with(const Store& store, const std::vector<Digest>& manifests,
                                     const std::vector<std::uint32_t>& keys);
// Durable when it returns. kRefused if the domain has no current key.
void reencrypt(Store& store, const ObjectsOfVersions& objects, const std::string& domain);

}  // namespace mlx::store
