// The random id of a clone, .mlx/actor: with a person's key it makes the id of an actor.
#pragma once

#include <string>
#include <string_view>

#include "store/disk.h"

namespace mlx::registry {

std::string clone_id_path(const std::string& mlx_folder);
void make_clone_id(const std::string& mlx_folder, store::Disk& disk);  // where there is none
// kCorrupt, with the way out, where the file is damaged.
std::string read_or_make_clone_id(const std::string& mlx_folder, store::Disk& disk);
std::string clone_id_problem(const std::string& mlx_folder);  // one line where it is damaged; "" where it is not

void write_small_text(store::Disk& disk, const std::string& path, std::string_view text, mode_t mode);

}  // namespace mlx::registry
