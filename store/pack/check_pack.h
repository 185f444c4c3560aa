// Verifies one pack, byte by byte. Used by fsck and by repair.
#pragma once

#include <string>
#include <vector>

#include "base/interruption.h"
#include "store/crypto/keys.h"
#include "store/format/codec.h"
#include "store/pack/index.h"

namespace mlx::store {

struct PackCheck {
  std::uint64_t objects = 0, bytes = 0;
  std::uint64_t locked = 0;  // encrypted, and their key is not here: only their checksums were verified
  std::vector<std::string> problems;
  std::vector<std::string> unread;  // not verified because the disk failed or memory was short: no damage
  std::vector<ObjectKey> damaged;   // those that the index names
  std::uint64_t lists = 0;          // chunk lists whose own bytes are whole
  bool readable = true;             // false if the index is damaged: then the objects are not known
  bool gone = false;                // removed by a gc since the folder was listed
};
// If `ring` is null, only the checksums of encrypted objects are verified.
PackCheck check_pack(const std::string& path, const Digest& id, Codec& codec, const ReadBase& read_base,
                     const KeyRing* ring, const Interruption& interruption);

// The undamaged objects of a pack whose index is damaged, found by the headers of its entries, in order.
std::vector<PackRecord> find_entries(const std::string& path);

}  // namespace mlx::store
