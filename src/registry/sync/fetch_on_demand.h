// Content on demand, for clones that were made without it (`mlx clone --filter`, setting fetch.filter): what is read
// and not here is fetched from the remote.
#pragma once

#include "base/progress.h"
#include "registry/repository.h"

namespace mlx::registry {

bool is_lazy(Repository& repository);
// Fetches at once what the store lacks of a version, or of those of its files that `wanted` names; nothing where the
// clone is not lazy. kNotFound where the remote lacks it too.
void fetch_on_demand(Repository& repository, const Digest& manifest, Progress& progress);
void fetch_on_demand(Repository& repository, const std::vector<store::Entry>& wanted, Progress& progress);

// Fetches the list of files of a version from the remote, whether the clone is lazy or not. False where there is no
// remote, or it cannot be reached or lacks it.
bool fetch_files_of(Repository& repository, const Digest& manifest);

// The same of its content, as far as it is not here; nothing in a lazy clone, which fetches what it needs. False where
// some of it could not be had.
bool fetch_content_of(Repository& repository, const Digest& manifest, Progress& progress);

// Sees that the list of files of a version, called `name`, can be read: a lazy clone fetches it. kRefused where it was
// erased; kNotFound, with the command that fetches it, where it is not here.
void need_files_of(Repository& repository, const std::string& name, const Digest& manifest);

// What Store::on_missing calls. False where the clone is not lazy or the remote lacks one.
bool fetch_missing(Repository& repository, const std::vector<store::Store::Missing>& objects);

}  // namespace mlx::registry
