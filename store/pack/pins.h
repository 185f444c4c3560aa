// What this process relies on in a packs folder, so that a gc in another one leaves it; and the lock under which packs
// are pinned and removed (mlx-format-pack(5), REMOVING PACKS).
//
// A pin names a whole pack and holds as long as the Pins object: a store keeps one from its first write until it is
// closed, by which time whatever the command found present is named by a reference.
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

// packs/gc.lock: shared while packs are pinned, exclusive while they are removed, for moments in both cases. Whoever
// takes it first finishes a removal that a crash has left half done.
class RemovalLock {
 public:
  enum class How { kShared, kExclusive };
  RemovalLock(const std::string& folder, Disk& disk, How how);

 private:
  Fd fd_;
};

// packs/gc.running: one gc or repair at a time, for as long as what is returned; the kernel lets go of it whatever
// happens. kConflict where there is one.
Fd lock_removals(const std::string& folder, Disk& disk);

// Thread-safe.
class Pins {
 public:
  Pins(std::string folder, Disk& disk) : folder_(std::move(folder)), disk_(disk), file_(folder_, disk) {}
  // True where the pack is there, and stays from now on; false where it has been removed.
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

// What living processes have pinned. `everything` where a pin cannot be read: then nothing may be removed.
struct PinnedPacks {
  PackSet packs;
  bool everything = false;
  bool contains(const Digest& pack) const { return everything || packs.contains(pack); }
};
PinnedPacks read_pins(const std::string& folder);

// Packs that are being removed, named by packs/condemned: readers count them as gone. Empty where there is no such file
// or it is damaged.
PackSet condemned_packs(const std::string& folder);
// Removes packs as one step: after a crash all of them are there or none. Several are announced first, for which the
// disk needs room; a single one takes none. Needs the exclusive lock.
void remove_packs(const std::string& folder, const std::vector<Digest>& packs, Disk& disk);

}  // namespace mlx::store
