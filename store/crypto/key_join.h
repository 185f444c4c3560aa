// Two files of one ring that diverged in two clones, made one.
#pragma once

#include <vector>

#include "store/crypto/key_changes.h"

namespace mlx::store {

// Joins diverged files (key_chain.h): the keys of both, for the members that join_members() returns. A member who left
// on either side gets no new key. kRefused if the member who unlocked them is not a member on both sides.
UnlockedKeys join(const UnlockedKeys& ours, const UnlockedKeys& theirs, std::int64_t now);
// Whether `file` has an erased key that is not erased in `other` and not in `gone`.
bool lacks_keys_of(const KeyFile& file, const KeyFile& other, const std::vector<std::uint32_t>& gone);
// Restores the keys that are erased in `keys` but not in `from`, except those in `gone`; true if there were any.
bool put_back(UnlockedKeys& keys, const UnlockedKeys& from, const std::vector<std::uint32_t>& gone);

}  // namespace mlx::store
