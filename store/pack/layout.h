// packs/FORMAT: which layout a store has, and whether it is encrypted (mlx-format-pack(5)). A small file in two copies;
// where both are lost the packs themselves say what it held. Used by store.cpp, fsck.cpp and repair.cpp.
#pragma once

#include <string>

#include "store/disk.h"

namespace mlx::store {

// Whether everything in its packs is encrypted. kNotFound where there is no store, kCorrupt where the file is lost or
// of a layout that this version does not know.
bool read_layout(const std::string& folder);
bool layout_is_damaged(const std::string& folder);  // a copy or both are lost, so that settle_layout writes it again
std::string layout_problem(const std::string& folder);  // one line, or "" where nothing is to be mended
// Makes the file where there is none, and whole again where a copy or both are lost: from the other copy, else as
// `encrypted` says. A layout that this version does not know is left alone.
void settle_layout(const std::string& folder, Disk& disk, bool encrypted);
// Writes it again in a repository where both copies are lost: the packs say whether it was encrypted, and `if_empty`
// where there are none. True where it did.
bool repair_layout(const std::string& folder, Disk& disk, bool if_empty);
bool holds_encrypted_packs(const std::string& folder);  // as far as they can be read

}  // namespace mlx::store
