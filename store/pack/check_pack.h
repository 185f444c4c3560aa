// Reading one pack through, byte by byte: what is whole in it, and what is wrong. Used by fsck and by repair.
#pragma once

#include <string>
#include <vector>

#include "store/crypto/keys.h"
#include "store/pack/codec.h"
#include "store/pack/index.h"

namespace mlx::store {

struct PackCheck {
  std::uint64_t objects = 0, bytes = 0;
  std::uint64_t locked = 0;  // encrypted, and no key for them: their checksums hold
  std::vector<std::string> problems;
  std::vector<std::string> unread;  // what the disk or a lack of memory kept from being looked at: no damage
  std::vector<ObjectKey> damaged;   // of those that the index names
  std::uint64_t lists = 0;          // chunk lists whose own bytes are whole
  bool readable = true;             // false where the index cannot be trusted: then the objects are not known
  bool gone = false;                // removed by a gc since the folder was listed
};
// `ring` may be null: then of encrypted objects only the checksums are looked at.
PackCheck check_pack(const std::string& path, const Digest& id, Codec& codec, const ReadBase& read_base,
                     const KeyRing* ring);

// The whole objects of a pack whose index cannot be trusted, found by the headers of its entries, in order.
std::vector<PackRecord> find_entries(const std::string& path);

}  // namespace mlx::store
