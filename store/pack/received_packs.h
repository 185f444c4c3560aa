// New packs with objects from elsewhere are read back before they are published: indexes, checksums, deltas with their
// bases, and the files of the chunk lists that came. Used by Batch::commit.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "store/format/pack_format.h"

namespace mlx::store {

class KeyRing;
struct StoreState;

struct ReceivedPack {
  std::string temporary;  // its path
  Digest id;
};
using ReceivedList = std::pair<Digest, ObjectKey>;  // a file's id, and what packs call its list

// kCorrupt if a delta's base is absent, or if a list does not make its file: the list's chunks must be in these packs
// or in the store. `ring` is nullptr for a plain store.
void verify_received(const StoreState& store, const KeyRing* ring, const std::vector<ReceivedPack>& packs,
                     const std::vector<ReceivedList>& lists);

}  // namespace mlx::store
