// Resolves the inputs of a work command: references to versions of the kind that the command takes.
#pragma once

#include <string>

#include "registry/versions/artifacts.h"

namespace mlx::work {

// Throws kUsage if the reference names the other kind. A bare dataset name means what its pointer names. Warns if the
// folder differs from that version, because work reads the version and not the folder.
registry::Version resolve_dataset(registry::Repository& repository, const std::string& reference, Progress& progress);
registry::Version resolve_model(registry::Repository& repository, const std::string& reference);

}  // namespace mlx::work
