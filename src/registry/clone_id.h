// The random id of a clone, stored in .mlx/actor. An actor's id is made of it and the person's key.
#pragma once

#include <string>
#include <string_view>

#include "store/disk.h"

namespace mlx::registry {

std::string clone_id_path(const std::string& mlx_folder);
void make_clone_id(const std::string& mlx_folder, store::Disk& disk);  // only if the clone has none yet
// Throws kCorrupt if the file is damaged; the hint says how to recover.
std::string read_or_make_clone_id(const std::string& mlx_folder, store::Disk& disk);
std::string clone_id_problem(const std::string& mlx_folder);  // one line if the file is damaged, else ""

void write_small_text(store::Disk& disk, const std::string& path, std::string_view text, mode_t mode);

}  // namespace mlx::registry
