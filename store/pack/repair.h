// Makes a store with damaged packs sound again: what is whole in them is copied into new packs, and they are set aside.
// What is lost then is missing instead of damaged, and can be stored or fetched again. Used by `mlx fsck --repair`, and
// by gc once something was erased.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "store/pack/store.h"
#include "store/remote/remote.h"

namespace mlx::store {

struct RepairReport {
  std::uint64_t saved_objects = 0;
  std::vector<std::string> set_aside;  // paths of packs, as they are called now
  std::vector<ObjectRef> lost;         // known objects that are nowhere in the store now
};

// `report` is what fsck has just found. kConflict where a gc runs. Nothing is removed but a damaged multi.idx, which is
// made anew; interrupted or killed, it leaves the store as it was or better.
RepairReport set_damage_aside(Store& store, const FsckReport& report, Progress& progress);

// What was set aside goes for good, overwritten: what is erased may stand in it in clear. The number of packs.
std::uint64_t shred_set_aside(Store& store);

}  // namespace mlx::store
