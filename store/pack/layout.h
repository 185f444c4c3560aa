// packs/FORMAT: a store's layout, and whether it is encrypted (mlx-format-pack(5)). A small file in two copies; if both
// are lost, the packs themselves show what it said. Used by store.cpp, fsck.cpp and repair.cpp.
#pragma once

#include <string>

#include "store/disk.h"

namespace mlx::store {

// Whether everything in its packs is encrypted. kNotFound if there is no store, kCorrupt if the file is lost or
// of a layout that this version does not know.
bool read_layout(const std::string& folder);
bool layout_is_damaged(const std::string& folder);  // a copy or both are lost, so that settle_layout writes it again
std::string layout_problem(const std::string& folder);  // one line, or "" if nothing is wrong
// Writes the file if it is absent, and again if a copy is lost: from the other copy, or as `encrypted` says if both are
// lost. A layout that this version does not know is left alone.
void settle_layout(const std::string& folder, Disk& disk, bool encrypted);
// If both copies are lost in a repository, writes them again. The packs show whether it was encrypted; `if_empty` says
// so if there are no packs. True if it wrote them.
bool repair_layout(const std::string& folder, Disk& disk, bool if_empty);
bool holds_encrypted_packs(const std::string& folder);  // as far as they can be read

}  // namespace mlx::store
