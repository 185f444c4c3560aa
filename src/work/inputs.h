// What a work command starts from: the version that a reference means, of the kind that the command takes.
#pragma once

#include <string>

#include "registry/versions/artifacts.h"

namespace mlx::work {

// kUsage where the reference names the other kind. A bare dataset name means what its pointer names; where the folder
// differs from that there is a warning, since work reads the version and not the folder.
registry::Version resolve_dataset(registry::Repository& repository, const std::string& reference, Progress& progress);
registry::Version resolve_model(registry::Repository& repository, const std::string& reference);

}  // namespace mlx::work
