// Pins keep packs that this process relies on from being removed by a gc in another process. Packs are pinned and
// removed under a lock (mlx-format-pack(5), REMOVING PACKS).
//
// A pin names a whole pack and holds as long as the Pins object. A store keeps one from its first write until it is
// closed; by then references name everything that the command found present.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/hash.h"
#include "store/disk.h"
#include "store/temporary.h"

namespace mlx::store {

using PackSet = std::unordered_set<Digest, DigestHash>;

// packs/gc.lock: shared while packs are pinned, exclusive while they are removed; held only for moments. Taking it
// first finishes a removal that a crash left half done.
class RemovalLock {
 public:
  enum class How { kShared, kExclusive };
  RemovalLock(const std::string& folder, Disk& disk, How how);

 private:
  Fd fd_;
};

// packs/gc.running: one gc or repair at a time, while the returned descriptor is open; the kernel releases it if the
// process dies. kConflict if one runs.
Fd lock_removals(const std::string& folder, Disk& disk);

// Thread-safe.
class Pins {
 public:
  Pins(std::string folder, Disk& disk) : folder_(std::move(folder)), disk_(disk), file_(folder_, disk) {}
  // True if the pack is there, and will stay; false if it has been removed.
  bool pin(const Digest& pack);
  // Packs that are about to be renamed into place.
  void pin_new(const std::vector<Digest>& packs);

 private:
  bool holds(const Digest& pack) const;
  void write(const std::vector<Digest>& packs);
  std::string folder_;
  Disk& disk_;
  std::mutex writing_;
  TemporaryFiles file_;
  mutable std::shared_mutex mutex_;
  PackSet held_;
};

// The pins of living processes. `everything` is set if a pin cannot be read: then nothing may be removed.
struct PinnedPacks {
  PackSet packs;
  bool everything = false;
  bool contains(const Digest& pack) const { return everything || packs.contains(pack); }
};
PinnedPacks read_pins(const std::string& folder);

// The packs in packs/condemned, which are being removed: readers count them as gone. Empty if the file is absent or
// damaged.
PackSet condemned_packs(const std::string& folder);
// Removes packs as one step: after a crash all of them are there or none. Several are announced first, which needs room
// on the disk; a single one is not. Needs the exclusive lock.
void remove_packs(const std::string& folder, const std::vector<Digest>& packs, Disk& disk);

}  // namespace mlx::store
