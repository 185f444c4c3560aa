// Writes files for another program: all of them or none. Used by export_model.cpp.
#pragma once

#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "convert/outside_file.h"

namespace mlx::cmd {

// What stands at `path` if the files are there, byte for byte, and nothing else: they need not be written again. False
// if there is nothing, or an empty folder for a folder. kConflict if there is something else, kNotFound if the folder
// around is not there. `path` is absolute; `folder`: it is one with all files, else it is the one file.
bool is_written(const std::string& path, bool folder, const std::vector<convert::OutsideFile>& files, Context& context);
// They are made beside the place and moved there when they are whole and on the disk.
void write_outside(const std::string& path, bool folder, const std::vector<convert::OutsideFile>& files,
                   Context& context);

}  // namespace mlx::cmd
