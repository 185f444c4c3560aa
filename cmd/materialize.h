// Puts the files of a version into a folder; shared by checkout and pull.
#pragma once

#include <string>

#include "cmd/cli.h"
#include "registry/artifacts.h"

namespace mlx::cmd {

// Whether `manifest` is of a single file that was added as an artifact of this name, and not of a folder (cmd/add.cpp
// refuses the folders that look so).
bool is_single_file(registry::Repository& repository, const Digest& manifest, const std::string& artifact);

// Makes `path` (absolute) be the dataset's folder or file. What is there and in no version is kConflict unless `force`.
void materialize(registry::Repository& repository, const Digest& manifest, const std::string& artifact,
                 const std::string& path, bool force, Context& context);

}  // namespace mlx::cmd
