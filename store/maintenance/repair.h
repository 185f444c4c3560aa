// Repairs a store with damaged packs: their undamaged objects are copied into new packs, and they are set aside. Lost
// objects are then missing instead of damaged, and can be stored or fetched again. Used by `mlx fsck --repair`, and by
// gc once something was erased.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "store/pack/store.h"

namespace mlx::store {

struct RepairReport {
  std::uint64_t saved_objects = 0;
  std::vector<std::string> set_aside;  // new paths of the damaged packs
  std::vector<ObjectRef> lost;         // known objects that no pack holds now
};

// `report` is what fsck has just found. kConflict if a gc runs. Nothing is removed but a damaged multi.idx, which is
// written again. If it is interrupted or killed, the store is as before or better.
RepairReport set_damage_aside(Store& store, const FsckReport& report, Progress& progress);

// Overwrites and removes the packs that were set aside, since erased content may stand in them in clear. Returns their
// number.
std::uint64_t shred_set_aside(Store& store);

}  // namespace mlx::store
