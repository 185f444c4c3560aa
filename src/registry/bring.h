// Content on demand, for clones that were made without it (`mlx clone --filter`, setting fetch.filter): what is read
// and not here is fetched from the remote.
#pragma once

#include "base/progress.h"
#include "registry/repository.h"

namespace mlx::registry {

bool is_lazy(Repository& repository);
// Fetches at once what the store lacks of a version, or of those of its files that `wanted` names; nothing where the
// clone is not lazy. kNotFound where the remote lacks it too.
void bring(Repository& repository, const Digest& manifest, Progress& progress);
void bring(Repository& repository, const std::vector<store::Entry>& wanted, Progress& progress);

// What Store::on_missing calls. False where the clone is not lazy or the remote lacks one.
bool bring_objects(Repository& repository, const std::vector<std::pair<store::ObjectKind, Digest>>& objects);

}  // namespace mlx::registry
