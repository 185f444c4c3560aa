// What verification of a whole store finds. Store::fsck calls it; repair and gc act on the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/progress.h"
#include "store/format/pack_format.h"

namespace mlx::store {

struct StoreState;

struct DamagedObject {
  Digest pack;
  ObjectKind kind = ObjectKind::kChunk;
  Digest id;  // storage id
};

struct FsckReport {
  std::uint64_t packs = 0, objects = 0, bytes = 0;
  std::vector<std::string> problems;  // one line each: pack, offset, what
  std::vector<Digest> damaged;        // ids of objects that cannot be read in at least one pack
  std::vector<DamagedObject> damaged_objects;
  std::vector<Digest> damaged_packs;  // also those with a damaged index, whose objects are not known
  bool multi_damaged = false;
  std::uint64_t locked = 0;  // encrypted, and their key is erased or not unlocked; only checksums were verified
};

// Reads and verifies every byte. Throws only if the folder cannot be read (kIo) or the work is interrupted.
FsckReport check_store(const StoreState& store, Progress& progress);

}  // namespace mlx::store
